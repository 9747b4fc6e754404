"""Makes the topic that holds the log, or checks the one that is there.

A log promises that what was acknowledged is there until every consumer has done with it. A topic
or cluster that may lose records, or delete them by itself, is refused, by the name of the setting
and with the cure.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.log.kafka._client import RECORD_BYTES_MAX, topic_of
from distributary.core.log.kafka._topic_admin import Topic, TopicAdmin, cure, look_for, look_until

REPLICAS: Final = 3
"""Of each partition: one may be gone and one may fail."""

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
    admin = TopicAdmin(place, topic_of(place))
    brokers = admin.brokers()
    topic, made = admin.look(), False
    if topic is None:
        # The number of brokers, not of replicas asked for: one broker may be down just now.
        wanted = 1 if len(brokers) == 1 or one_replica else replicas
        safe = {**MADE, "min.insync.replicas": str(min(2, wanted))}
        made = admin.make(partitions, wanted, safe)
        topic = look_until(admin, 1)
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
    admin = TopicAdmin(place, topic_of(place))
    topic = look_for(admin)
    if topic.partitions < partitions:
        admin.grow(partitions)


def _faults(topic: Topic, name: str) -> Iterator[str]:
    for key, why in REQUIRED.items():
        found = topic.config.get(key, MADE[key])
        if found != MADE[key]:
            yield f"{key} of topic {name} is {found}: {why}. {cure(name, key, MADE[key])}"
    key = "min.insync.replicas"
    in_sync = _number(topic.config, key, 1)
    if topic.replicas > 1 and in_sync < 2:
        yield (
            f"{key} of topic {name} is {in_sync}: an event that one broker has is acknowledged, and"
            f" lost with it. {cure(name, key, '2')}"
        )
    key = "max.message.bytes"
    if _number(topic.config, key, RECORD_BYTES_MAX) < RECORD_BYTES_MAX:
        yield (
            f"{key} of topic {name} is {topic.config[key]}: records that the receiver accepts are"
            f" refused. {cure(name, key, str(RECORD_BYTES_MAX))}"
        )


def _warnings(topic: Topic, name: str, partitions: int) -> Iterator[str]:
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
            f" {cure(name, 'compression.type', 'producer')}"
        )


def _cluster_warnings(admin: TopicAdmin, brokers: Mapping[int, str]) -> list[str]:
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
