"""What holds of ``unit/subscriptions/store/test_secret_certificates.py`` in PostgreSQL too."""

from kit.tests_again import again

globals().update(
    again(
        "unit/subscriptions/store/test_secret_certificates.py", using=("store", "directory", "url")
    )
)
