"""What holds of ``unit/knative/apiserver/objects/test_secrets.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/knative/apiserver/objects/test_secrets.py", using=("world", "make_world"))
)
