"""What an operator meets: questions after health, processes that hang, settings that change."""

import contextlib
import http.client
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.cli._behaviour import Behaviour
from distributary.datadir import StatusField
from kit.ports import free_port
from kit.running_server import Role, RunningServer, wait_until
from kit.traffic import Traffic
from kit.world import World

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ANSWER_S_MAX = 60.0
"""Patience with an answer that is promised within 3 s: the machine may be busy."""
REPLACED_S_MAX = 120.0
"""Patience with what takes 12 s on a quiet machine: seen, killed, started again."""
TAKEN_S_MAX = 60.0
"""Patience with settings that are taken within a second, and by owners within an epoch's end."""


class Operated(World):
    """A server with a health port and a configuration file."""

    def __init__(self, server: RunningServer, traffic: Traffic, port: int, config: Path) -> None:
        super().__init__(server, traffic)
        self.health_port = port
        self._config = config

    def ask(self, path: str, port: int) -> tuple[int, str]:
        """Status and body of GET *path*."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S_MAX)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What the log says of *event*."""
        found = [json.loads(line) for line in self.server.log.read_text().splitlines()]
        return [line for line in found if line["event"] == event]

    def reload(self, text: str, event: str = "reloaded") -> dict[str, Any]:
        """Change the file to *text* and have it read: what the log says of it."""
        before = len(self.lines(event))
        self._config.write_text(text)
        self.server.tree()[0].send_signal(signal.SIGHUP)
        wait_until(lambda: len(self.lines(event)) > before, TAKEN_S_MAX, event)
        return self.lines(event)[-1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """One server for the whole module."""
    folder = tmp_path_factory.mktemp("operating")
    config = folder / "distributary.toml"
    config.write_text("")
    port = free_port()
    flags = ["--health-port", str(port), "--config", str(config)]
    with (
        Traffic(folder, {"good": Behaviour()}, keep_requests=True) as traffic,
        RunningServer(folder / "data", flags=flags) as server,
    ):
        yield Operated(server, traffic, port, config)


def test_the_health_port_answers_health_alone(world: Operated) -> None:
    """It says what the main port says, and has no other path."""
    for port in (world.health_port, world.server.port):
        assert world.ask("/healthz", port) == (200, "ok\n")
        assert world.ask("/readyz", port) == (200, '{"ready":true}')
    assert world.ask("/subscriptions", world.health_port)[0] == 404


def test_processes_that_hang_are_told_and_replaced(world: Operated) -> None:
    """Ingest and an owner are stopped: both ports answer 503; then all is well."""
    world.subscribe("/hang", "good")
    server = world.server
    hanging = {role: server.processes(role)[0] for role in (Role.INGEST, Role.WRITER)}
    for process in hanging.values():
        process.send_signal(signal.SIGSTOP)
    status, body = world.ask("/healthz", server.port)  # waits until somebody answers
    assert (status, "ingest does not answer" in body) == (503, True)
    assert world.publish("/hang", "refused").status == 503
    for path, told in (("/healthz", True), ("/readyz", False)):  # why is for who observes
        status, body = world.ask(path, world.health_port)
        assert (status, "ingest does not answer" in body) == (503, told)
    for role, process in hanging.items():
        wait_until(lambda p=process: not p.is_running(), REPLACED_S_MAX, f"{role} is replaced")
    server.wait_ready()
    assert world.ask("/healthz", world.health_port) == (200, "ok\n")
    for number in range(4):  # every partition gets some
        assert world.publish("/hang", str(number)).status == 202
    world.arrived("/hang", "good", 4)


def _batch(world: Operated, count: int) -> int:
    """Publish *count* events in a batch: the status of the answer."""
    event = {"specversion": "1.0", "source": "/batch", "type": "t.one"}
    body = json.dumps([event | {"id": str(number)} for number in range(count)]).encode()
    headers = {"content-type": "application/cloudevents-batch+json"}
    return world.server.request("POST", "/events", body, headers).status


def _subscribed(world: Operated, sink: str) -> int:
    """Subscribe *sink*: the status of the answer."""
    body = json.dumps({"sink": sink, "protocol": "HTTP", "source": "/reload"}).encode()
    headers = {"content-type": "application/json"}
    return world.server.request("POST", "/subscriptions", body, headers).status


def test_settings_change_while_the_server_runs(world: Operated) -> None:
    """SIGHUP: limits, allowed hosts and sinks, the log level; what wants a restart is named."""
    server = world.server
    foreign = {"host": "events.example"}
    sink = world.sink("good").url.replace("127.0.0.1", "0.0.0.0")  # "this network": not allowed
    assert _batch(world, 2) == 202
    assert server.request("GET", "/", headers=foreign).status == 421
    assert _subscribed(world, sink) == 400

    said = world.reload(
        """
        batch_events_max = 1
        allowed_hosts = ["events.example"]
        allow_sinks = ["0.0.0.0/32"]
        log_level = "debug"
        partitions = 3
        """
    )
    assert set(said["applied"]) == {
        *("allow_sinks", "allowed_hosts", "batch_events_max", "log_level")
    }
    assert said["after_a_restart"] == ["partitions"]
    wait_until(lambda: _batch(world, 2) == 400, TAKEN_S_MAX, "the limit counts")
    assert server.request("GET", "/", headers=foreign).status == 200
    assert _subscribed(world, sink) == 201
    wait_until(
        lambda: all(server.look(number, StatusField.SETTINGS) >= 2 for number in range(2)),
        TAKEN_S_MAX,
        "owners begin with the new settings",
    )
    server.wait_ready()
    world.publish("/reload", "1")
    world.arrived("/reload", "good")


def test_settings_that_cannot_be_used_change_nothing(world: Operated) -> None:
    """Every fault is told, and what was in force stays."""
    world.reload("batch_events_max = 2")
    said = world.reload('batch_events_max = 0\nlog_level = "loud"\nprot = 1', "reload-refused")
    faults = "\n".join(said["faults"])
    for name in ("batch_events_max", "log_level", "prot"):
        assert name in faults
    wait_until(lambda: _batch(world, 2) == 202, TAKEN_S_MAX, "the limit is the one before")
    assert _batch(world, 3) == 400


def test_sources_come_and_go_while_the_server_runs(world: Operated) -> None:
    """Their process is started, and ended, without a restart of anything else."""
    sources = """
        [[sources]]
        name = "orders"
        protocol = "NATS"
        uri = "nats://127.0.0.1:1"
        subject = "orders.>"
        """
    ingest = world.server.processes(Role.INGEST)
    assert world.reload(sources)["applied"] == ["batch_events_max", "sources"]
    wait_until(lambda: "sources" in _restarted(world), TAKEN_S_MAX, "the sources are read")
    assert world.reload("")["applied"] == ["sources"]
    assert "sources" not in _restarted(world)
    assert world.server.processes(Role.INGEST) == ingest


def _restarted(world: Operated) -> set[str]:
    """The processes that the server keeps running."""
    prefix = 'process_restarts_total{process="'
    return {
        name.removeprefix(prefix).removesuffix('"}')
        for name in world.server.metrics()
        if name.startswith(prefix)
    }
