"""What holds of ``unit/knative/apiserver/objects/test_owners.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/knative/apiserver/objects/test_owners.py", using=("world", "make_world"))
)
