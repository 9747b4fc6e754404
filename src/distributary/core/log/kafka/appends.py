"""Where a receiver appends events on a Kafka cluster: every receiver reaches every partition."""

import asyncio
from collections.abc import Callable
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogError
from distributary.core.flow import Received
from distributary.core.log.committer import CommitStats
from distributary.core.log.kafka._producer import KafkaProducer, Lane
from distributary.core.log.keys import partition_of

TURN_S: Final = 0.004
"""Events without a key go to one partition for so long, then to the next: as long as records wait
for others there. By turns of the event loop each event would be a request of its own."""

TURN_BYTES_MAX: Final = 256 * 1024
"""A partition with more under way has fallen behind: the one with the least gets the event."""

STALLED_S: Final = 0.3
"""A partition that has acknowledged nothing for so long, though something is under way, has no
leader or a slow one: events without a key go elsewhere. Usual is a hundredth; a pause of a broker's
collector stays below."""


class KafkaAppends:
    """``server.ingest.AppendPort`` over the topic. For the loop's thread alone; close it.

    An event is durable once all replicas in sync have it. One that is refused because nothing was
    heard of it (15 s) may be stored all the same: it is delivered then, and once more if its
    publisher sends it again.

    Args:
        place: The cluster.
        partitions: How many partitions are in use: see ``change_partitions``.
        loop: Where ``submit`` is called, and called back.
        report: Takes what people should know, a few times while something lasts.

    Attributes:
        splits: See ``AppendPort.splits``.
    """

    splits: Final = False

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
        self._producer = KafkaProducer(place, loop, report)
        self._loop = loop
        self._lanes = [self._producer.lane(number) for number in range(partitions)]
        self._current = 0
        self._turning = False

    async def change_partitions(self, count: int) -> None:
        """Use *count* partitions from now on: some were added.

        Call it once the routes are in the new ones: see ``KafkaRoutes.add_partitions``.

        Raises:
            LogUnavailableError: The cluster does not show so many; try again later.
        """
        await asyncio.to_thread(self._producer.know, count)
        self._lanes = [self._producer.lane(number) for number in range(count)]

    @property
    def open(self) -> bool:
        """Whether the cluster takes records, as far as is known."""
        return self._producer.open

    @property
    def stats(self) -> CommitStats:
        """Totals since this object was made; reports are not counted as commits."""
        producer = self._producer
        return CommitStats(
            producer.record_count, producer.body_bytes, 0, producer.failure_count, 0.0
        )

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        """Append *received* as one record; calls *done* when it is durable or has failed."""
        key = received.partition_key
        partition = self._next() if key is None else partition_of(key, len(self._lanes))

        def told(result: int | LogError) -> None:
            done(result if isinstance(result, LogError) else None)

        try:
            self._producer.submit(partition, received.kind, received.body, told, by=received.by)
        except LogError as error:
            done(error)

    def _next(self) -> int:
        """Returns the partition of an event without a key."""
        current = self._lanes[self._current]
        if not self._turning:
            self._turning = True
            self._loop.call_later(TURN_S, self._next_turn)
            if self._stalls(current):
                self._turn()
                current = self._lanes[self._current]
        if current.bytes > TURN_BYTES_MAX:
            return min(self._lanes, key=lambda lane: lane.bytes).number
        return current.number

    def _next_turn(self) -> None:
        self._turning = False
        self._turn()

    def _turn(self) -> None:
        """Go to the next partition that acknowledges; where none does, to that with the least."""
        count = len(self._lanes)
        for step in range(1, count + 1):
            number = (self._current + step) % count
            if not self._stalls(self._lanes[number]):
                self._current = number
                return
        self._current = min(self._lanes, key=lambda lane: lane.bytes).number

    def _stalls(self, lane: Lane) -> bool:
        return lane.count > 0 and self._loop.time() - lane.since_s > STALLED_S

    async def close(self) -> None:
        """Take nothing more; wait for what is under way, for 5 s at most."""
        await self._producer.close()
