"""The conventions of the Kubernetes API, as pure functions over JSON objects.

Called by ``apiserver.objects`` (metadata) and ``apiserver.http`` (everything else). Independent of
concrete kinds, which ``Kind`` and ``knative.kinds`` describe. Only the shared types are exported
here; import the rest from its module.
"""

from distributary.knative.apiserver.machinery._kind import Column, Key, Kind, Object
from distributary.knative.apiserver.machinery.status import Cause, StatusError, conflict, invalid
