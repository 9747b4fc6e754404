"""A Kafka cluster of three nodes in KRaft mode, each broker and controller, for a run of tests.

Any of them may be killed and started again: two of three are enough for records and for the
controllers. Small heaps, quickly compiled; nobody has to log in.
"""

import importlib
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kit.ports import free_port
from kit.running_server import wait_until
from kit.servers._base import BrokerServer
from kit.servers._tls import Authority
from kit.servers.kafka import fetch, format_storage, runner

NODES: Final = 3

SESSION_MS: Final = 3_000
"""A broker without a heartbeat for so long leads nothing any more."""

_CLUSTER_ID: Final = "dGhyZWUgYnJva2Vycy4uLg"

_JVM: Final = (
    "-Xms96m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
)

_ANSWER_S_MAX: Final = 30.0

_CONFIGURATION: Final = """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=PLAIN://127.0.0.1:{port},WIRED://127.0.0.1:{wired_port},\
CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAIN://127.0.0.1:{port},WIRED://127.0.0.1:{wire_port}
listener.security.protocol.map=PLAIN:PLAINTEXT,WIRED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms=500
controller.quorum.fetch.timeout.ms=1000
controller.quorum.election.timeout.ms=500
controller.quorum.election.backoff.max.ms=500
auto.create.topics.enable=false
default.replication.factor=3
min.insync.replicas=2
unclean.leader.election.enable=false
log.dirs={folder}/log
log.cleaner.enable=false
log.initial.task.delay.ms=600000
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
replica.fetch.wait.max.ms=200
offsets.topic.num.partitions=1
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
"""


class KafkaNode(BrokerServer):
    """One node of a cluster; ``kill`` and ``start`` leave what it keeps in place.

    Attributes:
        number: Its id, from 1.
        controller_port: Where controllers talk.
        wired_port: Listener for clients behind a wire that can be cut...
        wire_port: ...which must listen here: this is the address that such clients are told.
    """

    name = "kafka-node"

    def __init__(self, authority: Authority | None, number: int) -> None:
        super().__init__(authority)
        self.number = number
        self.controller_port = free_port()
        self.wired_port = free_port()
        self.wire_port = free_port()
        self.voters = ""
        self._formatted = False

    def command(self) -> list[str]:
        """Java with Kafka's jars; see ``BrokerServer``."""
        run = runner(_JVM)
        configuration = self.folder / "server.properties"
        if not self._formatted:
            configuration.write_text(
                _CONFIGURATION.format(
                    number=self.number,
                    voters=self.voters,
                    port=self.port,
                    wired_port=self.wired_port,
                    wire_port=self.wire_port,
                    controller_port=self.controller_port,
                    session_ms=SESSION_MS,
                    folder=self.folder,
                )
            )
            format_storage(run, _CLUSTER_ID, configuration)
            self._formatted = True
        return [*run, "kafka.Kafka", str(configuration)]

    def ready(self) -> bool:
        """Whether it takes clients."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.5):
                return True
        except OSError:
            return False

    def leader_of_controllers(self) -> int:
        """The id of the node whose controller is active, as this one knows it.

        Raises:
            OSError: It does not answer.
        """
        name = b"__cluster_metadata"
        topics = b"\x02" + bytes([len(name) + 1]) + name + b"\x02" + bytes(4) + b"\x00\x00"
        request = struct.pack(">hhihx", 55, 0, 1, -1) + topics + b"\x00"  # DescribeQuorum
        body = self._asked(request)
        # Correlation, tags, error, one topic with its name, one partition with number and error.
        at = 4 + 1 + 2 + 1 + 1 + len(name) + 1 + 4 + 2
        (leader,) = struct.unpack_from(">i", body, at)
        return int(leader)

    def knows(self, topic: str, partitions: int) -> bool:
        """Whether it tells clients who leads each of so many partitions of *topic*.

        Raises:
            OSError: It does not answer.
        """
        name = topic.encode()
        topics = struct.pack(">ih", 1, len(name)) + name + b"\x00"  # is not made by asking
        body = self._asked(struct.pack(">hhih", 3, 4, 1, -1) + topics)  # Metadata
        # From the topic on: its name, a flag, its partitions; of each error, number and leader,
        # its replicas and those in sync. There is none of them where the topic is not known.
        at = body.index(struct.pack(">h", len(name)) + name) + 2 + len(name) + 1
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
        led = 0
        for _ in range(count):
            _error, _number, leader, replicas = struct.unpack_from(">hiii", body, at)
            led += leader >= 0
            at += 14 + 4 * replicas
            (in_sync,) = struct.unpack_from(">i", body, at)
            at += 4 + 4 * in_sync
        return led >= partitions

    def _asked(self, request: bytes) -> bytes:
        """The answer to a request."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_ANSWER_S_MAX) as wire:
            wire.sendall(struct.pack(">i", len(request)) + request)
            with wire.makefile("rb") as answer:
                (length,) = struct.unpack(">i", answer.read(4))
                return answer.read(length)

    def log_folder(self, topic: str, partition: int) -> Path:
        """Where the segments of a partition are, if this node has a replica."""
        return self.folder / "log" / f"{topic}-{partition}"


