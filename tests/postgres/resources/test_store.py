"""What holds of ``unit/subscriptions/store/test_store.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(again("unit/subscriptions/store/test_store.py", using=("store", "url")))
