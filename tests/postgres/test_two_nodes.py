"""Two whole nodes on real brokers and a real database: partitions added, settings, leaving."""

import base64
import functools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from distributary.core.cluster import KafkaPlace
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE, STORE_PASSWORD_VARIABLE
from distributary.core.log.kafka import KafkaEnds
from kit.answering_sinks import AnsweringSinks
from kit.ports import free_port
from kit.running_server import Role, RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEFORE, AFTER = 2, 5
"""Partitions of the log."""

WAIT_S_MAX = 90.0
"""Longest wait for anything that a stalled machine delays."""

TAKEN = (200, 201)
"""Statuses of a change that was made."""

LEFT_S_MAX = 60.0
"""Longest orderly stop of a node; usual is a tenth."""


class Nodes:
    """Two nodes on one log and one store.

    Attributes:
        servers: The nodes.
        place: The log.
    """

    def __init__(self, folder: Path, kafka: Any, postgres: Any) -> None:
        self._folder = folder
        database = postgres.new_database()
        prefix = f"nodes-{os.getpid()}"
        self.place = KafkaPlace(servers=kafka.servers, prefix=prefix)
        self._settings = [
            f'log = "kafka://{",".join(kafka.servers)}/{prefix}"',
            f'store = "{database.url}"',
            f'history = "{folder / "history"}"',
            'once_window_s = "1h"',
        ]
        environ = clean_environ() | {
            STORE_PASSWORD_VARIABLE: database.password,
            CREDENTIAL_KEY_VARIABLE: base64.b64encode(os.urandom(32)).decode(),
            "PATH": f"{self._without_python(folder)}{os.pathsep}{os.environ['PATH']}",
        }
        self._addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self.servers = [
            RunningServer(
                folder / f"node-{number}",
                flags=("--config", str(folder / f"{number}.toml")),
                environ=environ,
            )
            for number in range(2)
        ]
        self.configure(BEFORE)

    @staticmethod
    def _without_python(folder: Path) -> Path:
        """A folder whose ``python3`` cannot run workers, as that of a machine may be."""
        python = folder / "bin" / "python3"
        python.parent.mkdir()
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
        return python.parent

    def configure(self, partitions: int, more: str = "") -> None:
        """Write the configuration of both."""
        for number, address in enumerate(self._addresses):
            lines = [
                *self._settings,
                f"partitions = {partitions}",
                f'node_name = "node-{number}"',
                f'node_address = "{address}"',
            ]
            (self._folder / f"{number}.toml").write_text("\n".join(lines) + "\n" + more)

    def reload(self) -> None:
        """Have both read their configuration again."""
        for server in self.servers:
            os.kill(server.pid, signal.SIGHUP)

    def publish(self, name: str, key: str = "") -> int:
        """Publish an event at the second node; the status."""
        fields = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/s", "ce-type": "t"}
        if key:
            fields["ce-partitionkey"] = key
        return self.servers[1].request("POST", "/events", b"", fields).status


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, kafka_cluster, postgres) -> Iterator[Nodes]:
    """Two nodes; the first one leads."""
    made = Nodes(tmp_path_factory.mktemp("nodes"), kafka_cluster, postgres)
    try:
        for server in made.servers:
            server.start()
            server.wait_ready()
        yield made
    finally:
        for server in made.servers:
            server.kill_all()


@pytest.fixture(scope="module")
def sinks() -> Iterator[AnsweringSinks]:
    """Takes what is delivered."""
    with AnsweringSinks() as made:
        yield made


def says(server: RunningServer, text: str) -> bool:
    """Whether the server has written *text*."""
    return text in server.log.read_text("utf-8", "replace")


def owned(server: RunningServer) -> int:
    """Partitions that somebody delivers."""
    found = server.request("GET", "/cluster").json()["partitions"]
    return sum(1 for each in found if each["owner"] is not None)


def test_an_event_is_found_by_its_id_with_what_became_of_it(
    nodes: Nodes, sinks: AnsweringSinks
) -> None:
    """Each node has an index; the way has the outcome, from PostgreSQL or the shared folder."""
    sink = sinks.sink("/found")
    nodes.servers[1].subscribe(sink.url, filters=[{"exact": {"source": "/found"}}])
    fields = {"ce-specversion": "1.0", "ce-source": "/found", "ce-type": "t"}
    names = [f"found{number}" for number in range(16)]
    for name in names:
        answer = nodes.servers[1].request(
            "POST", "/events", bytes(65_536), fields | {"ce-id": name}
        )
        assert answer.status == 202
    sink.wait_for(*names)
    for server in nodes.servers:
        index = server.paths.index_folder
        wait_until(lambda index=index: any(index.rglob("*.ids")), WAIT_S_MAX, "there is an index")
        (found,) = server.request("GET", "/events?id=found3").json()
        way = functools.partial(server.request, "GET", f"/events/{found['position']}")
        wait_until(
            lambda way=way: [each["outcome"] for each in way().json()["matches"]] == ["delivered"],
            WAIT_S_MAX,
            "the way has its outcome",
        )
        assert way().json()["attempts"] == "all"


