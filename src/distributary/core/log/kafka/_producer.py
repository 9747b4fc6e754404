"""Appends to partitions of the topic from an event loop, without blocking it and without a thread.

Hides librdkafka's producer. It is idempotent and waits for all replicas in sync, so a record is
durable when its delivery is reported, once and in order. Reports are fetched by the loop, every
other millisecond while some are due: a thread that waits for them would have to win the interpreter
from a busy loop for each of them.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogError, LogUnavailableError, RecordTooLargeError
from distributary.core.log.committer import QUEUE_BYTES_MAX, QUEUE_COUNT_MAX, Done
from distributary.core.log.frame import BODY_BYTES_MAX
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    RECORD_BYTES_MAX,
    Settings,
    library,
    log_error,
    settings_of,
    topic_of,
)
from distributary.core.log.kafka._value import BY, encode

DELIVERY_MS_MAX: Final = 15_000
"""Longest time until a record is acknowledged or refused: more than the 12 s in which a cluster
with its default session timeout of 9 s has another leader, and less than publishers wait. A record
that is refused for this reason may still be stored: its publisher sends it again."""

LINGER_MS: Final = 4
"""How long a record waits for others of its partition, as long as the replication takes. A request
costs some 150 us here, and more at the brokers: at 2,000 records a second eight share one."""

POLL_S: Final = 0.002
"""Interval at which reports are fetched while some are due: a part of what a replicated append
takes. An empty fetch costs 2 us, and the turn of the loop some 30."""

PROBE_S: Final = 1.0
"""Interval at which a cluster that takes nothing (``DELIVERY_MS_MAX``) is asked for leaders."""

KNOW_S: Final = 0.05
"""Interval at which partitions are looked for that were added a moment ago."""

FATAL_MAX: Final = 8
"""Errors that end a producer which one fetch of reports takes: each is told once."""

PURGED_S_MAX: Final = 0.1
"""Longest wait for the reports of what was purged; they are there at once."""

CLOSE_S_MAX: Final = 5.0
"""Longest wait at the end for records under way."""

_SETTINGS: Final[Settings] = {
    "enable.idempotence": True,
    "acks": "all",
    "delivery.timeout.ms": DELIVERY_MS_MAX,
    "linger.ms": LINGER_MS,
    "message.max.bytes": RECORD_BYTES_MAX,
    # Our own bounds are reached first: these must never block or refuse.
    "queue.buffering.max.messages": 2 * QUEUE_COUNT_MAX,
    "queue.buffering.max.kbytes": 2 * QUEUE_BYTES_MAX // 1024,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
}


def _silent() -> logging.Logger:
    logger = logging.getLogger("distributary.librdkafka")
    logger.disabled = True
    return logger


_GAPLESS: Final[Settings] = {
    # A record that times out leaves a gap: those behind it are sent, under another epoch.
    "delivery.timeout.ms": 0,
    # So does one that the broker refuses, unless that is fatal.
    "enable.gapless.guarantee": True,
    # Which librdkafka logs even at the lowest level, and reports besides.
    "logger": _silent(),
}


class _Due:
    """A record under way."""

    __slots__ = ("_done", "_lane", "_producer", "_size")

    def __init__(self, producer: "KafkaProducer", lane: "Lane", size: int, done: Done) -> None:
        self._producer = producer
        self._lane = lane
        self._size = size
        self._done = done

    def reported(self, error: Any, message: Any) -> None:
        """Called by librdkafka, on the loop."""
        producer, lane = self._producer, self._lane
        producer.pending_bytes -= self._size
        producer.pending_count -= 1
        lane.bytes -= self._size
        lane.count -= 1
        lane.since_s = producer.now_s
        if error is None:
            producer.record_count += 1
            producer.body_bytes += self._size
            self._done(message.offset())
        else:
            self._done(producer.failed(error, lane.number))


class Lane:
    """What is under way to one partition.

    Attributes:
        number: Of the partition.
        count: Records under way.
        bytes: Their bodies.
        since_s: When the first of them began, or the last report came: seconds of the loop.
    """

    __slots__ = ("bytes", "count", "number", "since_s")

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.bytes = 0
        self.since_s = 0.0


class KafkaProducer:
    """Appends to partitions. For the loop's thread alone; close it.

    Args:
        place: The cluster.
        loop: Where ``submit`` is called, and called back.
        report: Takes what people should know, a few times while something lasts.
        gapless: No record of a partition is stored while one before it is not: where one is
            refused, all behind it are. Whoever waits ends that by ``abandon``: none times out.

    Attributes:
        lanes: What is under way, by partition.
        pending_count: Records under way.
        pending_bytes: Their bodies.
        record_count: Records appended.
        body_bytes: Their bodies.
        failure_count: Records that were refused.
        now_s: Time of the last poll, seconds of the loop.
    """

    def __init__(
        self,
        place: KafkaPlace,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[str], None] = lambda _reason: None,
        *,
        gapless: bool = False,
    ) -> None:
        """See the class.

        Raises:
            LogUnavailableError: librdkafka does not take the settings of *place*.
        """
        self.lanes: dict[int, Lane] = {}
        self.pending_count = 0
        self.pending_bytes = 0
        self.record_count = 0
        self.body_bytes = 0
        self.failure_count = 0
        self.now_s = loop.time()
        self._topic = topic_of(place)
        self._loop = loop
        self._report = report
        self._settings = {**settings_of(place), **_SETTINGS, "error_cb": self._trouble}
        if gapless:
            self._settings |= _GAPLESS
        self._polling = False
        self._closing = False
        self._ended = False
        self._down = False
        self._fatal: Any = None
        self._succeeded = 0
        self._said: str | None = None
        self._handle = self._make()

    def _make(self) -> Any:
        kafka = library()
        self._raised: type[Exception] = kafka.KafkaException
        try:
            return kafka.Producer(self._settings)
        except self._raised as error:
            raise log_error(error.args[0], "open the log") from error

    @property
    def open(self) -> bool:
        """Whether the cluster takes records, as far as is known."""
        return not (self._closing or self._down or self._fatal is not None)

    def lane(self, partition: int) -> Lane:
        """What is under way to *partition*."""
        lane = self.lanes.get(partition)
        if lane is None:
            lane = self.lanes[partition] = Lane(partition)
        return lane

    def submit(
        self,
        partition: int,
        kind: int,
        body: bytes,
        done: Done,
        *,
        by: str = "",
        time_ms: int = 0,
    ) -> None:
        """Append a record; calls *done* on the loop, later, with its offset or the error.

        Args:
            partition: Its number.
            kind: A ``RecordKind``.
            body: At most ``BODY_BYTES_MAX`` bytes.
            done: Called once.
            by: Who published it; empty: nobody was asked.
            time_ms: Time for a topic whose records have their publisher's; 0: now. The log's topic
                has the broker's.

        Raises:
            LogUnavailableError: The queue is full, or closed; *done* is not called.
            RecordTooLargeError: *body* is too large; *done* is not called.
        """
        if self._closing:
            raise LogUnavailableError("closed")
        if self.pending_bytes >= QUEUE_BYTES_MAX or self.pending_count >= QUEUE_COUNT_MAX:
            raise LogUnavailableError("the log's queue is full")
        if len(body) > BODY_BYTES_MAX:
            raise RecordTooLargeError(f"{len(body)} bytes; at most {BODY_BYTES_MAX} in a record")
        lane = self.lanes.get(partition) or self.lane(partition)
        due = _Due(self, lane, len(body), done)
        headers = [(BY, by.encode("utf-8", "replace"))] if by else None
        try:
            self._handle.produce(
                self._topic,
                encode(kind, body),
                None,
                partition,
                due.reported,
                None,
                time_ms,
                headers,
            )
        except BufferError as error:
            raise LogUnavailableError("the log's queue is full") from error
        except library().KafkaException as error:
            self._poll_in(POLL_S)  # for another producer where this one has ended
            raise self.failed(error.args[0], partition) from error
        if not lane.count:
            lane.since_s = self._loop.time()
        lane.count += 1
        lane.bytes += len(body)
        self.pending_count += 1
        self.pending_bytes += len(body)
        if not self._polling:
            self._poll_in(POLL_S)

    def _poll_in(self, wait_s: float) -> None:
        if not self._polling:
            self._polling = True
            self._loop.call_later(wait_s, self._poll)

    def _poll(self) -> None:
        self._polling = False
        if self._ended:
            return
        self.now_s = self._loop.time()
        self._fetch(self._handle)
        if self._fatal is not None:
            self._renew()
        if self._fatal is not None:
            self._poll_in(PROBE_S)
        elif self.pending_count:
            self._poll_in(POLL_S)

    def _fetch(self, handle: Any) -> None:
        """Have the reports that are there told. An error that ends the producer interrupts it."""
        for _ in range(FATAL_MAX):
            try:
                handle.poll(0)
            except self._raised as raised:
                self._fatal = raised.args[0]
            else:
                return

    def failed(self, error: Any, partition: int) -> LogError:
        """Count a refused record; returns why it was refused."""
        self.failure_count += 1
        if error.fatal():
            self._fatal = error
        if error.name() == "_MSG_TIMED_OUT" and self.record_count == self._succeeded:
            self._suspend()
        self._succeeded = self.record_count
        failure = log_error(error, f"append to partition {partition}")
        if self._said != error.name():
            self._said = error.name()
            self._report(str(failure))
        return failure

    def _trouble(self, error: Any) -> None:
        """Called by librdkafka while it polls."""
        if error.fatal():
            self._fatal = error

    def _renew(self) -> None:
        """Begin with another producer: this one takes nothing more.

        It happens where the cluster has forgotten what it acknowledged.
        """
        self._report(f"Kafka: the producer begins anew: {self._fatal.str()}")
        with contextlib.suppress(LogUnavailableError):  # tried again at the next poll
            self.abandon()

    def abandon(self) -> None:
        """Refuse all that is under way, and begin with another producer.

        Whether a record was stored is unknown; of those of a partition it is the first ones. One
        may be stored even later, behind what is submitted next: a broker may have it already.

        Raises:
            LogUnavailableError: There is no other producer; this one stays.
        """
        old = self._handle
        old.purge()
        until_s = time.monotonic() + PURGED_S_MAX
        self._fetch(old)  # reports of all that was under way
        while self.pending_count and time.monotonic() < until_s:
            time.sleep(POLL_S)
            self._fetch(old)
        self._handle = self._make()  # the old one stays where there is no other
        self._fatal = None
        _forget(old)

    def _suspend(self) -> None:
        """The cluster has taken nothing for long: refuse until it has leaders again."""
        if not self._down:
            self._down = True
            self._loop.call_later(PROBE_S, self._probe)

    def _probe(self) -> None:
        if self._closing:
            return

        def ask() -> None:
            alive = False
            with contextlib.suppress(library().KafkaException):
                metadata = self._handle.list_topics(self._topic, timeout=PROBE_S)
                partitions = metadata.topics[self._topic].partitions.values()
                alive = any(partition.leader >= 0 for partition in partitions)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._probed, alive)

        threading.Thread(target=ask, name="kafka-probe", daemon=True).start()

    def _probed(self, alive: bool) -> None:
        if alive:
            self._down = False
            self._said = None
        else:
            self._loop.call_later(PROBE_S, self._probe)

    def know(self, partitions: int) -> None:
        """Learn of partitions that were added a moment ago. Blocks: call it in a thread.

        Raises:
            LogUnavailableError: The cluster does not answer, or has not so many partitions.
        """
        kafka = library()
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while True:
            why = f"it has not {partitions} partitions"
            try:
                metadata = self._handle.list_topics(self._topic, timeout=ANSWER_S_MAX)
                if len(metadata.topics[self._topic].partitions) >= partitions:
                    return
            except kafka.KafkaException as error:
                why = error.args[0].str()
            if time.monotonic() > deadline_s:
                raise LogUnavailableError(f"Kafka: cannot use topic {self._topic}: {why}")
            time.sleep(KNOW_S)

    async def close(self) -> None:
        """Take nothing more; wait for what is under way, and end the connections."""
        self._closing = True
        deadline_s = self._loop.time() + CLOSE_S_MAX
        while self.pending_count and self._loop.time() < deadline_s:  # noqa: ASYNC110 - see POLL_S
            await asyncio.sleep(POLL_S)
        self._handle.purge()
        self._fetch(self._handle)
        self._ended = True
        _forget(self._handle)


def _forget(handle: Any) -> None:
    """End a producer, whose last reference this is, on a thread: it waits for its threads."""

    def close() -> None:
        with contextlib.suppress(library().KafkaException):  # what ended it is told once more
            handle.close()

    threading.Thread(target=close, name="kafka-end", daemon=True).start()
