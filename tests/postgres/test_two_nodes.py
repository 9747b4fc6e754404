"""Two whole nodes on real brokers and a real database: partitions added, settings, leaving."""

import base64
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from confluent_kafka import Producer

from distributary.core import database
from distributary.core.clock import SystemClock
from distributary.core.cluster import KafkaPlace
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE, STORE_PASSWORD_VARIABLE
from distributary.core.log.kafka import KafkaEnds
from distributary.core.log.kafka.retention import UNLIMITED
from distributary.core.log.kafka.store_archived import StoredStretches, read_positions
from distributary.core.meter import Meter
from distributary.core.postgres_lease import PostgresLease, partition_lease, read_leases
from distributary.partitions.executor import lease_holder_of
from distributary.server.processes.node._shared_retention import LeaderRetention
from distributary.server.processes.receiver.retention import LateArchive, RetentionLimits
from distributary.spark._places import Places
from distributary.spark._reader_notes import note_of
from kit.answering_sinks import AnsweringSinks
from kit.ports import free_port
from kit.running_server import Role, RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEFORE, AFTER = 2, 5
"""Partitions of the log."""

KEPT = 120
"""Events that are archived; the log keeps few of them."""

WAIT_S_MAX = 90.0
"""Longest wait for anything that a stalled machine delays."""

TAKEN = (200, 201)
"""Statuses of a change that was made."""

LEFT_S_MAX = 60.0
"""Longest orderly stop of a node; usual is a tenth."""


class Lines:
    """Keeps what retention tells of a reader."""

    def __init__(self, told: list[tuple[str, int, int]]) -> None:
        self._told = told

    def warning(self, event: str, *, partition: int, last: int, **_fields: object) -> None:
        self._told.append((event, partition, last))


