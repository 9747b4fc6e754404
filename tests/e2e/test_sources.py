"""Sources in a whole server: killed while they read, they lose nothing; what is no event, goes."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from nats.js.api import AckPolicy

from distributary.cli._behaviour import Behaviour
from kit.running_server import RunningServer, clean_environ, wait_until
from kit.servers import PASSWORD, USER
from kit.servers.fixtures import authority, nats_server
from kit.traffic import Traffic

__all__ = ["authority", "nats_server"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash]

ARRIVE_S_MAX = 60.0
"""Longest wait for an event: a server may have to start again meanwhile."""

SECRET = "ORDERS_PASSWORD"
"""Environment variable with the password of the source."""

EVENTS = 6_000
"""So many that a kill in the middle meets some under way at every stage."""


class World:
    """A server that reads ``orders.>`` of a NATS server, and its sink."""

    def __init__(self, folder: Path, broker: Any, traffic: Traffic) -> None:
        self.broker = broker
        self.sink = traffic.sinks["sink"]
        self.toml = folder / "distributary.toml"
        self.toml.write_text(
            f"""
            [[sources]]
            name = "orders"
            protocol = "NATS"
            uri = "nats://127.0.0.1:{broker.port}"
            subject = "orders.>"
            identifier = "{USER}"
            secret_env = "{SECRET}"
            """
        )
        flags = ["--config", str(self.toml)]
        environ = clean_environ() | {SECRET: PASSWORD}
        self.server = RunningServer(folder / "data", flags=flags, environ=environ)

    def publish(self, names: range, *, prefix: str = "e") -> None:
        """Put an event for each name into the stream; returns when the stream has them."""

        async def all_of_them() -> None:
            client = await self.broker.client()
            jetstream = client.jetstream()
            for first in range(names.start, names.stop, 500):
                some = range(first, min(first + 500, names.stop))
                sent = [self._publish(jetstream, f"{prefix}{number}") for number in some]
                await asyncio.gather(*sent)
            await client.close()

        asyncio.run(all_of_them())

    def publish_aside(self, prefix: str) -> threading.Thread:
        """Put twice ``EVENTS`` into the stream, from a thread."""
        publisher = threading.Thread(
            target=self.publish, args=(range(2 * EVENTS),), kwargs={"prefix": prefix}
        )
        publisher.start()
        return publisher

    @staticmethod
    async def _publish(jetstream: Any, name: str) -> None:
        said = {"specversion": "1.0", "id": name, "source": "/orders", "type": "order.made"}
        headers = {f"ce-{key}": value for key, value in said.items()}
        await jetstream.publish("orders.a", b"data", headers=headers)

    def publish_raw(self, payload: bytes) -> None:
        """Put something into the stream."""

        async def one() -> None:
            client = await self.broker.client()
            await client.jetstream().publish("orders.raw", payload)
            await client.close()

        asyncio.run(one())

    def missing(self, count: int, prefix: str = "e") -> set[str]:
        """Of the first *count* events, those that the sink does not have."""
        return {f"{prefix}{number}" for number in range(count)} - self.sink.taken.keys()

    def count(self, result: str) -> float:
        """A counter of the source."""
        name = f'source_messages_total{{result="{result}",source="orders"}}'
        return self.server.metrics().get(name, 0)

    def source_process(self) -> int:
        """Its process id."""
        (pid,) = [process.pid for process in self.server.tree() if _is_of_sources(process)]
        return pid


def _is_of_sources(process: psutil.Process) -> bool:
    try:
        return "distributary.server.processes.source_process" in process.cmdline()
    except psutil.Error:  # it has ended while we looked
        return False


async def _stream(broker: Any) -> None:
    """A stream with a consumer that gives again after 2 s, not 10, what was not settled."""
    await broker.create_stream("ORDERS", "orders.>")
    client = await broker.client()
    policy = {"ack_policy": AckPolicy.EXPLICIT, "ack_wait": 2.0, "max_ack_pending": 256}
    await client.jetstream().add_consumer("ORDERS", durable_name="orders", **policy)
    await client.close()


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    nats_server: Any,
) -> Iterator[World]:
    """A stream, a server that reads it, a sink that takes everything."""
    folder = tmp_path_factory.mktemp("sources")
    asyncio.run(_stream(nats_server))
    with Traffic(folder, {"sink": Behaviour()}) as traffic:
        world = World(folder, nats_server, traffic)
        with world.server as server:
            server.subscribe(world.sink.url, source="/orders")
            yield world


def _comes(holds: Callable[[], bool], what: str) -> None:
    wait_until(holds, ARRIVE_S_MAX, what)


def _has_the_secret(process: psutil.Process) -> bool:
    try:
        return SECRET in process.environ()
    except psutil.Error:  # it has ended while we looked
        return False


def test_no_other_process_has_the_secret(world):
    """Of all that the server has started, Spark's and the owners too."""
    world.server.wait_ready()
    serve, *others = world.server.tree()
    told = {process.pid for process in others if _has_the_secret(process)}
    assert told == {world.source_process()}
    assert len(others) > 5
    assert SECRET in serve.environ()


