"""What holds of ``unit/subscriptions/timers/test_expiry.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(again("unit/subscriptions/timers/test_expiry.py", using=("world", "unstarted")))
