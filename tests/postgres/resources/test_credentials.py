"""What holds of ``unit/subscriptions/store/test_credentials.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/subscriptions/store/test_credentials.py", using=("store", "rows", "url"))
)
