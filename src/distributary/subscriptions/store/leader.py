"""Writer loop of the control leader: each change goes to the store, then to every partition's log.

Changes that arrive while one batch is in flight share the next transaction and the next append. A
batch that the log refused stays pending in the store; it is rolled forward, in the order of its
numbers, before anything else is stored, so no partition ever sees another order (DESIGN rule 4,
route records). Readers skip numbers that they have seen: rolling forward twice is harmless.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias, overload

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import (
    DistributaryError,
    LogError,
    LogUnavailableError,
    RequestError,
    StoreError,
)
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import AppliedRoute, RouteChange
from distributary.routes.write_loop import PendingWrite, WriteLoop
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import (
    Applied,
    Change,
    ChangePendingError,
    Delete,
    Put,
    Rotate,
)

BATCH_MAX: Final = 256
"""Most changes in one transaction, which holds the store for some 20 ms."""

WAITING_MAX: Final = 10_000
"""Most waiting changes: ten seconds' worth; beyond that callers are refused."""

ROLL_FORWARD_MAX: Final = 1_000
"""Most pending records appended by one call."""

RETRY_WAIT_S: Final = 1.0
"""Between two tries to roll forward while no change arrives, seconds."""

_log = structlog.get_logger(__name__)


class RouteAppender(Protocol):
    """Appends route records to the log."""

    async def agree(self) -> None:
        """Have the store go on after the changes that the log has, before the first new one.

        Raises:
            LogError, StoreError: Not now; the caller tries again, and makes no change until then.
        """

    async def append_routes(self, bodies: Sequence[bytes]) -> None:
        """Append *bodies*, in their order, to every partition.

        Returns when all of them are durable in every partition.

        Raises:
            LogUnavailableError: Some partition did not accept some of them. Others may have; the
                caller appends all of them again later, in the same order.
        """

    async def look_again(self) -> None:
        """Have the receivers read the paths that accept events again.

        Raises:
            LogUnavailableError: Some receiver did not; it does so within a second.
        """


_Waiting: TypeAlias = PendingWrite[Change, Applied | AppliedRoute]


