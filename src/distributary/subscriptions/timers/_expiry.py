"""Ends subscriptions by time or count: ``config.expires`` and ``config.maxevents``.

Only the control leader ends them, as a client's delete does: a route record in every partition.
Expiry follows the wall clock, read at least every second, so a clock that jumps is noticed within
that time. Each look reads the store, so a subscription that was replaced or deleted is never ended
by its earlier revision.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import structlog

from distributary.core.clock import Clock, until_next_s
from distributary.core.errors import (
    ConflictError,
    DistributaryError,
    NotFoundError,
    StoreError,
)
from distributary.core.periodic import keep_turning
from distributary.subscriptions.store.schedule import ENDINGS_MAX, Ending, Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import (
    Applied,
    ChangePendingError,
    DeleteReason,
    end_of,
)

LOOK_S_MAX: Final = 1.0
"""Longest wait between two looks at the wall clock and the counts, seconds."""

LOOK_S_MIN: Final = 0.01
"""Shortest wait, seconds: the clock has milliseconds, and is read a little after the store."""

_log = structlog.get_logger(__name__)


class Counts(Protocol):
    """Counts of successful deliveries of subscriptions with ``maxevents``. Blocking."""

    def used_up(self) -> Iterable[str]:
        """Uids of subscriptions that have made the deliveries that they may make.

        Raises:
            StoreError: The counts cannot be read now.
        """

    def delivered(self, uid: str) -> int:
        """How many deliveries of the subscription were counted, from 0.

        Raises:
            StoreError: The counts cannot be read now.
        """


class Ends(Protocol):
    """Deletes ended subscriptions: ``Subscriptions``."""

    async def end(self, ending: Ending, reason: DeleteReason) -> None:
        """Delete the subscription, unless it has changed since *ending* was read."""


class Endings:
    """Ends subscriptions that have expired or used up their count, in one process.

    Args:
        schedule: Lists them.
        ends: Deletes them.
        clock: Its wall clock decides.
        counts: Counts deliveries; None: no limit by count.
        count: Called with a counter's name and its increase.
        may_have_news: Whether a store may have changed since its last call: cheap.
    """

    def __init__(
        self,
        schedule: Schedule,
        ends: Ends,
        clock: Clock,
        *,
        counts: Counts | None = None,
        count: Callable[[str, int], None] = lambda _name, _count: None,
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_have_news = may_have_news
        self._unread = True
        self._next_ms: int | None = None
        self._schedule = schedule
        self._ends = ends
        self._clock = clock
        self._counts = counts
        self._count = count
        self._held_up = False

    def end_before_start(self, store: Store) -> None:
        """End what expired while no server ran, in the store alone. Blocking.

        Runs before the log accepts records: the leader rolls the route records forward when it
        starts, and until then nothing is delivered to a subscription that the store does not hold.

        Raises:
            StoreError: Not all were ended; ``turn`` ends the rest.
        """
        now_ms = self._clock.wall_ms()
        while ended := self._schedule.expired(now_ms):
            changes = [end_of(ending.name, ending.etag, "expired") for ending in ended]
            applied = [one for one in store.apply(changes, now_ms) if isinstance(one, Applied)]
            self._tell(len(applied), "expired")
            for one in applied:
                _log.info("subscription-expired", id=one.subscription.id, seq=one.seq)
            if not applied:  # another writer uses the store: nothing is left for us to end
                return

    async def run(self) -> None:
        """Run ``turn`` repeatedly until cancelled."""
        await keep_turning(self.turn, "endings")

    async def turn(self) -> float:
        """End all that are due; returns the seconds until the next turn."""
        self._unread |= self._may_have_news()
        if not self._unread and not self._due():
            return self._wait_s()
        try:
            full = await self._expire()
            await self._end_used_up()
            self._next_ms = await asyncio.to_thread(self._schedule.next_expiry_ms)
        except (StoreError, _HeldUpError) as error:
            if not self._held_up:
                _log.warning("endings-held-up", reason=str(error))
            self._held_up = True
            return LOOK_S_MAX
        self._held_up = False
        if full:
            return 0.0
        self._unread = False
        return self._wait_s()

    def _due(self) -> bool:
        """Whether a subscription expires now."""
        return self._next_ms is not None and self._clock.wall_ms() >= self._next_ms

    def _wait_s(self) -> float:
        """Seconds until the next turn."""
        look_s = until_next_s(LOOK_S_MAX, self._clock.monotonic_s())
        if self._next_ms is None:
            return look_s
        return min(look_s, max(LOOK_S_MIN, (self._next_ms - self._clock.wall_ms()) / 1000))

    async def _expire(self) -> bool:
        """End those that have expired; True: there may be more."""
        ended = await asyncio.to_thread(self._schedule.expired, self._clock.wall_ms())
        await self._end(ended, "expired")
        return len(ended) == ENDINGS_MAX

    async def _end_used_up(self) -> None:
        """End those that have made all their deliveries."""
        if self._counts is None:
            return
        ended = await asyncio.to_thread(self._used_up, self._counts)
        for first in range(0, len(ended), ENDINGS_MAX):
            await self._end(ended[first : first + ENDINGS_MAX], "used-up")

    def _used_up(self, counts: Counts) -> list[Ending]:
        """Subscriptions whose count has reached the ``maxevents`` of their newest revision."""
        if not self._schedule.any_counted():
            return []
        found = self._schedule.counted(list(counts.used_up()))
        return [
            ending
            for ending in found
            if ending.events_max is not None and counts.delivered(ending.uid) >= ending.events_max
        ]

    async def _end(self, ended: list[Ending], reason: DeleteReason) -> None:
        changes = [self._ends.end(ending, reason) for ending in ended]
        results = await asyncio.gather(*changes, return_exceptions=True)
        made = [one for one in results if one is None or isinstance(one, ChangePendingError)]
        self._tell(len(made), reason)
        for result in results:
            if isinstance(result, NotFoundError | ConflictError | ChangePendingError):
                continue  # ended by another change, replaced, or about to be ended
            if isinstance(result, DistributaryError):
                raise _HeldUpError(str(result)) from result
            if isinstance(result, BaseException):
                raise result

    def _tell(self, count: int, reason: DeleteReason) -> None:
        if count:
            self._count(f'subscriptions_ended_total{{reason="{reason}"}}', count)


class _HeldUpError(Exception):
    """The log or the store accepts no changes now."""