def test_an_event_that_comes_again_is_delivered_once(nodes: Nodes, sinks: AnsweringSinks) -> None:
    """At another node, in other batches, and after all consumers were killed; its way says so."""
    sink = sinks.sink("/once")
    first, second = nodes.servers
    second.subscribe(sink.url, filters=[{"exact": {"source": "/once"}}])
    names = [f"once{number}" for number in range(20)]

    def publish(server: RunningServer, *ids: str) -> None:
        fields = {"specversion": "1.0", "source": "/once", "type": "t"}
        batch = msgspec.json.encode([fields | {"id": each} for each in ids])
        kind = {"content-type": "application/cloudevents-batch+json"}
        assert server.request("POST", "/events", batch, kind).status == 202

    def ways() -> list[tuple[str, bool, list[str | None]]]:
        found = second.request("GET", "/events?source=/once&limit=100").json()
        told = [second.request("GET", f"/events/{each['position']}").json() for each in found]
        matched = [[one for one in each["matches"] if one["matched"]] for each in told]
        return [
            (each["event"]["id"], "repeats" in each, [one["outcome"] for one in mine])
            for each, mine in zip(told, matched, strict=True)
        ]

    publish(first, *names)
    publish(second, *reversed(names), names[0])
    wanted = [(each, False, ["delivered"]) for each in names]
    wanted += [(each, True, list[str | None]()) for each in [*names, names[0]]]
    # What is durable is not sent again by the consumers of after the kill.
    wait_until(lambda: sorted(ways()) == sorted(wanted), WAIT_S_MAX, "all ways are told")
    counted = functools.partial(first.metric, "repeated_events_total")
    wait_until(lambda: counted() >= len(names) + 1, WAIT_S_MAX, "repeats are counted")
    workers = [*first.processes(Role.WORKER), *second.processes(Role.WORKER)]
    assert workers
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
    publish(second, *names)
    last = [f"last{number}" for number in range(20)]  # some behind them in each partition
    publish(first, *last)
    sink.wait_for(*last)
    assert sorted(sink.ids) == sorted(names + last)


def test_partitions_are_added_to_a_log_in_use(nodes: Nodes, sinks: AnsweringSinks) -> None:
    """What is published meanwhile arrives, new partitions get events, and fewer are refused."""
    sink = sinks.sink("/orders")
    second = nodes.servers[1]
    second.subscribe(sink.url)
    over = threading.Event()
    taken: list[str] = []

    def publish() -> None:
        number = 0
        while not over.wait(0.05):
            number += 1
            if nodes.publish(f"e{number}", key=f"k{number}") == 202:
                taken.append(f"e{number}")

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        sink.wait(10)
        nodes.configure(AFTER)
        nodes.reload()
        wait_until(lambda: owned(second) == AFTER, WAIT_S_MAX, "each partition has an owner")
        ends = KafkaEnds(nodes.place)
        wait_until(
            lambda: all(end for end in ends.read(AFTER)[BEFORE:]), WAIT_S_MAX, "events land there"
        )
    finally:
        over.set()
        publisher.join()
    sink.wait_for(*taken)
    later = sinks.sink("/later")
    second.subscribe(later.url)
    names = [f"later{number}" for number in range(20)]
    assert {nodes.publish(name, key=name) for name in names} == {202}
    later.wait_for(*names)
    nodes.configure(BEFORE)
    nodes.reload()
    for server in nodes.servers:
        refused = functools.partial(says, server, "never become fewer")
        wait_until(refused, WAIT_S_MAX, "fewer are refused")
    nodes.configure(AFTER)


def test_sources_are_reloaded_on_each_node(
    nodes: Nodes, sinks: AnsweringSinks, kafka_cluster
) -> None:
    """A source that is added to the configuration of all nodes is read by one of them."""
    topic = f"source-{os.getpid()}"
    kafka_cluster.create_topic(topic, 1, 1)
    sink = sinks.sink("/sources")
    nodes.servers[1].subscribe(sink.url, filters=[{"exact": {"type": "from.topic"}}])
    servers = ",".join(kafka_cluster.servers)
    nodes.configure(
        AFTER,
        f'[[sources]]\nname = "orders"\nprotocol = "KAFKA"\nuri = "kafka://{servers}"\n'
        f'topicname = "{topic}"\n',
    )
    nodes.reload()
    event = {"specversion": "1.0", "id": "s1", "source": "/s", "type": "from.topic"}
    fields = [("content-type", b"application/cloudevents+json")]
    producer = Producer(kafka_cluster.client())
    producer.produce(topic, msgspec.json.encode(event), headers=fields)
    producer.flush(WAIT_S_MAX)
    sink.wait_for("s1")


def test_a_node_that_leads_leaves_in_order(nodes: Nodes) -> None:
    """It ends in time; calls of its API under way are answered, and the other one leads at once."""
    first, second = nodes.servers
    over = threading.Event()
    answers: list[int] = []

    def call(number: int) -> None:
        while not over.is_set():
            body = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", "id": f"s{number}"}
            fields = {"content-type": "application/json"}
            path = f"/subscriptions/s{number}"
            try:
                answers.append(
                    second.request("PUT", path, msgspec.json.encode(body), fields).status
                )
            except OSError:
                answers.append(0)
            over.wait(0.01)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    try:
        wait_until(lambda: len(answers) > 20, WAIT_S_MAX, "calls are answered")
        assert first.stop(LEFT_S_MAX) == 0
        since = len(answers)
        wait_until(
            lambda: any(status in TAKEN for status in answers[since:]), WAIT_S_MAX, "another leads"
        )
    finally:
        over.set()
        for caller in callers:
            caller.join()
    assert set(answers) <= {*TAKEN, 503}
