"""Ports of the reconciler: routes and the ingest process."""

from typing import Protocol

from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import AppliedRoute, RouteChange


class Routes(Protocol):
    """Stores and announces routes; implemented by ``subscriptions.store.Leader``."""

    async def routes(self) -> dict[str, ActiveRoute]:
        """All active routes by uid; their records are in every partition of the log.

        Raises:
            StoreError, LogUnavailableError: Temporary; call again.
        """

    async def submit(self, change: RouteChange) -> AppliedRoute:
        """Make *change*; returns when the store and every partition of the log have it.

        Raises:
            ResourceError: Refused.
            LogUnavailableError, StoreError, RequestError: Temporary; submit the same again.
        """


class Ingress(Protocol):
    """The process that receives events."""

    async def look_again(self) -> None:
        """Read the addresses from the store again; returns when done.

        Raises:
            LogUnavailableError: It does not answer, or could not read them.
        """
