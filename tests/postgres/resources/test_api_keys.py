"""What holds of ``unit/subscriptions/api_keys/test_store.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(again("unit/subscriptions/api_keys/test_store.py", using=("open_keys",)))
