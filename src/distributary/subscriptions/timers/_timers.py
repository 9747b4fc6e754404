"""Timers: periodic events for one subscription (``config.interval``; DESIGN rule 6, timer events).

Only the control leader fires. A timer event is a record in one partition of the log, chosen by
uid, so it is durable before it counts and is delivered like any event. Its number is reserved in
the store before use: a crash skips numbers and repeats none.

Nothing is queued here: a timer event that the log does not accept in time is skipped and counted.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from distributary.core.clock import Clock, until_next_s
from distributary.core.errors import EventError, LogError, StoreError
from distributary.core.event import Event
from distributary.core.flow import TimerEvent, encode_timer_event
from distributary.core.periodic import keep_turning
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.store.schedule import DueTimer, Schedule
from distributary.subscriptions.timers._beats import Beats, Timer

LOOK_S: Final = 0.25
"""Interval of polling for new timers, seconds: well within the shortest timer interval."""

GATHER_S: Final = 0.05
"""Timer events due within this time share an append (and its sync), seconds."""

TIMER_EVENTS_MAX: Final = 500
"""Most timer events of one turn: a third of a second's, for 100,000 timers of a minute. Each may
hold as much data as a resource (256 KiB), and all are in memory."""

APPEND_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest append of timer events, bytes: one commit of the log."""

NUMBERS_RESERVED: Final = 64
"""Numbers that a timer reserves at a time: one transaction serves that many of its events."""

_log = structlog.get_logger(__name__)


class TimerEventAppender(Protocol):
    """Appends timer events to the log."""

    async def append_timer_events(self, timer_events: Sequence[tuple[int, bytes]]) -> int:
        """Append each body to its partition; returns how many are durable there.

        Raises:
            LogUnavailableError: No response. Some may have been appended, so none of them may be
                appended again.
        """


