"""What holds of ``unit/knative/apiserver/objects/test_namespaces.py`` in SQLite, in PostgreSQL."""

from kit.tests_again import again

globals().update(
    again("unit/knative/apiserver/objects/test_namespaces.py", using=("world", "make_world"))
)