class Leader:
    """Makes changes in batches, one after the other. One per store, in one process.

    Args:
        store: Gets the changes.
        appender: Appends their route records.
        clock: For stamps.
        retry_wait_s: See ``RETRY_WAIT_S``.
    """

    def __init__(
        self,
        store: Store,
        appender: RouteAppender,
        clock: Clock,
        *,
        retry_wait_s: float = RETRY_WAIT_S,
    ) -> None:
        self._store = store
        self._appender = appender
        self._clock = clock
        self._retry_wait_s = retry_wait_s
        self._opened = {DEFAULT_NAMESPACE}  # the receivers know their paths
        self._behind: LogError | StoreError | None = LogUnavailableError("not started yet")
        self._agreed = False
        self._loop: WriteLoop[Change, Applied | AppliedRoute] = WriteLoop(
            "control-leader", self._make, batch_max=BATCH_MAX, pause_s=self._pause_s
        )

    @property
    def behind(self) -> str | None:
        """Why stored changes may be missing in the log; None: none are."""
        return None if self._behind is None else str(self._behind)

    async def start(self) -> None:
        """Roll pending changes of an earlier process forward, then accept changes.

        Starts even while the log accepts nothing: it retries until the log does, and refuses
        changes until then.
        """
        await self._roll_forward()
        self._loop.start()

    async def close(self) -> None:
        """Finish the batch in flight, refuse waiting changes, stop."""
        await self._loop.close(RequestError("unavailable", "the server is stopping"))

    async def routes(self) -> dict[str, ActiveRoute]:
        """The routes of Triggers and messaging Subscriptions in the store, by uid.

        Raises:
            LogUnavailableError: Some of them may be missing in the log.
            StoreError: The store cannot be read now.
        """
        if self._behind is not None:
            raise LogUnavailableError(f"route changes wait for the log: {self._behind}")
        return await asyncio.to_thread(self._store.routes)

    @overload
    async def submit(self, change: Put | Delete | Rotate) -> Applied: ...

    @overload
    async def submit(self, change: RouteChange) -> AppliedRoute: ...

    async def submit(self, change: Change) -> Applied | AppliedRoute:
        """Make *change*; returns once it is in the store and in every partition of the log.

        That holds too for a route that was already in this state.

        Raises:
            ResourceError, ConflictError, NotFoundError: Refused; nothing changed.
            ChangePendingError: It is stored; its record follows when the log is back. For a route
                it is a ``LogUnavailableError``, and the change may be stored or not: submit it
                again.
            LogUnavailableError: The log accepts nothing now; nothing was stored.
            StoreError: The store accepts nothing now; nothing was stored.
            RequestError: Too many waiting changes, or the server stops; nothing was stored.
        """
        if not self._loop.takes:
            raise RequestError("unavailable", "the server takes no changes now")
        if self._loop.waiting >= WAITING_MAX:
            raise RequestError("unavailable", f"{WAITING_MAX} changes are waiting; try later")
        return await self._loop.submit(change)

    def _pause_s(self) -> float | None:
        return None if self._behind is None else self._retry_wait_s

    async def _make(self, batch: Sequence[_Waiting]) -> None:
        try:
            if self._behind is not None:
                await self._roll_forward()
            if batch:
                await self._apply(batch)
        except Exception:
            _log.exception("control-batch-failed", changes=len(batch))
            self._behind = LogUnavailableError("a batch of changes failed")
            raise

    async def _apply(self, batch: Sequence[_Waiting]) -> None:
        if self._behind is not None:
            _refuse(batch, self._behind)
            return
        changes = [waiting.asked for waiting in batch]
        try:
            outcomes = await asyncio.to_thread(self._store.apply, changes, self._clock.wall_ms())
        except StoreError as error:
            # It failed, perhaps at the end of the commit: roll forward what was stored first.
            self._behind = error
            _refuse(batch, error)
            return
        made = [outcome for outcome in outcomes if not isinstance(outcome, DistributaryError)]
        failed = await self._append(made)
        if failed is None:
            await self._open_namespaces(made)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            _settle(waiting, outcome, failed)
        if made and failed is None:
            await self._mark(made[-1].seq)

    async def _append(self, made: list[Applied | AppliedRoute]) -> LogError | None:
        records = [change.record for change in made if change.record is not None]
        if not records:
            return None
        for change in made:
            _report(change)
        try:
            await self._appender.append_routes(records)
        except LogError as error:
            _log.warning("route-changes-pending", from_seq=made[0].seq, reason=str(error))
            self._behind = error
            return error
        return None

    async def _open_namespaces(self, made: list[Applied | AppliedRoute]) -> None:
        """Have receivers accept events for the namespaces of new subscriptions."""
        new = {
            change.subscription.namespace
            for change in made
            if isinstance(change, Applied) and change.op == "created"
        }
        if new <= self._opened:
            return
        try:
            await self._appender.look_again()
        except LogError as error:
            _log.warning("namespaces-not-told", reason=str(error))
        else:
            self._opened |= new

    async def _roll_forward(self) -> None:
        """Append what is pending, oldest first; sets ``_behind`` to the result."""
        try:
            if not self._agreed:
                await self._appender.agree()
                self._agreed = True
            while pending := await asyncio.to_thread(self._store.pending, ROLL_FORWARD_MAX):
                await self._appender.append_routes([record for _, record in pending])
                await asyncio.to_thread(self._store.mark_appended, pending[-1][0])
                _log.info("route-changes-rolled-forward", count=len(pending))
        except (LogError, StoreError) as error:
            self._behind = error
            return
        self._behind = None

    async def _mark(self, seq: int) -> None:
        try:
            await asyncio.to_thread(self._store.mark_appended, seq)
        except StoreError as error:  # they will be appended once more, which is harmless
            _log.warning("route-changes-not-marked", seq=seq, reason=str(error))
            self._behind = error


def _report(change: Applied | AppliedRoute) -> None:
    if isinstance(change, Applied):
        made = change.subscription
        _log.info(
            f"subscription-{change.op}",
            namespace=made.namespace,
            id=made.id,
            uid=made.uid,
            revision=made.revision,
            seq=change.seq,
        )
    elif change.record is not None:
        _log.info(f"route-{change.op}", uid=change.uid, revision=change.revision, seq=change.seq)


def _settle(
    waiting: _Waiting,
    outcome: Applied | AppliedRoute | DistributaryError,
    failed: LogError | None,
) -> None:
    if isinstance(outcome, DistributaryError):
        waiting.refuse(outcome)
    elif failed is not None:
        waiting.refuse(_pending(outcome, failed))
    else:
        waiting.answer(outcome)


def _pending(outcome: Applied | AppliedRoute, failed: LogError) -> LogUnavailableError:
    if isinstance(outcome, Applied):
        pending: LogUnavailableError = ChangePendingError(outcome)
    else:
        pending = LogUnavailableError("some partitions do not have the route's record yet")
    pending.__cause__ = failed
    return pending


def _refuse(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        waiting.refuse(error)