class SubscriptionTimers:
    """Fires the timers of all subscriptions, in one process.

    Args:
        schedule: Lists them.
        appender: Appends their timer events.
        clock: Due times (monotonic) and stamps (wall).
        partition_count: Partitions of the log.
        count: Called with a counter's name and its increase.
        may_have_news: Whether the store may have changed since its last call: cheap.
    """

    def __init__(
        self,
        schedule: Schedule,
        appender: TimerEventAppender,
        clock: Clock,
        *,
        partition_count: int,
        count: Callable[[str, int], None] = lambda _name, _count: None,
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_have_news = may_have_news
        self._unread = True
        self._schedule = schedule
        self._appender = appender
        self._clock = clock
        self._partition_count = partition_count
        self._count = count
        self._beats = Beats()
        self._seq = 0
        self._skipping: str | None = None

    def __len__(self) -> int:
        """Number of running timers."""
        return len(self._beats)

    async def run(self) -> None:
        """Fire timers until cancelled."""
        await keep_turning(self.turn, "timers")

    async def turn(self) -> float:
        """Make the timer events that are due; returns the seconds until the next turn."""
        try:
            await self._look()
        except (
            StoreError
        ) as error:  # known timers stay; a timer event needs the store, and is skipped
            self._report("store", str(error))
        due = self._beats.due(self._clock.monotonic_s(), TIMER_EVENTS_MAX)
        self._skip(due.missed, "late")
        if due.timers:
            await self._fire(due.timers)
        if len(due.timers) == TIMER_EVENTS_MAX:
            return 0.0
        next_s, now_s = self._beats.next_due_s(), self._clock.monotonic_s()
        look_s = until_next_s(LOOK_S, now_s)
        return look_s if next_s is None else min(look_s, max(GATHER_S, next_s - now_s))

    async def _look(self) -> None:
        """Read what changed since the last look."""
        self._unread |= self._may_have_news()
        more = self._unread
        while more:
            changes = await asyncio.to_thread(self._schedule.timer_changes, self._seq)
            now_s, wall_ms = self._clock.monotonic_s(), self._clock.wall_ms()
            for uid in changes.gone:
                self._beats.remove(uid)
            for row in changes.set:
                self._beats.set(row, now_s, wall_ms)
            self._seq = changes.through_seq
            more = self._unread = changes.more

    async def _fire(self, timers: list[Timer]) -> None:
        try:
            ready = await self._ready(timers)
            await self._number([timer for timer, _ in ready])
        except StoreError as error:
            self._skip(len(timers), "store")
            self._report("store", str(error))
            return
        now_ms = self._clock.wall_ms()
        timer_events: list[tuple[int, bytes]] = []
        size = 0
        for timer, due in ready:
            if timer.number == timer.numbers_end:
                continue  # it was deleted or replaced a moment ago
            try:
                timer_events.append(self._tick(timer, due, now_ms))
            except (ValueError, EventError) as error:  # its row is damaged; the others fire
                self._skip(1, "damaged")
                _log.error("timer-damaged", id=due.id, uid=timer.uid, reason=str(error))
                continue
            size += len(timer_events[-1][1])
            if size >= APPEND_BYTES_MAX:
                await self._append(timer_events)
                timer_events, size = [], 0
        await self._append(timer_events)

    async def _ready(self, timers: list[Timer]) -> list[tuple[Timer, DueTimer]]:
        """Those that still run, each with the data for its timer event."""
        found = await asyncio.to_thread(self._schedule.due, [timer.uid for timer in timers])
        ready = []
        for timer in timers:
            due = found.get(timer.uid)
            if due is None or due.interval_s is None:
                self._beats.remove(timer.uid)
            elif due.seq != timer.seq:  # the log is yet to get the change
                self._beats.again(timer)
            else:
                ready.append((timer, due))
        return ready

    async def _number(self, timers: list[Timer]) -> None:
        """Reserve numbers for timers that have used theirs up."""
        out = {timer.uid: timer for timer in timers if timer.number == timer.numbers_end}
        if not out:
            return
        wanted = {uid: timer.seq for uid, timer in out.items()}
        firsts = await asyncio.to_thread(self._schedule.reserve, wanted, NUMBERS_RESERVED)
        for uid, first in firsts.items():
            out[uid].number = first
            out[uid].numbers_end = first + NUMBERS_RESERVED

    def _tick(self, timer: Timer, due: DueTimer, now_ms: int) -> tuple[int, bytes]:
        """Partition and body of the next timer event of *timer*; uses up its number."""
        number = timer.number
        timer.number += 1
        event = timer_event_of(timer.uid, number, due, now_ms)
        body = encode_timer_event(TimerEvent(timer.uid, due.revision, number, event))
        return zlib.crc32(timer.uid.encode()) % self._partition_count, body

    async def _append(self, timer_events: list[tuple[int, bytes]]) -> None:
        if not timer_events:
            return
        try:
            made = await self._appender.append_timer_events(timer_events)
        except LogError as error:
            self._skip(len(timer_events), "log")
            self._report("log", str(error))
            return
        self._count("timer_ticks_total", made)
        self._skip(len(timer_events) - made, "log")
        self._report("log" if made < len(timer_events) else None, "the log refused some")

    def _skip(self, count: int, reason: str) -> None:
        if count:
            self._count(f'timer_ticks_skipped_total{{reason="{reason}"}}', count)

    def _report(self, skipping: str | None, why: str) -> None:
        """Log once when timer events begin to be skipped, and once when that ends."""
        if skipping == self._skipping:
            return
        self._skipping = skipping
        if skipping is None:
            _log.info("timer-ticks-made-again")
        else:
            _log.warning("timer-ticks-skipped", by=skipping, reason=why)


def timer_event_of(uid: str, number: int, due: DueTimer, now_ms: int) -> Event:
    """Make the event of one timer event.

    Args:
        uid: Of the subscription.
        number: Of the timer event.
        due: The current subscription.
        now_ms: Wall clock.

    Source:
        Decision 11, timers and ends, for ``source`` and ``type``.
    """
    spec = api_subscription.restore(due.realized)
    now = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": f"{uid}/{due.revision}/{number}",
        "source": api_subscription.timer_source(spec.source, due.id, due.namespace),
        "type": api_subscription.timer_type(spec.types, spec.config.timer_type),
        "time": now.replace("+00:00", "Z"),
    }
    if spec.config.timer_data is not None:
        attributes["datacontenttype"] = "application/json"
    return Event(attributes, spec.config.timer_data)
