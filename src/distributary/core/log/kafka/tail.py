"""Brings the consumer of a partition the records of its topic, as they are appended.

On the loop of the consumer, which never waits for the network: it takes what librdkafka's threads
have fetched, at most once a millisecond while records come. Only where none came for a while does a
thread wait in its place, in one long poll, and wakes it with the next record.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogError
from distributary.core.log.kafka._client import FULL_MS, RECORD_BYTES_MAX
from distributary.core.log.kafka._fetcher import Fetcher
from distributary.core.log.tail_consumer import TailConsumer

CHUNK_BYTES: Final = 256 * 1024
"""Most bytes fed at once: 200 events of 1 KB, which keep the loop busy for some milliseconds."""

LOOK_S: Final = 0.001
"""Interval at which the loop looks for records while they come; a look that finds nothing costs
3 us, a wake-up by the thread 60."""

BUSY_BYTES: Final = 4 * 1024
"""A chunk of so many bytes is one of a busy log: four events of 1 KB at once."""
BUSY_S: Final = 0.002
"""After a chunk of so many bytes the loop waits so long: a busy log is read in fewer, larger
chunks."""

AWAKE_S: Final = 0.02
"""After so long without records the thread waits for the next one."""

WAIT_S: Final = 1.0
"""Longest poll of the thread: it ends within this once it is told to, and an answer under way."""

SURE_S: Final = 15.0
"""After so long without records the thread asks whether there are any: librdkafka says nothing of a
broker that it alone cannot reach."""

DOUBT_S_MAX: Final = 45.0
"""Without records for so long, while there are some or nobody can say, the tail fails where others
reach the log. A broker that is lost has been replaced by then."""

_SETTINGS: Final = {
    "queued.max.messages.kbytes": 4 * 1024,  # sixteen chunks ahead
    "queued.min.messages": 10_000,
    "fetch.message.max.bytes": 1024 * 1024,
    "fetch.max.bytes": RECORD_BYTES_MAX,
    "receive.message.max.bytes": RECORD_BYTES_MAX + 1024 * 1024,
    "fetch.queue.backoff.ms": FULL_MS,
    "fetch.wait.max.ms": 500,  # a record that comes ends the wait at once
}


class KafkaTail:
    """Reads one partition to its end, and on whenever it grows. For the loop's thread alone.

    Made in another thread: that waits for the leader of the partition, ``MET_S_MAX`` at most.

    Args:
        place: The cluster.
        partition: Its number, from 0.
        consumer: Takes the chunks, and calls ``look_soon`` when it has taken all.
        loop: Runs all of it.
        others_reach: Returns whether others reach the log, where this does not; may block.
    """

    def __init__(
        self,
        place: KafkaPlace,
        partition: int,
        consumer: TailConsumer,
        loop: asyncio.AbstractEventLoop,
        *,
        others_reach: Callable[[], bool] = lambda: False,
    ) -> None:
        """See the class.

        Raises:
            LogUnavailableError: librdkafka does not take the settings of *place*.
        """
        self._consumer = consumer
        self._loop = loop
        self._fetcher = Fetcher(place, partition, dict(_SETTINGS), waits=False)
        self._fetcher.meet()
        self._offset = self._end = 0
        self._chunk_bytes = 0  # of the last one
        self._fed_s = 0.0  # when it was fed
        self._others_reach = others_reach
        self._sure_s = 0.0  # when it was known last that no record is missed
        self._running = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._waits = False  # the thread has the fetcher
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._wait, name=f"kafka-tail-{partition}", daemon=True
        )

    def start(self, offset: int) -> None:
        """Read from the record *offset* on. Once; not at all after a stop."""
        if self._stopped:
            return
        self._offset = offset
        self._fetcher.seek(offset)
        self._running = True
        self._sure_s = time.monotonic()
        self._thread.start()
        self._fed_s = self._loop.time()
        self.look()

    def stop(self) -> None:
        """Read nothing more; the connections end soon. Stopping twice is harmless."""
        if self._stopped:
            return
        self._stopped = True
        if not self._running:  # never started: nobody else has the fetcher
            self._fetcher.close()
        else:
            self._running = False
            self._cancel()
            self._asked.put(False)

    def look_soon(self) -> None:
        """The consumer has taken all that it was given: look again, soon."""
        self._sure_s = time.monotonic()  # nobody has looked since
        if self._timer is not None or self._waits or not self._running:
            return
        pause_s = BUSY_S if BUSY_BYTES <= self._chunk_bytes < CHUNK_BYTES // 2 else 0.0
        self._chunk_bytes = 0
        if pause_s:
            self._timer = self._loop.call_later(pause_s, self._due)
        else:
            self._timer = self._loop.call_soon(self._due)

    def look(self) -> None:
        """Feed the next chunk, if there is one and the last one has been taken."""
        if not self._running or self._waits or self._consumer.buffered_bytes:
            return
        try:
            chunk, after = self._fetcher.gather(CHUNK_BYTES)
        except LogError as error:
            self._fail(error)
            return
        if after > self._offset:
            self._offset = after
            self._sure_s = time.monotonic()
            self._chunk_bytes = len(chunk)
            self._fed_s = self._loop.time()
            self._consumer.feed(after, chunk)
        elif self._timer is None:
            if self._loop.time() - self._fed_s < AWAKE_S:
                self._timer = self._loop.call_later(LOOK_S, self._due)
            else:
                self._waits = True
                self._asked.put(True)

    def _fail(self, error: LogError) -> None:
        self.stop()
        self._consumer.fail(error)

    def end(self) -> int:
        """Returns the end that the cluster told with the last records, without waiting.

        After a stop, and while the thread waits for a record, that is the last one known: the
        client makes whoever calls it wait for a call of another thread, without a limit.
        """
        if not self._stopped and not self._waits:
            self._end = self._fetcher.seen_end()
        return max(self._end, self._offset)

    def _due(self) -> None:
        self._timer = None
        self.look()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rung(self, missed: LogError | None) -> None:
        """The thread has seen a record, or knows that one is missed; it has let the fetcher go."""
        self._waits = False
        self._fed_s = self._loop.time()
        if missed is not None and self._running:
            self._fail(missed)
        self.look()

    def _wait(self) -> None:
        """Runs in the thread: waits for a record whenever it is asked to; closes at the end."""
        ready: Callable[[float], bool] = self._fetcher.ready
        while self._asked.get():
            missed: LogError | None = None
            while self._running and missed is None and not ready(WAIT_S):
                missed = self._missed()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._rung, missed)
        self._fetcher.close()

    def _missed(self) -> LogError | None:
        """Why records that there may be do not come; None: there are none, or it is early to say.

        While nobody reaches the log, what was read before is delivered: that is not given up.
        """
        if time.monotonic() - self._sure_s < SURE_S:
            return None
        at, end = self._fetcher.at, None
        with contextlib.suppress(LogError):
            end = self._fetcher.watermarks().end
        if at is not None and end is not None and end <= at:
            self._sure_s = time.monotonic()
            return None
        if time.monotonic() - self._sure_s < DOUBT_S_MAX or not self._others_reach():
            return None
        return self._fetcher.overdue()
