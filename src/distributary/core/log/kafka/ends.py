"""Where all partitions of the topic end, by one question: for metrics."""

from typing import Any

from distributary.core.cluster import KafkaPlace
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    admin_library,
    library,
    log_error,
    settings_of,
    topic_of,
)


class KafkaEnds:
    """Asks for the ends of partitions. Connects at the first question; for one thread at a time.

    Args:
        place: The cluster.
    """

    def __init__(self, place: KafkaPlace) -> None:
        self._place = place
        self._admin: Any = None

    def read(self, partitions: int) -> list[int]:
        """Returns the offset after the last record that all replicas in sync have, of each.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        kafka, admin = library(), admin_library()
        if self._admin is None:
            self._admin = admin.AdminClient(settings_of(self._place))
        topic = topic_of(self._place)
        places = [kafka.TopicPartition(topic, number) for number in range(partitions)]
        latest = admin.OffsetSpec.latest()
        try:
            answers = self._admin.list_offsets(
                dict.fromkeys(places, latest), request_timeout=ANSWER_S_MAX
            )
            return [int(answers[place].result().offset) for place in places]
        except kafka.KafkaException as error:
            raise log_error(error.args[0], "ask where the log ends") from error
