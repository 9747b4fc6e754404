"""What holds of ``unit/subscriptions/store/test_consent_rows.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/subscriptions/store/test_consent_rows.py", using=("consents", "store", "url"))
)
