"""What holds of ``unit/subscriptions/store/test_lifecycle.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/subscriptions/store/test_lifecycle.py", using=("outbox", "store", "do"))
)
