"""``start`` and ``maxevents`` while processes are killed: nothing missing, nothing too many."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.cli._behaviour import Behaviour
from kit.running_server import Role, RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.crash, pytest.mark.slow]

ARRIVE_S_MAX = 120.0
"""Longest wait for what must come: some seconds for each kill, on a busy machine."""

HISTORY = 2_000
COUNTED = 700
PAUSE_S = 0.02
"""The sinks take so long for each event: kills meet a replay that is under way."""


class World:
    """A server with a history of *source*, and a sink for each subscription."""

    def __init__(self, server: RunningServer, traffic: Traffic, source: str) -> None:
        self.server = server
        self.traffic = traffic
        self.source = source

    def publish(self, first: int, count: int) -> None:
        """Events with these numbers as their ids."""
        headers = {"content-type": "application/cloudevents-batch+json"}
        for start in range(first, first + count, 100):
            events = ",".join(
                f'{{"specversion":"1.0","id":"{number}","source":"{self.source}","type":"t"}}'
                for number in range(start, start + 100)
            )
            body = f"[{events}]".encode()
            assert self.server.request("POST", "/events", body, headers).status == 202

    def ids(self, sink: str) -> list[int]:
        """Ids of what the sink got."""
        requests = tuple(self.traffic.sinks[sink].requests)
        return [int(dict(request.headers)[b"ce-id"]) for request in requests]

    def kill_while(self, sink: str, counts: list[int], role: Role) -> None:
        """Kill a process of *role* each time that the sink has got so many."""
        killed: set[int] = set()

        def standing() -> bool:
            return any(process.pid not in killed for process in self.server.processes(role))

        for number, count in enumerate(counts):
            wait_until(
                lambda count=count: len(self.ids(sink)) >= count,
                ARRIVE_S_MAX,
                f"{count} events at {sink}",
            )
            wait_until(standing, ARRIVE_S_MAX, f"another {role} starts")
            killed.add(self.server.kill(role, number))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One for all roles: it is ready again after each."""
    with RunningServer(tmp_path_factory.mktemp("replays") / "data") as running:
        yield running


@pytest.fixture
def world(server: RunningServer, tmp_path: Path, role: Role) -> Iterator[World]:
    """``HISTORY`` events of a source of its own in the log."""
    sinks = dict.fromkeys(("all", "some"), Behaviour(delay_s=PAUSE_S))
    server.wait_ready()
    with Traffic(tmp_path, sinks, keep_requests=True) as traffic:
        world = World(server, traffic, f"/h-{role}")
        world.publish(0, HISTORY)
        yield world


@pytest.mark.parametrize("role", [Role.WRITER, Role.DRIVER])
def test_a_replay_and_a_count_survive_kills(world: World, role: Role) -> None:
    """All of history and what came meanwhile arrive; of the counted one exactly so many."""
    url = {name: sink.url for name, sink in world.traffic.sinks.items()}
    replayed = world.server.subscribe(url["all"], source=world.source, config={"start": "earliest"})
    counted = world.server.subscribe(
        url["some"], source=world.source, config={"start": "earliest", "maxevents": COUNTED}
    )
    world.publish(HISTORY, 500)
    world.kill_while("all", [200, 900], role)
    total = HISTORY + 500
    wait_until(lambda: len(set(world.ids("all"))) == total, ARRIVE_S_MAX, "all of history arrives")
    wait_until(
        lambda: world.server.request("GET", f"/subscriptions/{counted}").status == 404,
        ARRIVE_S_MAX,
        "the counted subscription ends",
    )
    wait_until(world.server.settled, ARRIVE_S_MAX, "everything settles")
    assert set(world.ids("all")) == set(range(total))
    # Copies of what was under way at a kill count once.
    assert len(set(world.ids("some"))) == COUNTED
    assert world.server.request("DELETE", f"/subscriptions/{replayed}").status == 200
