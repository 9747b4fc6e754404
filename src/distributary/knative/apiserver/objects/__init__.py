"""The objects of the Kubernetes API: their store, the one who writes them, and who watches.

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
from distributary.knative.apiserver.objects._objects import (
    OBJECTS_JSON_BYTES_MAX,
    OBJECTS_MAX,
    Objects,
)
from distributary.knative.apiserver.objects._refusals import not_found
from distributary.knative.apiserver.objects._requests import Admit, Default
from distributary.knative.apiserver.objects._sweeper import EVENT_KEPT_S, EVENTS_MAX, SWEEP_S
from distributary.knative.apiserver.objects._transaction import NAME_TRIES_MAX
from distributary.knative.apiserver.objects._values import Change, ChangeType, Stored, Write
from distributary.knative.apiserver.objects._watch import BATCH_MAX, Watch
from distributary.knative.apiserver.objects._watch_window import (
    CHANGES_KEPT_MAX,
    JSON_KEPT_BYTES_MAX,
    WAKE_S,
    WAKE_S_MAX,
)
from distributary.knative.apiserver.objects._writer import RETRY_AFTER_S, WAITING_MAX, timestamp

__all__ = [
    "BATCH_MAX",
    "CHANGES_KEPT_MAX",
    "DEFAULT_BROKER",
    "EVENTS_MAX",
    "EVENT_KEPT_S",
    "JSON_KEPT_BYTES_MAX",
    "NAME_TRIES_MAX",
    "OBJECTS_JSON_BYTES_MAX",
    "OBJECTS_MAX",
    "RETRY_AFTER_S",
    "SWEEP_S",
    "WAITING_MAX",
    "WAKE_S",
    "WAKE_S_MAX",
    "AddressBook",
    "Admit",
    "Change",
    "ChangeType",
    "Default",
    "Objects",
    "Stored",
    "Watch",
    "Write",
    "not_found",
    "own_address",
    "path_of",
    "timestamp",
]
