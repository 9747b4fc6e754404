"""Copies records of another log into the topic, at the places and times that they are to have.

Called by ``server.migrate`` while nobody else writes to the topic. Blocking: no event loop.
"""

from typing import Any, Final

from distributary.core.cluster import KafkaPlace
from distributary.core.log.frame import encode_frame
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    admin_library,
    library,
    log_error,
    settings_of,
    topic_of,
)
from distributary.core.log.kafka._sending import Sending
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
        self._sending = Sending(
            place,
            topic_of(place),
            "copy to the topic",
            {
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": COPIED_S_MAX * 1000,
            },
        )
        self.flush, self.close = self._sending.flush, self._sending.close

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
        self._sending.send(partition, encode(kind, body), max(time_ms, 1), headers)

    def leave_out(self, partition: int, time_ms: int) -> None:
        """Append what is no record, where one is damaged: those behind it keep their places.

        Raises:
            LogUnavailableError: One before it was refused.
        """
        self._sending.send(partition, b"", max(time_ms, 1))


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