class Nodes:
    """Two nodes on one log and one store.

    Attributes:
        servers: The nodes.
        place: The log.
    """

    def __init__(self, folder: Path, kafka: Any, postgres: Any) -> None:
        self._folder = folder
        store = self._store = postgres.new_database()
        self._url = database.database_url(store)
        prefix = f"nodes-{os.getpid()}"
        self.place = KafkaPlace(servers=kafka.servers, prefix=prefix)
        self._settings = [
            f'log = "kafka://{",".join(kafka.servers)}/{prefix}"',
            f'store = "{store.url}"',
            f'history = "{folder / "history"}"',
            'once_window_s = "1h"',
            f'archive = "{folder / "archive"}"',
        ]
        self._environ = environ = clean_environ() | {
            STORE_PASSWORD_VARIABLE: store.password,
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

    def publish(self, name: str, key: str = "", type_: str = "t", body: bytes = b"") -> int:
        """Publish an event at the second node; the status."""
        fields = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/s", "ce-type": type_}
        if key:
            fields["ce-partitionkey"] = key
        return self.servers[1].request("POST", "/events", body, fields).status

    def archive(self) -> None:
        """Archive the log as far as it goes: one job at a time, on whichever machine."""
        to = str(self._folder / "archive")
        lease = PostgresLease(self._url, "archive", holder="another job")
        try:
            refused = self._archive(to)
        finally:
            lease.release()
        assert refused.returncode
        assert "another job works for this log" in refused.stderr
        ends = KafkaEnds(self.place).read(AFTER)
        done = self._archive(to)
        assert done.returncode == 0, done.stderr
        assert f"events of {AFTER} segments" in done.stdout
        reader = database.open_reader(self._url, "tests")
        positions = read_positions(reader, to)
        assert read_positions(reader, "/elsewhere") == {}
        for number, end in enumerate(ends):
            assert positions[number] >= end
            (stretch,) = StoredStretches(reader, to, number).read()
            assert stretch[:2] == (0, positions[number])
        (held,) = read_leases(reader, "archive")
        assert held.released
        assert held.generation > lease.generation
        reader.dispose()

    def _archive(self, to: str) -> "subprocess.CompletedProcess[str]":
        config = str(self._folder / "0.toml")
        program = [sys.executable, "-m", "distributary.cli", "archive", "--all"]
        return subprocess.run(
            [*program, "--to", to, "--config", config],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def kill_owner(self, partition: int) -> None:
        """Kill the process that delivers *partition*."""
        reader = database.open_reader(self._url, "leases")
        (row,) = read_leases(reader, partition_lease(partition))
        reader.dispose()
        holder = lease_holder_of(row.holder)
        assert holder is not None
        os.kill(holder.pid, signal.SIGKILL)

    def cut(self) -> None:
        """Delete all of the log but the newest record of each partition, as the leader would.

        A registered reader that is far behind holds all of it, as long as only its age tells
        against it. As many bytes as the limit are held at most, and the reader is told.
        """
        told = list[tuple[str, int, int]]()
        slow = note_of(Places(log=self.place, store=self._store), "slow")
        assert slow.place.startswith("the table log_readers of postgresql://")
        slow.write(dict.fromkeys(range(AFTER), 1), SystemClock().wall_ms())
        slow.close()
        ends = KafkaEnds(self.place)

        def is_cut(retention: LeaderRetention, starts: list[int]) -> bool:
            for number in range(AFTER):
                retention.retain(number)
            return ends.starts(AFTER) == starts

        held = self._retention(1 << 40, 0.001, told)
        wait_until(lambda: is_cut(held, [1] * AFTER), WAIT_S_MAX, "the log is held at the reader")
        held.close()
        assert told == []
        newest = [end - 1 for end in ends.read(AFTER)]
        retention = self._retention(1, UNLIMITED, told)
        wait_until(lambda: is_cut(retention, newest), WAIT_S_MAX, "retention has cut the log")
        retention.close()
        assert retention.retain(0) is None
        assert sorted(told) == [("reader-lost", n, end - 1) for n, end in enumerate(newest)]

    def _retention(
        self, bytes_max: int, age_max_s: float, told: list[tuple[str, int, int]]
    ) -> LeaderRetention:
        """Retention of the leader, without its lease: it goes on leading."""
        archive = str(self._folder / "archive")
        return LeaderRetention(
            self.place,
            database.StorePlace(self._url),
            RetentionLimits(bytes_max, age_max_s, archive),
            LateArchive(archive, Meter(), structlog.get_logger()),
            lines=Lines(told),
        )


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


def test_events_that_the_log_has_no_more_are_sent_from_the_archive(
    nodes: Nodes, sinks: AnsweringSinks
) -> None:
    """A replay and a ``start`` get each of them, byte for byte, though owners are killed meanwhile.

    Owners read them from a folder of their own, to which a topic has brought them.
    """
    first, second = nodes.servers
    old = sinks.sink("/old")
    uid = second.subscribe(old.url, filters=[{"exact": {"type": "kept"}}])
    bodies = {f"kept{number}": os.urandom(20_000 + number) for number in range(KEPT)}
    for name, body in bodies.items():
        assert nodes.publish(name, key=name, type_="kept", body=body) == 202
    old.wait_for(*bodies)
    nodes.archive()
    nodes.cut()

    since = len(old.arrivals)
    asked = {"from": "2000-01-01T00:00:00Z", "run": "again", "rateLimit": 50}
    fields = {"content-type": "application/json"}
    path = f"/subscriptions/{uid}/replay"
    response = second.request("POST", path, msgspec.json.encode(asked), fields)
    assert response.status == 202, response.body
    wait_until(lambda: len(old.arrivals) > since + 5, WAIT_S_MAX, "the replay sends")
    nodes.kill_owner(0)
    new = sinks.sink("/history")
    second.subscribe(new.url, filters=[{"exact": {"type": "kept"}}], config={"start": "earliest"})

    def run() -> Any:
        return second.request("GET", "/runs/again").json()

    wait_until(lambda: run()["state"] == "done", WAIT_S_MAX, "the replay ends")
    assert (run()["selected"], run()["handled"] + run()["passed"]) == (KEPT, KEPT)
    assert "oldest" not in run()
    wait_until(lambda: set(new.ids) == set(bodies), WAIT_S_MAX, "the new one has all of history")
    assert set(old.ids[since:]) == set(bodies)
    for arrival in (*old.arrivals[since:], *new.arrivals):
        assert arrival.body == bodies[arrival.id]
    wait_until(lambda: says(first, '"recalled"'), WAIT_S_MAX, "it says what it has brought")
    assert not says(first, "recall-failed")
    assert not says(first, "records-lost")


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


def test_a_rate_holds_over_both_nodes(nodes: Nodes) -> None:
    """Of a tenant that publishes more at each of them; no twice as much."""
    rate = 20
    nodes.configure(AFTER, f'[[namespaces]]\nname = "limited"\nevents_per_s = {rate}\n')
    nodes.reload()
    body = msgspec.json.encode({"sink": "http://127.0.0.1:9/", "protocol": "HTTP", "id": "s"})
    path, kind = "/namespaces/limited", {"content-type": "application/json"}
    made = nodes.servers[0].request("PUT", f"{path}/subscriptions/s", body, kind)
    assert made.status == 201
    fields = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}

    def publish(seconds: float) -> float:
        """Events that were taken, a second of those that it took."""
        began_s, taken = time.monotonic(), 0
        while time.monotonic() < began_s + seconds:
            for server in nodes.servers:
                taken += server.request("POST", f"{path}/events", b"{}", fields).status == 202
            time.sleep(0.01)
        return taken / (time.monotonic() - began_s)

    wait_until(lambda: publish(0.1) > 0, WAIT_S_MAX, "both know the path")
    publish(5)  # a second's worth comes at once everywhere
    assert 0.5 * rate <= publish(10) <= 1.4 * rate


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


def test_a_driver_goes_on_where_no_master_places_executors(nodes: Nodes) -> None:
    """Spark lists none where it runs tasks itself: none is missed, however long it runs."""
    said = [server.log.read_text(errors="replace") for server in nodes.servers]
    assert any("epoch-began" in each for each in said)
    assert not any("application-deserted" in each for each in said)
