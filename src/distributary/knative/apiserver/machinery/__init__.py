"""The conventions of the Kubernetes API, as pure functions over JSON objects.

Called by ``apiserver.objects`` (metadata) and ``apiserver.http`` (everything else). Knows no kind
of ours: what is particular to one stands in its ``Kind`` or in ``knative.kinds``. Here stand the
words that all share; the rest is read from the module that has it.
"""

from distributary.knative.apiserver.machinery._kind import Column, Key, Kind, Object
from distributary.knative.apiserver.machinery.status import Cause, StatusError, conflict, invalid
