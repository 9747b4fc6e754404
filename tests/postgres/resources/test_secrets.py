"""What holds of ``unit/subscriptions/store/test_secrets.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/subscriptions/store/test_secrets.py", using=("store", "directory", "url"))
)
