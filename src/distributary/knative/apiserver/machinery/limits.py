"""How large objects and bodies may be."""

from typing import Final

OBJECT_BYTES_MAX: Final = 1024 * 1024
"""Largest object as JSON, everything counted. The API server's own store (etcd) refuses above
1.5 MiB with all that a write carries; 1 MiB is what Kubernetes promises for a ConfigMap."""

BODY_BYTES_MAX: Final = 2 * OBJECT_BYTES_MAX
"""Largest body. Written in YAML, or indented, an object takes more room than as it is stored; the
API server takes 3 MiB."""

DEPTH_MAX: Final = 100
"""Deepest nesting of arrays and objects, as in the Subscriptions API. Filters nest 32 deep, two
levels each, in a Trigger at depth 3; the interpreter's stack takes ten times as much."""

VALUES_MAX: Final = 50_000
"""Values in a body, or in what a patch leaves: members, items, and what they are made of. A
megabyte has room for ten times as many, none of which means anything; the interpreter reads them
in one go, and for seconds nothing else happens in the process."""

DUPLICATES_MAX: Final = 100
"""Members standing twice that are named; each is a line of a warning."""
