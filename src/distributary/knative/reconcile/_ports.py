"""Ports of the reconciler: routes, the ingest process, and what is set about deliveries."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from distributary.access import PolicyRecord
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


class Gatekeeper(Protocol):
    """Who decides which senders may send what."""

    @property
    def required(self) -> bool:
        """Whether senders must show who they are; else no policy counts."""

    def change_policies(self, policies: Sequence[PolicyRecord]) -> int:
        """Decide by *policies* from now on, in every process.

        Returns:
            Number of this change, above those of earlier ones, also of other processes.

        Raises:
            StoreError: They cannot be told; call it again.
        """

    def decided(self) -> int:
        """Number of a change by which, or by a later one, every receiver decides now."""


class Halt(Protocol):
    """Why nothing is sent to a route."""

    @property
    def disabled(self) -> bool:
        """True: it is disabled; False: it is paused."""

    @property
    def since_ms(self) -> int:
        """Since when, wall clock, milliseconds."""

    @property
    def why(self) -> str:
        """By whom or for what reason, for people."""


class Steering(Protocol):
    """Pauses, replays and retries routes. Blocking: call it in a thread.

    Methods raise ``StoreError`` where the store cannot do it now.
    """

    def known(self) -> Mapping[str, Mapping[str, str]]:
        """The orders that were carried out, by uid."""

    def obey(self, uid: str, namespace: str, orders: Mapping[str, str]) -> str | None:
        """Carry out new *orders*; returns why one could not be, for people."""

    def halted(self, uid: str) -> Halt | None:
        """Why nothing is sent to a route; None: it is not halted."""

    def changed(self, after: int) -> tuple[int, Mapping[str, Halt | None]]:
        """What holds since changes after number *after*, by uid, and the newest number.

        Numbers begin at 1. Routes of others may be among them.
        """
