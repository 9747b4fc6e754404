"""The object store of the Kubernetes API: objects in memory and in SQLite, one writer, watches.

Called by ``apiserver.http`` and ``reconcile``; ``server`` reads the ``AddressBook`` for the
ingest process. Hides the tables, how writes share a transaction, resource versions, and the window
of changes that watches are served from.
"""

from distributary.knative.apiserver.objects._addresses import (
    DEFAULT_BROKER,
    AddressBook,
    own_address,
    path_of,
)
from distributary.knative.apiserver.objects._objects import Objects
from distributary.knative.apiserver.objects._sweeper import EVENT_KEPT_S
from distributary.knative.apiserver.objects._values import ObjectChange, Permit, Stored, Write
from distributary.knative.apiserver.objects._watch import BATCH_MAX, Watch
from distributary.knative.apiserver.objects._writer import timestamp
