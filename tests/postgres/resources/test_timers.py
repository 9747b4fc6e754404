"""What holds of ``unit/subscriptions/timers/test_timers.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(again("unit/subscriptions/timers/test_timers.py", using=("world",)))
