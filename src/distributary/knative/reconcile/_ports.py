"""What the reconciler needs from its neighbours."""

from collections.abc import Callable, Sequence
from typing import Protocol

from distributary.knative.apiserver.machinery import Key, Kind, Object, StatusError
from distributary.knative.apiserver.objects import Change, Stored, Write
from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import AppliedRoute, RouteChange


class Objects(Protocol):
    """The objects: ``apiserver.objects.Objects``."""

    def get(self, key: Key) -> Stored | None:
        """The object of this name; None: there is none."""
        ...

    def list(self, kind: Kind, namespace: str | None = None) -> tuple[list[Stored], int]:
        """All objects of a kind, and the version of the store."""
        ...

    def on_change(self, told: Callable[[Change], None]) -> None:
        """Call *told* for each change, in order, on the loop, after its commit."""
        ...

    async def put(
        self, key: Key, change: Callable[[Object | None], Object], write: Write = ...
    ) -> tuple[Stored, bool]:
        """Change an object, or make it where there is none."""
        ...

    async def edit_all(
        self, edits: Sequence[tuple[Key, Callable[[Object], Object]]], write: Write = ...
    ) -> "Sequence[Stored | StatusError]":
        """Change objects in one transaction; each is refused for itself.

        Raises:
            StoreError: Nothing was written.
        """
        ...


class Routes(Protocol):
    """Makes routes stand: ``subscriptions.store.Leader``."""

    async def routes(self) -> dict[str, ActiveRoute]:
        """The routes in the store, all of which stand in the whole log, by uid.

        Raises:
            StoreError, LogUnavailableError: Not now; ask again.
        """
        ...

    async def submit(self, change: RouteChange) -> AppliedRoute:
        """Make *change*; returns when it stands in the store and in the whole log.

        Raises:
            ResourceError: Refused.
            LogUnavailableError, StoreError, RequestError: Not now; ask for the same again.
        """
        ...


class Ingress(Protocol):
    """The receiver of events."""

    async def look_again(self) -> None:
        """Returns when it has read the addresses that the store holds now.

        Raises:
            LogUnavailableError: It does not answer, or could not read them.
        """
        ...
