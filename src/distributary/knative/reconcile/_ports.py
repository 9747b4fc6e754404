"""What the reconciler needs from its neighbours."""

from typing import Protocol

from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import AppliedRoute, RouteChange


class Routes(Protocol):
    """Makes routes stand: ``subscriptions.store.Leader``."""

    async def routes(self) -> dict[str, ActiveRoute]:
        """The routes in the store, all of which stand in the whole log, by uid.

        Raises:
            StoreError, LogUnavailableError: Not now; ask again.
        """

    async def submit(self, change: RouteChange) -> AppliedRoute:
        """Make *change*; returns when it stands in the store and in the whole log.

        Raises:
            ResourceError: Refused.
            LogUnavailableError, StoreError, RequestError: Not now; ask for the same again.
        """


class Ingress(Protocol):
    """The receiver of events."""

    async def look_again(self) -> None:
        """Returns when it has read the addresses that the store holds now.

        Raises:
            LogUnavailableError: It does not answer, or could not read them.
        """
