"""One consumer that reads one partition from any place: what readers and tails have in common.

Hides librdkafka's consumer: where it stands, what it has fetched ahead, what its errors mean, and
records that are none. Nothing here takes part in a consumer group: which process reads what is
decided by leases.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.log.damage import Damage
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    HOPELESS,
    Settings,
    library,
    log_error,
    settings_of,
    topic_of,
)
from distributary.core.log.kafka._value import BY, PREFIX_BYTES, frame_of, kind_of

TAKEN_MAX: Final = 512
"""Records taken from librdkafka at once: half a millisecond of Python."""

VALUES_MAX: Final = 16
"""Values taken at once: each may have a megabyte."""

RECORD_BYTES_FIRST: Final = 1024
"""Assumed length of a record until some were read: how many to take for a chunk."""

DAMAGES_MAX: Final = 1_000
"""How many damaged records are remembered, as by the embedded log."""

MET_S_MAX: Final = 1.0
"""Longest wait for the leader of a partition before its reading begins: where it takes longer,
librdkafka connects to it later, as it would by itself."""

READ_S_MAX: Final = 30.0
"""Longest wait for a record that is there: the other brokers have taken over long before."""


class Watermarks(NamedTuple):
    """Offsets of a partition.

    Attributes:
        start: Of the oldest record kept.
        end: After the last record that is in all replicas in sync.
    """

    start: int
    end: int


class Fetcher:
    """A consumer of one partition. For one thread at a time; close it.

    Args:
        place: The cluster.
        partition: Its number, from 0.
        settings: Of librdkafka, beyond those of every client.
        waits: Whether ``gather`` may wait for an answer of the cluster, to go on where the
            partition begins; else it fails there.
        publishers: Gets who published each gathered record that says so, by offset; None: nobody
            wants to know.
        topic: Name of the topic; empty: that of the log.

    Attributes:
        at: Offset of the next record; None: it stands nowhere.
        damages: Records that are no records of ours, by offset.
    """

    def __init__(
        self,
        place: KafkaPlace,
        partition: int,
        settings: Settings,
        *,
        waits: bool = True,
        publishers: dict[int, str] | None = None,
        topic: str = "",
    ) -> None:
        self.partition = partition
        self.at: int | None = None
        self._waits = waits
        self._publishers = publishers
        self.damages: dict[int, Damage] = {}
        self._held: deque[Any] = deque()
        self._topic = topic or topic_of(place)
        self._doing = f"read partition {partition} of topic {self._topic}"
        self._why: Any = None
        self._record_bytes = RECORD_BYTES_FIRST
        kafka = library()
        self._failed: type[Exception] = kafka.KafkaException
        self._tp = kafka.TopicPartition
        try:
            self._consumer = kafka.Consumer(
                {
                    **settings_of(place),
                    "group.id": "distributary-reads-by-lease",  # asked for; nothing joins it
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "enable.partition.eof": True,
                    "isolation.level": "read_uncommitted",
                    "check.crcs": False,  # ours reach further, and cost one record, not a batch
                    "fetch.error.backoff.ms": 100,
                    "error_cb": self._trouble,
                    **settings,
                }
            )
        except self._failed as error:
            raise log_error(error.args[0], "open the log") from error

    def close(self) -> None:
        """End the connections. Blocks for some milliseconds."""
        self._held.clear()
        self._consumer.close()

    def _trouble(self, error: Any) -> None:
        self._why = error

    def watermarks(self) -> Watermarks:
        """Asks the leader for the offsets of the partition. Blocks for a round trip.

        Raises:
            LogUnavailableError: No answer within ``ANSWER_S_MAX``.
        """
        low, high = self._asked(
            lambda left_s: self._consumer.get_watermark_offsets(
                self._tp(self._topic, self.partition), timeout=left_s
            )
        )
        return Watermarks(low, high)

    def meet(self) -> None:
        """Connect to the leader of the partition, so that the next ``seek`` finds it there.

        A client that has only heard of the leader connects to it once a second: the first records
        would come that late. Blocks for a round trip; where that fails, the ``seek`` goes on.
        """
        place = self._tp(self._topic, self.partition)
        with contextlib.suppress(self._failed):
            self._consumer.get_watermark_offsets(place, timeout=MET_S_MAX)

    def seen_end(self) -> int:
        """Returns the end that came with the last records; 0 where none have. Asks nobody."""
        found = self._consumer.get_watermark_offsets(
            self._tp(self._topic, self.partition), cached=True
        )
        return max(0, found[1]) if found else 0

    def offset_at(self, time_ms: int) -> int | None:
        """Returns the first offset of that time or later; None: there is none.

        Raises:
            LogUnavailableError: No answer within ``ANSWER_S_MAX``.
        """
        place = self._tp(self._topic, self.partition, max(time_ms, 0))
        (found,) = self._asked(
            lambda left_s: self._consumer.offsets_for_times([place], timeout=left_s)
        )
        if found.error is not None:
            raise log_error(found.error, self._doing)
        return int(found.offset) if found.offset >= 0 else None

    def _asked(self, ask: Callable[[float], Any]) -> Any:
        """Asks until there is an answer: a leader may be on its way from one broker to another."""
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                return ask(max(left_s, 0.1))
            except self._failed as raised:
                error = raised.args[0]
                if left_s <= 0 or error.fatal() or error.name() in HOPELESS:
                    raise log_error(error, self._doing) from raised
                time.sleep(0.1)

    def seek(self, offset: int) -> None:
        """Stand at *offset*; costs nothing where it stands there."""
        if self.at == offset:
            return
        self._held.clear()
        self._consumer.assign([self._tp(self._topic, self.partition, offset)])
        self.at = offset

    def rest(self) -> None:
        """Stand nowhere: nothing is fetched until the next ``seek``."""
        if self.at is not None:
            self._held.clear()
            self._consumer.unassign()
            self.at = None

    def ready(self, wait_s: float) -> bool:
        """Waits until there is something to gather; at most *wait_s*. False: there is nothing."""
        if self._held:
            return True
        message = self._consumer.poll(wait_s)
        if message is None:
            return False
        self._held.append(message)
        return True

    def ready_record(self, wait_s: float) -> bool:
        """As ``ready``, for a record: errors that pass are passed over.

        Raises:
            LogUnavailableError: Reading cannot go on; it stands nowhere now.
        """
        if not self.ready(wait_s):
            return False
        while self._held and self._held[0].error() is not None:
            self._pass_error(self._held.popleft())
        return bool(self._held)

    def publisher(self, offset: int) -> str | None:
        """Returns the publisher of the next record, if that is the one at *offset*."""
        message = self._held[0]
        if message.offset() != offset:
            return None
        return _publisher(message)

    def gather(self, bytes_max: int, kind: int = 0) -> tuple[bytes, int]:
        """Returns frames of what was fetched, and the offset after them. Never waits for records.

        A chunk has no gaps inside. It is empty where nothing was fetched, or nothing but damage.

        Args:
            bytes_max: About how long the chunk may be, bytes; at least one record is taken.
            kind: Only records of this kind; 0: all.

        Raises:
            LogUnavailableError: Reading cannot go on; it stands nowhere now.
        """
        assert self.at is not None
        frames: list[bytes] = []
        size = 0
        while size < bytes_max:
            wanted = (bytes_max - size) // self._record_bytes + 1
            messages = self._take(min(wanted, TAKEN_MAX))
            if not messages:
                break
            before = size
            for index, message in enumerate(messages):
                if message.error() is not None:
                    frame, fits = None, not frames
                    if fits and self._pass_error(message):
                        return b"", self.at
                else:
                    frame = self._frame(message, kind)
                    fits = not frames or (
                        message.offset() == self.at
                        and frame is not None
                        and size + len(frame) <= bytes_max
                    )
                    if fits:
                        self.at = max(message.offset() + 1, self.at)
                if not fits:
                    self._held.extendleft(reversed(messages[index:]))
                    return b"".join(frames), self.at
                if frame:
                    frames.append(frame)
                size += len(frame) if frame else PREFIX_BYTES
            self._record_bytes = max((size - before) // len(messages), 64)
        return b"".join(frames), self.at

    def values(self) -> list[bytes | None]:
        """Returns the values of what was fetched, as they are. Never waits.

        Raises:
            LogUnavailableError: Reading cannot go on; it stands nowhere now.
        """
        assert self.at is not None
        found: list[bytes | None] = []
        for message in self._take(VALUES_MAX):
            if message.error() is None:
                self.at = message.offset() + 1
                found.append(message.value())
            elif self._pass_error(message):
                break
        return found

    def _take(self, count: int) -> list[Any]:
        """Returns what there is, at most *count* messages, errors among them. Never waits."""
        held = self._held
        if not held:
            messages: list[Any] = self._consumer.consume(count, 0)
            return messages
        return [held.popleft() for _ in range(min(count, len(held)))]

    def _frame(self, message: Any, kind: int) -> bytes | None:
        """Returns the record as a frame, empty where it is of another kind; None: it is damaged."""
        value, offset = message.value(), message.offset()
        if kind and kind_of(value) != kind:
            return b""
        frame = frame_of(value, offset, message.timestamp()[1])
        if frame is None:
            self.note(offset, value)
        elif self._publishers is not None and (by := _publisher(message)) is not None:
            self._publishers[offset] = by
        return frame

    def _pass_error(self, message: Any) -> bool:
        """Go on after an error that came instead of a record.

        Returns:
            Whether reading began anew, at ``at``.

        Raises:
            LogUnavailableError: It cannot go on. It stands nowhere: the client may have ceased to
                fetch, and what came with the error is let go, so the next ``seek`` begins anew.
        """
        assert self.at is not None
        error = message.error()
        name = error.name()
        if name == _END:
            self.at = max(self.at, message.offset())
        elif name in _OUT_OF_RANGE:
            at = self.at
            self.rest()
            self.seek(self._nearest(at))
            return True
        elif error.fatal() or name in HOPELESS:
            self.rest()
            raise log_error(error, self._doing)
        else:
            self._why = error
        return False

    def _nearest(self, at: int) -> int:
        """Returns the first record from *at* on that there is, though *at* itself is not there.

        Raises:
            LogUnavailableError: It cannot be asked for, or the log ends below *at*.
        """
        if not self._waits:
            raise LogUnavailableError(
                f"partition {self.partition} has no record {at} any more, or lost it"
            )
        start, end = self.watermarks()
        if at > end:
            raise LogUnavailableError(
                f"partition {self.partition} ends at {end}, below {at}: the cluster has"
                " lost acknowledged records (unclean election?)"
            )
        return max(at, start)

    def note(self, offset: int, value: bytes | None) -> None:
        """Note that the record at *offset* is damaged, or somebody else's."""
        if len(self.damages) < DAMAGES_MAX:
            size = 0 if value is None else len(value)
            kind = kind_of(value) or None
            damage = Damage(self.partition, offset, offset + 1, self._topic, 0, size, kind)
            self.damages.setdefault(offset, damage)

    def overdue(self) -> LogUnavailableError:
        """The error of a read that took too long; it stands nowhere now, so a retry seeks anew."""
        self.rest()
        why = "no broker answers" if self._why is None else self._why.str()
        return LogUnavailableError(f"Kafka: cannot {self._doing}: {why}")


def _publisher(message: Any) -> str | None:
    named = [value for name, value in message.headers() or () if name == BY]
    return named[0].decode("utf-8", "replace") if named and named[0] else None


_OUT_OF_RANGE: Final = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"}

_END: Final = "_PARTITION_EOF"
"""Name of the error that says that there is no further record now."""