def test_messages_that_are_no_events_are_counted_and_gone(world: World) -> None:
    """The stream does not give them again, and what comes behind them is read."""
    for payload in (b"\x00\xff", b"", b'{"specversion": "1.0"}'):
        world.publish_raw(payload)
    world.publish(range(1), prefix="behind")
    _comes(lambda: not world.missing(1, "behind"), "the event behind them")
    _comes(lambda: world.count("refused") == 3, "they are counted")
    _comes(lambda: "source-refused" in world.server.log.read_text(), "they are told")


def test_a_killed_process_of_the_sources_takes_nothing_along(world: World) -> None:
    """It is started again, reads on, and loses nothing; the server stays ready."""
    publisher = world.publish_aside("p")
    _comes(lambda: len(world.missing(2 * EVENTS, "p")) < 2 * EVENTS, "the first of them")
    pid, taken = world.source_process(), world.count("taken")
    os.kill(pid, signal.SIGKILL)
    assert world.missing(2 * EVENTS, "p")  # it was in the middle of them
    assert world.server.request("GET", "/readyz").status == 200
    publisher.join()
    _comes(lambda: not world.missing(2 * EVENTS, "p"), "all of them")
    assert world.source_process() != pid
    assert world.server.metrics()['process_restarts_total{process="sources"}'] == 1
    assert world.count("taken") >= taken


def test_a_killed_server_goes_on_where_the_broker_knows_it_was(world: World) -> None:
    """Every process at once, by kill -9, while the source reads: all events arrive in the end."""
    publisher = world.publish_aside("e")
    _comes(lambda: len(world.missing(2 * EVENTS)) < 2 * EVENTS, "the first of them")
    world.server.kill_all()
    publisher.join()
    assert world.missing(2 * EVENTS)
    world.server.start()
    world.server.wait_ready()
    _comes(lambda: not world.missing(2 * EVENTS), "all of them")


def test_a_broker_that_goes_away_is_found_again(world: World) -> None:
    """The server stays ready meanwhile, and the metrics show it."""
    gauge = 'source_reading{source="orders"}'
    _comes(lambda: world.server.metrics().get(gauge) == 1, "it reads")
    world.broker.kill()
    _comes(lambda: world.server.metrics().get(gauge) == 0, "it is missed")
    assert world.server.request("GET", "/readyz").status == 200
    world.broker.start()
    world.publish(range(1), prefix="back")
    _comes(lambda: not world.missing(1, "back"), "it is read again")


def test_a_server_whose_sources_cannot_be_used_does_not_start(world: World, tmp_path: Path) -> None:
    """All faults in one message, no secret in it."""
    file = tmp_path / "distributary.toml"
    file.write_text(world.toml.read_text().replace("orders.>", "orders..x") + "secret = 'canary'\n")
    server = RunningServer(tmp_path / "data", flags=["--config", str(file)])
    server.start()
    assert server.wait(ARRIVE_S_MAX) == 2
    said = server.log_tail()
    assert "sources[0].subject (configuration file)" in said
    assert "sources[0].secret (configuration file)" in said
    assert "canary" not in said
