"""Desired state of Knative's kinds -> routes -> status.

Called by ``server`` (starts it) and ``apiserver.http`` (waits until a change is settled). Hides how
destinations are resolved, which objects depend on which, and in which order routes and statuses are
written. It needs the objects, the leader that makes routes stand, and the receiver of events.
"""

from distributary.knative.reconcile._ports import Ingress
from distributary.knative.reconcile._reconciler import Reconciler
from distributary.knative.reconcile._site import Site
