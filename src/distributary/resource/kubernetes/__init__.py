"""The conventions of the Kubernetes API, as pure functions over JSON objects.

Called by ``control.objects`` (metadata), ``api.kubernetes`` (everything else). Knows no kind of
ours: what is particular to one stands in its ``Kind`` or in ``resource.knative``.
"""

from distributary.resource.kubernetes._kind import Column, Key, Kind, Object
from distributary.resource.kubernetes._status_error import REASONS, Cause, StatusError

__all__ = ["REASONS", "Cause", "Column", "Key", "Kind", "Object", "StatusError"]
