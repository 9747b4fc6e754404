"""The reconciler: turns Brokers, Triggers, Channels and Subscriptions into routes and statuses.

Called by ``server`` (starts it) and ``apiserver.http`` (waits until a change is settled). Hides how
destinations are resolved, which objects depend on which, and the order in which routes and
statuses are written. Needs the objects, the leader of the resource store, and the ingest process.
"""

from distributary.knative.reconcile._failures import FailureFiles
from distributary.knative.reconcile._ports import Gatekeeper
from distributary.knative.reconcile._reconciler import Reconciler
from distributary.knative.reconcile._site import Site
