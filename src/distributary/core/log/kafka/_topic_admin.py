"""Looks at a topic, makes it and adds partitions to it: for all topics of a server.

Called by ``topics`` and ``recalled_topic``. Hides librdkafka's client that administers.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    admin_library,
    library,
    log_error,
    settings_of,
)

LOOK_AGAIN_S: Final = 0.05
"""Interval at which a topic is looked for that was made a moment ago."""

TOLD_S_MAX: Final = 5
"""Longest wait for a topic that another process has made: the broker that is asked may be the last
to learn of it. Brokers take milliseconds; one that starts takes seconds."""


class Topic(NamedTuple):
    """What the cluster says.

    Attributes:
        partitions: How many.
        replicas: Of the partition with the fewest.
        config: Settings in force.
    """

    partitions: int
    replicas: int
    config: Mapping[str, str]


class TopicAdmin:
    """A client that administers one topic; its errors are ours."""

    def __init__(self, place: KafkaPlace, topic: str) -> None:
        self.topic = topic
        self.kafka = library()
        self.admin = admin_library()
        with self.errors("open the log"):
            self._client = self.admin.AdminClient(settings_of(place))

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self.kafka.KafkaException as raised:
            raise log_error(raised.args[0], doing) from raised

    def brokers(self) -> dict[int, str]:
        """Id and address of every broker that lives."""
        with self.errors("reach the cluster"):
            metadata = self._client.list_topics(self.topic, timeout=ANSWER_S_MAX)
        return {number: f"{each.host}:{each.port}" for number, each in metadata.brokers.items()}

    def look(self) -> Topic | None:
        """The topic; None: there is none."""
        with self.errors(f"look at topic {self.topic}"):
            metadata = self._client.list_topics(self.topic, timeout=ANSWER_S_MAX)
        topic = metadata.topics[self.topic]
        if topic.error is not None:
            if _is_unknown(topic.error):
                return None
            raise log_error(topic.error, f"look at topic {self.topic}")
        replicas = min(len(each.replicas) for each in topic.partitions.values())
        config = self.config(self.admin.ConfigResource.Type.TOPIC, self.topic)
        return Topic(len(topic.partitions), replicas, config)

    def config(self, kind: Any, name: str) -> dict[str, str]:
        """The settings in force of a topic or broker."""
        resource = self.admin.ConfigResource(kind, name)
        deadline_s = time.monotonic() + ANSWER_S_MAX
        with self.errors(f"read the settings of {name}"):
            while True:
                asked = self._client.describe_configs([resource], request_timeout=ANSWER_S_MAX)
                try:
                    entries = asked[resource].result()
                except self.kafka.KafkaException as raised:
                    # The broker that is asked may learn of a new topic later than another one.
                    if not _is_unknown(raised.args[0]) or time.monotonic() > deadline_s:
                        raise
                    time.sleep(LOOK_AGAIN_S)
                else:
                    return {key: str(entry.value) for key, entry in entries.items()}

    def make(self, partitions: int, replicas: int, config: Mapping[str, str]) -> bool:
        """Make the topic; False: another node has made it."""
        topic = self.admin.NewTopic(self.topic, partitions, replicas, config=dict(config))
        try:
            asked = self._client.create_topics([topic], operation_timeout=ANSWER_S_MAX)
            asked[self.topic].result()
        except self.kafka.KafkaException as raised:
            error = raised.args[0]
            if error.name() == "TOPIC_ALREADY_EXISTS":
                return False
            raise SettingsError(
                f"topic {self.topic} with {partitions} partitions of {replicas} replicas cannot"
                f" be made: {error.str()}"
            ) from raised
        return True

    def grow(self, partitions: int) -> None:
        """Have at least so many partitions in the topic; waits until they are told.

        Raises:
            LogUnavailableError: The cluster does not answer.
            SettingsError: It refuses.
        """
        wanted = self.admin.NewPartitions(self.topic, partitions)
        try:
            asked = self._client.create_partitions([wanted], operation_timeout=ANSWER_S_MAX)
            asked[self.topic].result()
        except self.kafka.KafkaException as raised:
            error = raised.args[0]
            if error.name() != "INVALID_PARTITIONS":  # another node has added them
                raise SettingsError(
                    f"topic {self.topic} cannot have {partitions} partitions: {error.str()}"
                ) from raised
        look_until(self, partitions)


def look_until(admin: TopicAdmin, partitions: int) -> Topic:
    """Returns the topic once every broker is likely to know so many partitions of it.

    Brokers learn of a change one after the other.
    """
    deadline_s = time.monotonic() + ANSWER_S_MAX
    while True:
        with contextlib.suppress(LogUnavailableError):
            topic = admin.look()
            if topic is not None and topic.partitions >= partitions:
                return topic
        if time.monotonic() > deadline_s:
            raise LogUnavailableError(f"topic {admin.topic} was made and is not there yet")
        time.sleep(LOOK_AGAIN_S)


def look_for(admin: TopicAdmin) -> Topic:
    """Returns a topic that has been made already, perhaps only a moment ago.

    Raises:
        LogUnavailableError: There is none, or the cluster does not answer.
    """
    deadline_s = time.monotonic() + TOLD_S_MAX
    while (topic := admin.look()) is None:
        if time.monotonic() > deadline_s:
            raise LogUnavailableError(f"there is no topic {admin.topic}")
        time.sleep(LOOK_AGAIN_S)
    return topic


def _is_unknown(error: Any) -> bool:
    """Whether a broker knows no such topic."""
    return bool(error.name() == "UNKNOWN_TOPIC_OR_PART")


def cure(topic: str, key: str, value: str) -> str:
    return (
        f"Run kafka-configs.sh --alter --entity-type topics --entity-name {topic}"
        f" --add-config {key}={value}"
    )
