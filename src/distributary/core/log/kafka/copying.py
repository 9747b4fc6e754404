"""Copies records of another log into the topic, at the places and times that they are to have.

Called by ``server.migrate`` while nobody else writes to the topic. Blocking: no event loop.
"""

from typing import Any, Final

from distributary.core.cluster import KafkaPlace
from distributary.core.log.committer import QUEUE_BYTES_MAX, QUEUE_COUNT_MAX
from distributary.core.log.frame import encode_frame
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    RECORD_BYTES_MAX,
    admin_library,
    library,
    log_error,
    settings_of,
    topic_of,
)
from distributary.core.log.kafka._value import BY, encode

COPIED_S_MAX: Final = 120
"""Longest wait for the acknowledgement of a copied record: nobody waits for it, and a cluster that
is restarted broker by broker takes a minute."""

_CHECKSUM: Final = slice(32, 36)
"""Of a frame: see ``core.log.frame``."""
_TIME: Final = "message.timestamp.type"


def checksum_of(kind: int, body: bytes, offset: int, time_ms: int) -> int:
    """``Logged.checksum`` of a record of the topic.

    Args:
        kind: A ``RecordKind``.
        body: Its body.
        offset: Its offset in the topic.
        time_ms: Its time, milliseconds.
    """
    frame = encode_frame(kind, body, offset, time_ms, stamp=0)
    return int.from_bytes(frame[_CHECKSUM], "little")


class TopicCopy:
    """Appends to the topic's partitions, each record once and in order. Close it.

    Args:
        place: The cluster; its topic exists.

    Raises:
        LogUnavailableError: librdkafka does not take the settings of *place*.
    """

    def __init__(self, place: KafkaPlace) -> None:
        self._place = place
        self._topic = topic_of(place)
        self._failed: Any = None
        self._pending_bytes = 0
        settings = settings_of(place) | {
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": COPIED_S_MAX * 1000,
            "linger.ms": 20,
            "compression.type": "none",
            "message.max.bytes": RECORD_BYTES_MAX,
            "queue.buffering.max.messages": QUEUE_COUNT_MAX,
            "queue.buffering.max.kbytes": 2 * QUEUE_BYTES_MAX // 1024,
        }
        self._handle = library().Producer(settings)

    def append(self, partition: int, kind: int, body: bytes, time_ms: int, by: str) -> None:
        """Append a record; ``flush`` tells whether it came.

        Args:
            partition: Its number.
            kind: A ``RecordKind``.
            body: Its body.
            time_ms: Its time, milliseconds.
            by: Who published it; empty: not known.

        Raises:
            LogUnavailableError: One before it was refused.
        """
        headers = [(BY, by.encode("utf-8", "replace"))] if by else None
        self._produce(partition, encode(kind, body), time_ms, headers)

    def leave_out(self, partition: int, time_ms: int) -> None:
        """Append what is no record, where one is damaged: those behind it keep their places.

        Raises:
            LogUnavailableError: One before it was refused.
        """
        self._produce(partition, b"", time_ms, None)

    def _produce(self, partition: int, value: bytes, time_ms: int, headers: Any) -> None:
        size = len(value)

        def done(error: Any, _message: Any) -> None:
            self._pending_bytes -= size
            if error is not None and self._failed is None:
                self._failed = error

        while True:
            self._check()
            try:
                self._handle.produce(
                    self._topic, value, None, partition, done, None, max(time_ms, 1), headers
                )
            except BufferError:
                self._handle.poll(0.1)
            else:
                break
        self._pending_bytes += size
        self._handle.poll(0 if self._pending_bytes < QUEUE_BYTES_MAX else 0.1)

    def flush(self) -> None:
        """Wait until everything appended is in all replicas in sync.

        Raises:
            LogUnavailableError: Something was refused.
        """
        while self._handle.flush(1.0):
            self._check()
        self._check()

    def _check(self) -> None:
        if self._failed is not None:
            raise log_error(self._failed, "copy to the topic")

    def close(self) -> None:
        """End the connections."""
        self._handle.purge()
        self._handle.poll(0)
        self._handle.close()


def keep_times(place: KafkaPlace, *, given: bool) -> None:
    """Say whether records get the times that they are *given*, or those of their brokers.

    Raises:
        LogUnavailableError: The cluster did not take it.
    """
    admin = admin_library()
    kind, change = admin.ResourceType.TOPIC, admin.AlterConfigOpType.SET
    value = "CreateTime" if given else "LogAppendTime"
    entry = admin.ConfigEntry(_TIME, value, incremental_operation=change)
    resource = admin.ConfigResource(kind, topic_of(place), incremental_configs=[entry])
    client = admin.AdminClient(settings_of(place))
    answers = client.incremental_alter_configs([resource], request_timeout=ANSWER_S_MAX)
    _wait_for(answers[resource], "change the topic")


def _wait_for(answer: Any, doing: str) -> None:
    try:
        answer.result()
    except library().KafkaException as error:
        raise log_error(error.args[0], doing) from error


def partitions_of(place: KafkaPlace) -> int:
    """How many partitions the topic has; 0: there is none.

    Raises:
        LogUnavailableError: The cluster does not answer.
    """
    kafka = library()
    client = admin_library().AdminClient(settings_of(place))
    try:
        metadata = client.list_topics(topic_of(place), timeout=ANSWER_S_MAX)
    except kafka.KafkaException as error:
        raise log_error(error.args[0], "look for the topic") from error
    topic = metadata.topics.get(topic_of(place))
    return 0 if topic is None or topic.error is not None else len(topic.partitions)


__all__ = ["TopicCopy", "checksum_of", "keep_times", "partitions_of"]
