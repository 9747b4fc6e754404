"""Desired state: the resources, their store, and the route changes that follow from them.

Called by ``subscriptions`` and ``knative`` (operations) and ``partitions`` (targets). Hides the
database, the order in which store and log are written, how concurrent changes share a transaction
and an append, and how a half-made change is rolled forward. It needs one thing from its
surroundings: a ``RouteAppender``.
"""

from distributary.routes._history import RouteChanges
from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import AppliedRoute, DropRoute, PutRoute, RouteChange
from distributary.routes.settings import RouteEndpoint, RouteSettings
