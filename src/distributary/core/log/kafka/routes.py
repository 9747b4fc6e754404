"""Where the leader appends route records, timer events and lifecycle events.

Route records go to every partition in one order, so that each has the routes below the events that
they decide about. None stands behind a gap: where one may not be stored, all under way are given
up, and appended again by another producer. A former leader that wakes up late appends changes with
old numbers, which readers ignore.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogError, LogUnavailableError
from distributary.core.flow import RecordKind
from distributary.core.log.kafka._client import topic_of
from distributary.core.log.kafka._producer import DELIVERY_MS_MAX, KafkaProducer
from distributary.core.log.kafka.snapshots import Cut, Snapshots
from distributary.core.log.kafka.topics import grow_topic

CHANGE_S_MAX: Final = DELIVERY_MS_MAX / 1000
"""Longest wait for changes that were sent together, seconds; as for an event."""

UNDER_WAY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Route records that are sent at a time, in all partitions together: a sixteenth of what may be
under way. The next ones follow when these are durable."""


class KafkaRoutes:
    """Appends for the leader. For the loop's thread alone; close it.

    Implements ``RouteAppender`` of the resource store, ``TimerEventAppender`` of the timers, and
    ``EventAppender`` of the lifecycle events, for any number of calls at a time.

    Args:
        place: The cluster.
        partitions: How many partitions are in use.
        loop: Runs all of it.
        report: Takes what people should know, a few times while something lasts.
    """

    def __init__(
        self,
        place: KafkaPlace,
        partitions: int,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """See the class.

        Raises:
            LogUnavailableError: librdkafka does not take the settings of *place*.
        """
        self._place = place
        self._partitions = partitions
        self._loop = loop
        self._producer = KafkaProducer(place, loop, report)
        self._changes = KafkaProducer(place, loop, report, gapless=True)
        self._one_order = asyncio.Lock()

    @property
    def partitions(self) -> int:
        """How many partitions have all route records."""
        return self._partitions

    async def append_routes(self, bodies: Sequence[bytes]) -> None:
        """Append *bodies*, in order, to every partition; returns when they are durable.

        Raises:
            LogUnavailableError: An append failed in some partition; append all of them again later,
                in the same order. The first ones may be stored: their numbers make repeated ones
                harmless.
        """
        async with self._one_order:
            some: list[bytes] = []
            size = 0
            for body in bodies:
                some.append(body)
                size += len(body) * self._partitions
                if size >= UNDER_WAY_BYTES_MAX:
                    await self._append_everywhere(some)
                    some, size = [], 0
            await self._append_everywhere(some)

    async def _append_everywhere(self, bodies: list[bytes]) -> None:
        kind = RecordKind.ROUTE
        stored = False
        try:
            async with asyncio.timeout(CHANGE_S_MAX):
                results = await self._append(
                    self._changes,
                    [(number, kind, body) for number in range(self._partitions) for body in bodies],
                )
            for result in results:
                if isinstance(result, LogError):
                    raise LogUnavailableError(str(result)) from result
            stored = True
        except TimeoutError:
            raise LogUnavailableError("Kafka: no answer to changes of routes in time") from None
        finally:
            # Also where the caller leaves: what it appends next must not follow a part of this.
            if not stored:
                self._changes.abandon()

    async def append_timer_events(self, timer_events: Sequence[tuple[int, bytes]]) -> int:
        """Append each body to its partition; returns how many are known to be durable there."""
        kind = RecordKind.TIMER_EVENT
        return await self.append_events([(number, kind, body) for number, body in timer_events])

    async def append_events(self, entries: Sequence[tuple[int, RecordKind, bytes]]) -> int:
        """Append each body, of this kind of record, to its partition.

        Returns:
            How many are known to be durable there. Others may be stored: append none again.
        """
        results = await self._append(self._producer, entries)
        return sum(1 for result in results if not isinstance(result, LogError))

    async def _append(
        self, producer: KafkaProducer, entries: Sequence[tuple[int, int, bytes]]
    ) -> list[int | LogError]:
        waiting: list[asyncio.Future[int | LogError]] = []
        for partition, kind, body in entries:
            done: asyncio.Future[int | LogError] = self._loop.create_future()
            waiting.append(done)
            try:
                producer.submit(partition, kind, body, _set(done))
            except LogError as error:
                done.set_result(error)
        return list(await asyncio.gather(*waiting))

    async def add_partitions(
        self,
        count: int,
        routes: Callable[[], tuple[int, bytes]],
        snapshots: Snapshots,
    ) -> None:
        """Have *count* partitions in use, each with all routes: no event there goes without.

        No route record is appended meanwhile. Receivers may use the new partitions once this has
        returned: see ``KafkaAppends.change_partitions``. What fails halfway is done by repeating.

        Args:
            count: At least as many as now.
            routes: Returns the number of the last change appended, and a snapshot of the routes
                after it; called in a thread.
            snapshots: Where the snapshot is kept.

        Raises:
            LogUnavailableError: The cluster does not answer.
            SettingsError: The cluster refuses more partitions.
            StoreError: The store of the snapshots failed.
        """

        def begin() -> None:
            grow_topic(self._place, count)
            self._producer.know(count)
            self._changes.know(count)
            # Also where an earlier try has put one: routes may have changed since.
            new = range(self._partitions, count)
            if new:
                seq, snapshot = routes()
                for partition in new:
                    snapshots.put(partition, Cut(0, seq), snapshot)

        async with self._one_order:
            await asyncio.to_thread(begin)
            self._partitions = max(self._partitions, count)

    def __repr__(self) -> str:
        return f"KafkaRoutes({topic_of(self._place)}, {self._partitions} partitions)"

    async def close(self) -> None:
        """Take nothing more; wait for what is under way, for 5 s at most."""
        await self._producer.close()
        await self._changes.close()


def _set(done: "asyncio.Future[int | LogError]") -> Callable[[int | LogError], None]:
    """Sets the result, unless whoever waits was cancelled."""

    def told(result: int | LogError) -> None:
        if not done.done():
            done.set_result(result)

    return told
