"""Where all partitions of the topic begin and end, by one question for all of them.

For metrics, and for plans of reads. No reader of a partition is needed, nor a connection for each.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

from distributary.core.cluster import KafkaPlace
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    HOPELESS,
    admin_library,
    library,
    log_error,
    settings_of,
    topic_of,
)

_AGAIN_S = 0.1
"""Pause before a question is repeated: leaders change within seconds."""

NO_ID: Final = "0" * 32
"""``KafkaEnds.identity`` of every topic of a cluster that gives topics no ids."""


class KafkaEnds:
    """Asks about partitions. Connects at the first question; for one thread at a time.

    Args:
        place: The cluster.
        answer_s_max: Longest wait for where partitions begin and end, seconds.
    """

    def __init__(self, place: KafkaPlace, answer_s_max: float = ANSWER_S_MAX) -> None:
        self._place = place
        self._answer_s_max = answer_s_max
        self._topic = topic_of(place)
        self._admin: Any = None

    def count(self) -> int:
        """Returns how many partitions the topic has.

        Raises:
            LogUnavailableError: The cluster does not answer, or has no such topic.
        """
        try:
            metadata = self._client().list_topics(self._topic, timeout=ANSWER_S_MAX)
        except library().KafkaException as error:
            raise log_error(error.args[0], "reach the cluster") from error
        topic = metadata.topics[self._topic]
        if topic.error is not None:
            raise log_error(topic.error, f"look at topic {self._topic}")
        return len(topic.partitions)

    def identity(self) -> str:
        """Returns the id of the topic, which one that is made anew under its name does not have.

        ``NO_ID`` where the cluster gives topics none.

        Raises:
            LogUnavailableError: The cluster does not answer, or has no such topic.
        """
        kafka = library()
        try:
            asked = self._client().describe_topics(
                kafka.TopicCollection([self._topic]), request_timeout=ANSWER_S_MAX
            )
            found = asked[self._topic].result().topic_id
        except kafka.KafkaException as error:
            raise log_error(error.args[0], f"look at topic {self._topic}") from error
        bits = found.get_most_significant_bits(), found.get_least_significant_bits()
        return "".join(f"{each & 0xFFFFFFFFFFFFFFFF:016x}" for each in bits)

    def read(self, partitions: int) -> list[int]:
        """Returns the offset after the last record that all replicas in sync have, of each.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        return self._offsets(range(partitions), admin_library().OffsetSpec.latest())

    def end(self, partition: int) -> int:
        """Returns the same of *partition*, whose leader alone is asked.

        Raises:
            LogUnavailableError: It does not answer.
        """
        return self._offsets((partition,), admin_library().OffsetSpec.latest())[0]

    def starts(self, partitions: int) -> list[int]:
        """Returns the offset of the oldest record that is there, cut off or not, of each.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        return self._offsets(range(partitions), admin_library().OffsetSpec.earliest())

    def offsets_at(self, partitions: int, time_ms: int) -> list[int]:
        """Returns the first offset appended at *time_ms* or later; below 0: there is none.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        spec = admin_library().OffsetSpec.for_timestamp(max(time_ms, 0))
        return self._offsets(range(partitions), spec)

    def _offsets(self, partitions: Iterable[int], spec: Any) -> list[int]:
        """Asks until there is an answer: a leader may be on its way from one broker to another."""
        kafka = library()
        places = [kafka.TopicPartition(self._topic, number) for number in partitions]
        deadline_s = time.monotonic() + self._answer_s_max
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                asked = self._client().list_offsets(
                    dict.fromkeys(places, spec), request_timeout=max(left_s, _AGAIN_S)
                )
                return [int(asked[place].result().offset) for place in places]
            except kafka.KafkaException as raised:
                error = raised.args[0]
                if left_s <= 0 or error.name() in HOPELESS:
                    raise log_error(error, "ask where the log ends") from raised
                time.sleep(_AGAIN_S)

    def _client(self) -> Any:
        if self._admin is None:
            try:
                self._admin = admin_library().AdminClient(settings_of(self._place))
            except library().KafkaException as error:
                raise log_error(error.args[0], "open the log") from error
        return self._admin
