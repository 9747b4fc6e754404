"""Limits on the size of objects and bodies."""

from typing import Final

OBJECT_BYTES_MAX: Final = 1024 * 1024
"""Largest object, bytes: its JSON, metadata included, and the values of a Secret. The API server's
store (etcd) refuses writes above 1.5 MiB; Kubernetes promises 1 MiB for a ConfigMap or a Secret."""

BODY_BYTES_MAX: Final = 2 * OBJECT_BYTES_MAX
"""Largest body, bytes. YAML and indented JSON are larger than the stored object; the API server
accepts 3 MiB."""

DEPTH_MAX: Final = 100
"""Deepest nesting of arrays and objects, as in the Subscriptions API. Filters nest 32 deep, two
levels each, in a Trigger at depth 3; the interpreter's stack allows ten times as much."""

VALUES_MAX: Final = 50_000
"""Values in a body, or in the result of a patch: members and items at all levels. A megabyte could
hold ten times as many; no real object does, and parsing them would block the process for
seconds."""

DUPLICATES_MAX: Final = 100
"""Duplicate members that are reported; each is a line of a warning."""
