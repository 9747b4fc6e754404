"""Makes the topic that holds the log, or checks the one that is there.

A log promises that what was acknowledged is there until every consumer has done with it. A topic
or cluster that may lose records, or delete them by itself, is refused, by the name of the setting
and with the cure.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    RECORD_BYTES_MAX,
    admin_library,
    library,
    log_error,
    settings_of,
    topic_of,
)

REPLICAS: Final = 3
"""Of each partition: one may be gone and one may fail."""

LOOK_AGAIN_S: Final = 0.05
"""Interval at which a topic is looked for that was made a moment ago."""

SESSION_MS_MAX: Final = 9_000
"""Kafka's default; with more, publishing and deliveries stand still for longer after a failure."""

MADE: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
"""Settings of a topic that is made now, beside ``min.insync.replicas``."""

REQUIRED: Final = {
    "cleanup.policy": "compaction would delete events",
    "retention.ms": "the cluster would delete events that no consumer has seen yet",
    "retention.bytes": "the cluster would delete events that no consumer has seen yet",
    "message.timestamp.type": "the time of an event would be that of its receiver's clock",
    "unclean.leader.election.enable": "a replica that lacks acknowledged events could lead",
}
"""Setting that must be as in ``MADE`` -> what happens otherwise."""


class Prepared(NamedTuple):
    """The topic as it is.

    Attributes:
        partitions: How many it has; more or fewer than asked for where it was there before.
        made: Whether it was made now.
        warnings: What is not as it should be, with cures; for the log, and for people.
    """

    partitions: int
    made: bool
    warnings: tuple[str, ...]


class _Topic(NamedTuple):
    """What the cluster says.

    Attributes:
        partitions: How many.
        replicas: Of the partition with the fewest.
        config: Settings in force.
    """

    partitions: int
    replicas: int
    config: Mapping[str, str]


class _Admin:
    """A client that administers; its errors are ours."""

    def __init__(self, place: KafkaPlace) -> None:
        self._place = place
        self.topic = topic_of(place)
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

    def look(self) -> _Topic | None:
        """The topic; None: there is none."""
        with self.errors(f"look at topic {self.topic}"):
            metadata = self._client.list_topics(self.topic, timeout=ANSWER_S_MAX)
        topic = metadata.topics[self.topic]
        if topic.error is not None:
            if topic.error.name() == "UNKNOWN_TOPIC_OR_PART":
                return None
            raise log_error(topic.error, f"look at topic {self.topic}")
        replicas = min(len(each.replicas) for each in topic.partitions.values())
        config = self.config(self.admin.ConfigResource.Type.TOPIC, self.topic)
        return _Topic(len(topic.partitions), replicas, config)

    def config(self, kind: Any, name: str) -> dict[str, str]:
        """The settings in force of a topic or broker."""
        resource = self.admin.ConfigResource(kind, name)
        with self.errors(f"read the settings of {name}"):
            asked = self._client.describe_configs([resource], request_timeout=ANSWER_S_MAX)
            entries = asked[resource].result()
        return {key: str(entry.value) for key, entry in entries.items()}

    def make(self, partitions: int, replicas: int, in_sync: int) -> None:
        """Make the topic; it may have been made by another node meanwhile."""
        config = {**MADE, "min.insync.replicas": str(in_sync)}
        topic = self.admin.NewTopic(self.topic, partitions, replicas, config=config)
        try:
            asked = self._client.create_topics([topic], operation_timeout=ANSWER_S_MAX)
            asked[self.topic].result()
        except self.kafka.KafkaException as raised:
            error = raised.args[0]
            if error.name() != "TOPIC_ALREADY_EXISTS":
                raise SettingsError(
                    f"topic {self.topic} with {partitions} partitions of {replicas} replicas cannot"
                    f" be made: {error.str()}"
                ) from raised

    def grow(self, partitions: int) -> None:
        """Add partitions to the topic."""
        wanted = self.admin.NewPartitions(self.topic, partitions)
        try:
            asked = self._client.create_partitions([wanted], operation_timeout=ANSWER_S_MAX)
            asked[self.topic].result()
        except self.kafka.KafkaException as raised:
            raise SettingsError(
                f"topic {self.topic} cannot have {partitions} partitions: {raised.args[0].str()}"
            ) from raised


