"""Routes in the resource store: its tables, changes of routes, and the batched write loop.

Called by ``subscriptions`` and ``knative``, which change routes, and by ``partitions``, which reads
delivery settings and missed changes. Hides how routes are stored and how writes share a batch.
"""

from distributary.routes._history import RouteChanges
from distributary.routes.changes import DropRoute, PutRoute
from distributary.routes.settings import RouteEndpoint, RouteSettings
