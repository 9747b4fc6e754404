"""The one loop that writes objects: the store first, then memory, then who watches.

All requests that arrive while one batch is under way share the next transaction, so a thousand
creates cost a handful of fsyncs. Each is held against what the ones before it left, so a patch
is always made on the newest state.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import structlog

from distributary.clock import Clock
from distributary.control.objects._draft import Draft
from distributary.control.objects._requests import Outcome, Request, Rules
from distributary.control.objects._rows import Rows
from distributary.control.objects._shelf import Shelf
from distributary.control.objects._values import Change
from distributary.errors import StoreError
from distributary.resource.kubernetes import StatusError

BATCH_MAX: Final = 256
"""Requests in one transaction; it holds the store for some 10 ms."""

WAITING_MAX: Final = 2_000
"""Requests of clients that may wait for their batch: a second's worth. Beyond it they are told to
come again; each may hold an object of 1 MiB."""

RETRY_AFTER_S: Final = 1
"""When a client that was refused for want of room may come again, seconds."""

_log = structlog.get_logger(__name__)


class Committed(NamedTuple):
    """What the writer hands on after a commit.

    Attributes:
        changes: In order; where the store was read anew (``again``), in none.
        version: The newest resource version.
        again: The store held something else than was believed: changes may be missing.
        shelf: What stands now.
    """

    changes: Sequence[Change]
    version: int
    again: bool
    shelf: Shelf


class _Waiting(NamedTuple):
    requests: Sequence[Request]
    done: asyncio.Future[list[Outcome]]


class Writer:
    """Writes one batch after the other. One per store, in one process.

    Args:
        rows: The tables.
        shelf: What they hold.
        rules: What requests are held against.
        clock: For stamps.
        committed: Called on the event loop after each commit, before the callers are answered.
    """

    def __init__(
        self,
        rows: Rows,
        shelf: Shelf,
        rules: Rules,
        clock: Clock,
        committed: Callable[[Committed], None],
    ) -> None:
        self._rows = rows
        self._shelf = shelf
        self._rules = rules
        self._clock = clock
        self._committed = committed
        self._waiting: deque[_Waiting] = deque()
        self._waiting_count = 0
        self._wake = asyncio.Event()
        self._doubtful = False
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="objects-writer")

    async def close(self) -> None:
        """Finish the batch under way, refuse what waits, stop."""
        self._closing = True
        self._wake.set()
        await self._task

    async def submit(
        self, requests: Sequence[Request], *, by_server: bool = False
    ) -> list[Outcome]:
        """Make *requests*, in their order, in one transaction; returns when it is durable.

        Each is made or refused for itself.

        Args:
            requests: At least one.
            by_server: They take room that is not the clients'.

        Raises:
            StatusError: ``TooManyRequests``: too many wait. ``ServiceUnavailable``: the server
                stops. Nothing was stored.
            StoreError: The store failed. Nothing was stored; or nobody knows, if it failed at
                the end of the commit: then a later read tells.
        """
        if self._closing or self._task.done():
            raise StatusError(
                "ServiceUnavailable", "the server is stopping", retry_after_s=RETRY_AFTER_S
            )
        if not by_server and self._waiting_count + len(requests) > WAITING_MAX:
            raise StatusError(
                "TooManyRequests",
                f"{self._waiting_count} writes are waiting; please try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        done: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(requests, done))
        self._waiting_count += len(requests)
        self._wake.set()
        return await done

    async def _run(self) -> None:
        while not self._closing:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            batch = self._take()
            try:
                await self._make(batch)
            except StoreError as error:
                self._doubtful = True
                _log.warning("objects-not-stored", requests=len(batch), reason=str(error))
                _refuse(batch, error)
            # A bug met in one batch goes to its callers (who answer 500). This loop alone writes,
            # so it must not end with them.
            except Exception as error:  # noqa: BLE001 - see above
                self._doubtful = True
                _log.exception("objects-batch-failed", requests=len(batch))
                _refuse(batch, error)
            batch = []  # megabytes perhaps, while nothing comes
        stopping = StatusError("ServiceUnavailable", "the server is stopping")
        _refuse(self._waiting, stopping)

    def _take(self) -> list[_Waiting]:
        """Groups of requests, whole, in order; those whose caller went away are let go."""
        batch: list[_Waiting] = []
        count = 0
        while self._waiting:
            group = self._waiting[0]
            if batch and count + len(group.requests) > BATCH_MAX:
                break
            self._waiting.popleft()
            self._waiting_count -= len(group.requests)
            if not group.done.done():
                batch.append(group)
                count += len(group.requests)
        return batch

    async def _make(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        if self._doubtful:
            await self._look_again()
        draft, outcomes = await asyncio.to_thread(self._write, batch)
        if draft.changes:
            self._shelf.take(draft.changes)
            self._hand_on(draft.changes, again=False)
        for group, outcome in zip(batch, outcomes, strict=True):
            if not group.done.done():
                group.done.set_result(outcome)

    def _write(self, batch: list[_Waiting]) -> tuple[Draft, list[list[Outcome]]]:
        """In a thread: draft the batch and store it. The shelf stands still meanwhile."""
        now_ms = self._clock.wall_ms()
        draft = Draft(self._shelf, self._rules, timestamp(now_ms))
        outcomes = [[draft.apply(request) for request in group.requests] for group in batch]
        if draft.changes:
            self._rows.write(draft.changes, self._shelf.version, now_ms)
        return draft, outcomes

    async def _look_again(self) -> None:
        """After a failed commit: does the store hold what we believe?"""
        if await asyncio.to_thread(self._rows.version) != self._shelf.version:
            found, _ = await asyncio.to_thread(self._rows.load)
            changes = self._shelf.differences(found)
            _log.warning("objects-read-anew", changes=len(changes), version=found.version)
            self._shelf = found
            self._hand_on(changes, again=True)
        self._doubtful = False

    def _hand_on(self, changes: Sequence[Change], *, again: bool) -> None:
        self._committed(Committed(changes, self._shelf.version, again, self._shelf))


def timestamp(now_ms: int) -> str:
    """RFC 3339, whole seconds, as metadata and conditions have it."""
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refuse(batch: Sequence[_Waiting] | deque[_Waiting], error: Exception) -> None:
    for group in batch:
        if not group.done.done():
            group.done.set_exception(error)
