"""Publishes what the outbox of the store holds: one task of the control process.

An event is a record of the log at the Broker ``lifecycle``; for the sink of the subscription itself
it is another one, for that route alone. Both are in the partition of the subscription's uid, so the
events of one subscription are logged in their order.
"""

import asyncio
import itertools
import math
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import structlog

from distributary.core.clock import Clock, until_next_s
from distributary.core.errors import EventError, LogError, StoreError
from distributary.core.event import Event, record
from distributary.core.flow import (
    ABOUT_ROUTE,
    TTL_DEFAULT,
    RecordKind,
    TimerEvent,
    encode_addressed,
    encode_timer_event,
)
from distributary.core.periodic import keep_turning
from distributary.core.tenant import lifecycle_address
from distributary.subscriptions.lifecycle._events import event_of
from distributary.subscriptions.store.lifecycle_rows import (
    ROWS_MAX,
    LifecycleOutbox,
    OutboxRow,
    Transition,
)

LOOK_S: Final = 0.25
"""Interval of looking for rows, seconds. With ``ROWS_MAX`` at a time the log gets at most 2,000
changes a second: as fast as subscriptions can be made."""

HANDED_MAX: Final = 10_000
"""Most transitions that wait for the store: ten seconds of a thousand failing subscriptions. Of
more, the oldest are forgotten; the status has them."""

AGAIN_S: Final = 1.0
"""Wait after the log or the store took nothing, seconds."""

HELD_UP_S: Final = 10.0
"""How long they take nothing before that is worth a warning, seconds: a start of the log's process
takes a second or two, of a busy machine."""

Entry = tuple[int, RecordKind, bytes]
"""Partition, kind and body of a record."""

_log = structlog.get_logger(__name__)


class EventAppender(Protocol):
    """Appends records of events to the log."""

    async def append_events(self, entries: Sequence[Entry]) -> int:
        """Append each body to its partition; returns how many are durable there.

        Raises:
            LogUnavailableError: No response. Some may have been appended.
        """


class LifecyclePublisher:
    """Publishes lifecycle events, in one process.

    Args:
        outbox: Holds what is to be published.
        appender: Appends it.
        clock: Paces the looks.
        base_url: Of the server; begins the ``source`` of each event.
        partition_count: Partitions of the log.
        count: Called with a counter's name and its increase.
        may_have_news: Whether the store may have changed since its last call: cheap.
    """

    def __init__(
        self,
        outbox: LifecycleOutbox,
        appender: EventAppender,
        clock: Clock,
        *,
        base_url: str,
        partition_count: int,
        count: Callable[[str, int], None] = lambda _name, _count: None,
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        self._outbox = outbox
        self._appender = appender
        self._clock = clock
        self._base_url = base_url.rstrip("/")
        self._partition_count = partition_count
        self._count = count
        self._may_have_news = may_have_news
        self._lock = threading.Lock()
        self._handed: deque[Transition] = deque(maxlen=HANDED_MAX)
        self._unread = True
        self._held_since_s: float | None = None

    def hand(self, transitions: Iterable[Transition]) -> None:
        """Take *transitions*, to note them soon; from any thread."""
        with self._lock:
            self._handed.extend(transitions)

    async def run(self) -> None:
        """Publish until cancelled."""
        await keep_turning(self.turn, "lifecycle")

    async def turn(self) -> float:
        """Publish the oldest rows; returns the seconds until the next turn."""
        self._unread |= self._may_have_news()
        if not self._unread and not self._handed:
            return until_next_s(LOOK_S, self._clock.monotonic_s())
        try:
            await self._note()
            rows = await asyncio.to_thread(self._outbox.waiting)
            if rows:
                await self._publish(rows)
        except (LogError, StoreError) as error:
            self._say_held_up(error)
            return AGAIN_S
        self._held_since_s = None
        self._unread = len(rows) == ROWS_MAX
        return until_next_s(LOOK_S, self._clock.monotonic_s())

    def _say_held_up(self, error: LogError | StoreError) -> None:
        """Warn once it lasts: at a start the log's process begins a moment later."""
        now_s = self._clock.monotonic_s()
        since_s = now_s if self._held_since_s is None else self._held_since_s
        if since_s + HELD_UP_S <= now_s:
            _log.warning("lifecycle-events-held-up", reason=str(error))
            since_s = math.inf
        self._held_since_s = since_s

    async def _note(self) -> None:
        """Store what was handed over; what the store does not take stays."""
        while self._handed:
            with self._lock:
                some = list(itertools.islice(self._handed, ROWS_MAX))
            await asyncio.to_thread(self._outbox.note, some)
            with self._lock:
                for one in some:  # of a full queue some may have been forgotten meanwhile
                    if self._handed and self._handed[0] is one:
                        self._handed.popleft()

    async def _publish(self, rows: list[OutboxRow]) -> None:
        """Append the events of *rows*, each partition's on their own.

        So one that takes nothing makes no other get its events again.
        """
        shares: dict[int, list[OutboxRow]] = {}
        for row in rows:
            shares.setdefault(zlib.crc32(row.uid.encode()) % self._partition_count, []).append(row)
        refused = None
        for partition, some in shares.items():
            try:
                await self._publish_in(partition, some)
            except LogError as error:
                refused = error
        if refused is not None:
            raise refused

    async def _publish_in(self, partition: int, rows: list[OutboxRow]) -> None:
        entries: list[Entry] = []
        for row in rows:
            try:
                entries += self._entries(partition, row, event_of(row, self._base_url))
            except EventError as error:  # a bug: the others are published all the same
                _log.error("lifecycle-event-damaged", id=row.event_id, reason=str(error))
        made = await self._appender.append_events(entries)
        if made < len(entries):  # which of them is not known: all of them come again
            raise LogError("the log refused some")
        await asyncio.to_thread(self._outbox.done, [row.number for row in rows])
        self._count("lifecycle_events_total", len(rows))

    @staticmethod
    def _entries(partition: int, row: OutboxRow, event: Event) -> list[Entry]:
        entries: list[Entry] = []
        if row.to_broker:
            content = record.encode([event])
            body = encode_addressed(lifecycle_address(row.namespace), (TTL_DEFAULT,), content)
            entries.append((partition, RecordKind.ADDRESSED, body))
        if row.to_sink:
            body = encode_timer_event(TimerEvent(row.uid, row.revision, ABOUT_ROUTE, event))
            entries.append((partition, RecordKind.TIMER_EVENT, body))
        return entries