class KafkaCluster:
    """Three nodes; a context manager.

    Attributes:
        nodes: By id, from 1.
    """

    def __init__(self, authority: Authority | None = None) -> None:
        self.nodes = {number: KafkaNode(authority, number) for number in range(1, NODES + 1)}
        voters = ",".join(
            f"{number}@127.0.0.1:{node.controller_port}" for number, node in self.nodes.items()
        )
        for node in self.nodes.values():
            node.voters = voters

    @property
    def servers(self) -> tuple[str, ...]:
        """Where clients begin."""
        return tuple(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    def client(self) -> dict[str, Any]:
        """What librdkafka must know."""
        return {"bootstrap.servers": ",".join(self.servers), "log_level": 0}

    def admin(self) -> Any:
        """A client that administers."""
        return importlib.import_module("confluent_kafka.admin").AdminClient(self.client())

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = NODES, **config: str
    ) -> None:
        """Make a topic, and wait until each node knows it; its settings have ``_`` for ``.``."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        library = importlib.import_module("confluent_kafka.admin")
        topic = library.NewTopic(name, partitions, replicas, config=settings)
        admin = self.admin()  # ends its requests when it is forgotten
        for made in admin.create_topics([topic]).values():
            made.result(_ANSWER_S_MAX)
        self.wait_known(name, partitions)

    def wait_known(self, topic: str, partitions: int) -> None:
        """Wait until each node tells clients so many partitions of *topic*."""
        for node in self.nodes.values():
            knows = partial(node.knows, topic, partitions)
            wait_until(knows, _ANSWER_S_MAX, f"a node knows topic {topic}", 0.02)

    def controller(self) -> KafkaNode:
        """The node whose controller is active."""
        deadline_s = time.monotonic() + _ANSWER_S_MAX
        while True:
            for node in self.nodes.values():
                try:
                    leader = node.leader_of_controllers()
                except OSError:
                    continue
                if leader in self.nodes and self.nodes[leader].ready():
                    return self.nodes[leader]
            assert time.monotonic() < deadline_s, "there is no active controller"
            time.sleep(0.1)

    def leader(self, topic: str, partition: int) -> KafkaNode:
        """The node that leads a partition."""
        metadata = self.admin().list_topics(topic, timeout=_ANSWER_S_MAX)
        return self.nodes[metadata.topics[topic].partitions[partition].leader]

    def wait_whole(self, topic: str | None = None) -> None:
        """Wait until all nodes are there, and all replicas of *topic* are in sync."""
        deadline_s = time.monotonic() + 2 * _ANSWER_S_MAX
        admin = self.admin()
        while True:
            metadata = admin.list_topics(topic, timeout=_ANSWER_S_MAX)
            whole = len(metadata.brokers) == NODES and all(
                len(partition.isrs) == len(partition.replicas)
                for each in metadata.topics.values()
                for partition in each.partitions.values()
            )
            if whole:
                return
            assert time.monotonic() < deadline_s, "the cluster does not become whole"
            time.sleep(0.1)

    def __enter__(self) -> Self:
        """Start all."""
        fetch()
        with ThreadPoolExecutor(NODES) as threads:
            try:
                list(threads.map(KafkaNode.__enter__, self.nodes.values()))
            except BaseException:
                self.__exit__(None, None, None)
                raise
        self.wait_whole()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill all and remove what they kept."""
        for node in self.nodes.values():
            node.__exit__(kind, error, trace)