def prepare_topics(
    place: KafkaPlace, partitions: int, *, replicas: int = REPLICAS, one_replica: bool = False
) -> Prepared:
    """Make the topic of the log, or check the one that is there. Blocks; every node may call it.

    Args:
        place: The cluster.
        partitions: Of a topic that is made now; one that is there keeps what it has: see
            ``KafkaRoutes.add_partitions``.
        replicas: Of each partition of a topic that is made now, where the cluster has so many
            brokers.
        one_replica: Accept that the loss of one broker loses acknowledged events. A cluster of one
            broker needs no such word.

    Raises:
        LogUnavailableError: The cluster does not answer, or lets us do nothing.
        SettingsError: Topic or cluster may lose events: every fault, each with the cure.
    """
    admin = _Admin(place)
    brokers = admin.brokers()
    topic, made = admin.look(), False
    if topic is None:
        # The number of brokers, not of replicas asked for: one broker may be down just now.
        wanted = 1 if len(brokers) == 1 or one_replica else replicas
        admin.make(partitions, wanted, min(2, wanted))
        topic, made = _look_until(admin, 1), True
    faults = list(_faults(topic, admin.topic))
    warnings = list(_warnings(topic, admin.topic, partitions))
    if topic.replicas == 1:
        text = f"topic {admin.topic} has one replica: a broker's disk that is lost loses events"
        if one_replica or len(brokers) == 1:
            warnings.append(text)
        else:
            faults.append(f"{text}. Reassign it to {REPLICAS} replicas, or accept one by setting")
    if faults:
        raise SettingsError("the Kafka log is not safe:\n" + "\n".join(f"- {f}" for f in faults))
    warnings += _cluster_warnings(admin, brokers)
    return Prepared(topic.partitions, made, tuple(warnings))


def grow_topic(place: KafkaPlace, partitions: int) -> None:
    """Have at least *partitions* partitions in the topic. Blocks.

    Raises:
        LogUnavailableError: The cluster does not answer.
        SettingsError: It refuses.
    """
    admin = _Admin(place)
    topic = admin.look()
    if topic is None:
        raise LogUnavailableError(f"there is no topic {admin.topic}")
    if topic.partitions < partitions:
        admin.grow(partitions)
        _look_until(admin, partitions)


def _look_until(admin: _Admin, partitions: int) -> _Topic:
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


def _faults(topic: _Topic, name: str) -> Iterator[str]:
    for key, why in REQUIRED.items():
        found = topic.config.get(key, MADE[key])
        if found != MADE[key]:
            yield f"{key} of topic {name} is {found}: {why}. {_cure(name, key, MADE[key])}"
    key = "min.insync.replicas"
    in_sync = _number(topic.config, key, 1)
    if topic.replicas > 1 and in_sync < 2:
        yield (
            f"{key} of topic {name} is {in_sync}: an event that one broker has is acknowledged, and"
            f" lost with it. {_cure(name, key, '2')}"
        )
    key = "max.message.bytes"
    if _number(topic.config, key, RECORD_BYTES_MAX) < RECORD_BYTES_MAX:
        yield (
            f"{key} of topic {name} is {topic.config[key]}: records that the receiver accepts are"
            f" refused. {_cure(name, key, str(RECORD_BYTES_MAX))}"
        )


def _warnings(topic: _Topic, name: str, partitions: int) -> Iterator[str]:
    if topic.partitions != partitions:
        yield f"topic {name} has {topic.partitions} partitions, not {partitions}"
    in_sync = _number(topic.config, "min.insync.replicas", 1)
    if topic.replicas > 1 and in_sync >= topic.replicas:
        yield (
            f"min.insync.replicas of topic {name} is {in_sync} of {topic.replicas} replicas: one"
            " broker that is down stops publishing. Add a replica"
        )
    compression = topic.config.get("compression.type", "producer")
    if compression != "producer":
        yield (
            f"compression.type of topic {name} is {compression}: brokers compress all again."
            f" {_cure(name, 'compression.type', 'producer')}"
        )


def _cluster_warnings(admin: _Admin, brokers: Mapping[int, str]) -> list[str]:
    """What the settings of one broker say: those of a cluster are alike."""
    number = min(brokers, default=0)
    try:
        config = admin.config(admin.admin.ConfigResource.Type.BROKER, str(number))
    except LogUnavailableError as error:
        return [f"the settings of brokers are not known: {error}"]
    checks: tuple[tuple[str, Callable[[str], bool], str], ...] = (
        (
            "broker.session.timeout.ms",
            lambda found: int(found) > SESSION_MS_MAX,
            f"a broker that fails stops its partitions for so long. Set at most {SESSION_MS_MAX}",
        ),
        (
            "auto.create.topics.enable",
            lambda found: found == "true",
            "a misspelt prefix would make a topic without safe settings. Set false",
        ),
        (
            "unclean.leader.election.enable",
            lambda found: found == "true",
            "topics made by others lose acknowledged records. Set false",
        ),
    )
    return [
        f"{key} of broker {number} is {config[key]}: {why}"
        for key, wrong, why in checks
        if key in config and wrong(config[key])
    ]


def _number(config: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(config[key])
    except (KeyError, ValueError):
        return default


def _cure(topic: str, key: str, value: str) -> str:
    return (
        f"Run kafka-configs.sh --alter --entity-type topics --entity-name {topic}"
        f" --add-config {key}={value}"
    )
