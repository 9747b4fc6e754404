"""The topic by which recalled files go to owners on other machines: ``{prefix}.recalled``.

The job that recalls sends the pieces of a file (``core.log.pieces``) to the partition of its
records; the owner reads that partition from where it ended when the owner asked. The topic is a
means of transport, and nobody's store: its cluster deletes what is older than a quarter of an hour,
one replica in sync is enough, and what is lost is asked for again.

Not imported with the package: few processes recall.
"""

import secrets
from pathlib import Path
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import SettingsError
from distributary.core.log.kafka._client import FULL_MS, topic_of
from distributary.core.log.kafka._fetcher import Fetcher
from distributary.core.log.kafka._sending import Sending
from distributary.core.log.kafka._topic_admin import TopicAdmin, cure, look_for, look_until
from distributary.core.log.pieces import PIECE_BYTES, cut
from distributary.core.log.recalled import RecalledName

KEPT_MS: Final = 15 * 60_000
"""Time after which the cluster deletes a piece: an owner takes it within seconds."""

KEPT_BYTES: Final = 256 * 1024 * 1024
"""Size of a partition above which it does: four stretches, and an owner reads one ahead."""

SEGMENT_BYTES: Final = 32 * 1024 * 1024
"""Kafka deletes whole segments."""

MESSAGE_BYTES_MAX: Final = PIECE_BYTES + 64 * 1024
"""A piece, with its head and what Kafka adds."""

MADE: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(KEPT_MS),
    "retention.bytes": str(KEPT_BYTES),
    "segment.bytes": str(SEGMENT_BYTES),
    "segment.ms": str(KEPT_MS),
    "min.insync.replicas": "1",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
}
"""Settings of the topic when it is made."""

SENT_S_MAX: Final = 60
"""Longest wait for the acknowledgement of a piece; then the recall fails, and begins again."""

_FETCHES: Final = {
    "queued.max.messages.kbytes": 4 * 1024,
    "fetch.message.max.bytes": 2 * MESSAGE_BYTES_MAX,
    "fetch.queue.backoff.ms": FULL_MS,
}


def recalled_topic_of(place: KafkaPlace) -> str:
    """The name of the topic."""
    return f"{place.prefix}.recalled"


def prepare_recalled_topic(place: KafkaPlace, partitions: int) -> None:
    """Make the topic, or check the one that is there; any number of processes may do so. Blocks.

    Args:
        place: The cluster.
        partitions: As many as the log has, at least.

    Raises:
        LogUnavailableError: The cluster does not answer, or there is no log.
        SettingsError: It cannot be made, or would keep everything: each fault with its cure.
    """
    admin = TopicAdmin(place, recalled_topic_of(place))
    topic = admin.look()
    if topic is None:
        log = look_for(TopicAdmin(place, topic_of(place)))
        admin.make(partitions, log.replicas, MADE)
        topic = look_until(admin, 1)
    config, name = topic.config, admin.topic
    faults = []
    if config.get("cleanup.policy", "delete") != "delete":
        faults.append(
            f"cleanup.policy is {config['cleanup.policy']}. {_cure(name, 'cleanup.policy')}"
        )
    if config.get("retention.ms") == config.get("retention.bytes") == "-1":
        faults.append(f"nothing would be deleted. {_cure(name, 'retention.ms')}")
    if int(config.get("max.message.bytes", MESSAGE_BYTES_MAX)) < MESSAGE_BYTES_MAX:
        faults.append(f"pieces are too long for it. {_cure(name, 'max.message.bytes')}")
    if faults:
        raise SettingsError(f"topic {name} cannot be used: " + "; ".join(faults))
    if topic.partitions < partitions:
        admin.grow(partitions)


def _cure(topic: str, key: str) -> str:
    return cure(topic, key, MADE[key])


class RecalledSender:
    """Sends recalled files. Close it.

    Args:
        place: The cluster; the topic is there.

    Raises:
        LogUnavailableError: librdkafka does not take the settings of *place*.
    """

    def __init__(self, place: KafkaPlace) -> None:
        settings = {
            "acks": "all",  # those in sync: a leader that is lost costs no wait for another sending
            "delivery.timeout.ms": SENT_S_MAX * 1000,
            "message.max.bytes": MESSAGE_BYTES_MAX,
        }
        topic = recalled_topic_of(place)
        self._sending = Sending(place, topic, f"send to topic {topic}", settings)
        self.close = self._sending.close

    def send(self, partition: int, folder: Path, name: RecalledName) -> None:
        """Send the file *name* in *folder* to the owner of *partition*; waits until it is there.

        Raises:
            LogUnavailableError: The cluster does not take it.
            OSError: The file cannot be read.
        """
        for piece in cut(name.path(folder), name, secrets.randbits(64)):
            self._sending.send(partition, piece)
        self._sending.flush()


class RecalledReader:
    """Reads what comes to a partition from now on. For one thread at a time; close it.

    Args:
        place: The cluster.
        partition: Number of the partition.

    Raises:
        LogUnavailableError: The cluster does not answer, or there is no topic yet.
    """

    def __init__(self, place: KafkaPlace, partition: int) -> None:
        topic = recalled_topic_of(place)
        self._fetcher = Fetcher(place, partition, _FETCHES, waits=False, topic=topic)
        try:
            self._fetcher.seek(self._fetcher.watermarks().end)
        except BaseException:
            self._fetcher.close()
            raise

    def take(self, wait_s: float) -> list[bytes | None]:
        """Returns the values that have come; waits for the first one, *wait_s* seconds at most.

        Raises:
            LogUnavailableError: The cluster has deleted some of them, or cannot be read.
        """
        return self._fetcher.values() if self._fetcher.ready(wait_s) else []

    def close(self) -> None:
        """End the connections."""
        self._fetcher.close()
