"""What people see of owners, and ask of them: a whole server, over its API and its commands."""

import json
from collections.abc import Iterator

import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.cli._commands import app
from kit.running_server import RunningServer, once_still, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0
"""Longest wait for what must come: longer means that it never does."""
MISSED = 300
"""Events that are missed: six mebibytes, of which a store gives back all but one a partition."""
BATCH = 40


class World:
    """The server with its sinks; every test works with a source and a sink of its own."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic

    def answer(self, sink: str, status: int | None = None) -> None:
        """Let *sink* answer so; None: it takes everything."""
        statuses = () if status is None else (StatusChance(status),)
        self.traffic.behave(sink, Behaviour(statuses=statuses))

    def subscribe(self, source: str, sink: str, **delivery: object) -> str:
        """A subscription for events of *source*; its id."""
        members = {"protocolsettings": {"delivery": delivery}} if delivery else {}
        return self.server.subscribe(self.traffic.sinks[sink].url, source=source, **members)

    def publish(self, source: str, count: int, data: str = "") -> None:
        """Events of *source* with the ids 0, 1, 2..."""
        events = [
            {"specversion": "1.0", "id": str(number), "source": source, "type": "t", "data": data}
            for number in range(count)
        ]
        for first in range(0, count, BATCH):
            body = json.dumps(events[first : first + BATCH]).encode()
            headers = {"content-type": "application/cloudevents-batch+json"}
            assert self.server.request("POST", "/events", body, headers).status == 202

    def got(self, source: str, sink: str) -> list[str]:
        """Ids of the events of *source* that *sink* was sent, in order of arrival."""
        wanted = source.encode()
        fields = [dict(request.headers) for request in tuple(self.traffic.sinks[sink].requests)]
        return [found[b"ce-id"].decode() for found in fields if found[b"ce-source"] == wanted]

    def status(self, id_: str) -> dict:
        """How the subscription stands."""
        return self.server.request("GET", f"/subscriptions/{id_}/status").json()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, plain_server: RunningServer) -> Iterator[World]:
    """The server with the sinks of this module."""
    folder = tmp_path_factory.mktemp("owners")
    sinks = dict.fromkeys(("good", "gone", "bad"), Behaviour())
    with Traffic(folder, sinks, keep_requests=True) as traffic:
        yield World(plain_server, traffic)


def test_a_rate_limit_slows_its_own_subscription_alone(world: World) -> None:
    """Another subscription of the same sink gets 500 events long before the limited one's 100."""
    limited = world.subscribe("/limited", "good", rateLimit=1)
    world.subscribe("/unlimited", "good")
    world.publish("/limited", 100)
    world.publish("/unlimited", 500)
    wait_until(lambda: len(world.got("/unlimited", "good")) >= 500, ARRIVE_S_MAX, "all 500 come")
    assert len(world.got("/limited", "good")) < 100
    world.server.request("DELETE", f"/subscriptions/{limited}")  # Nothing waits for the others.


def test_a_sink_that_is_gone_parks_its_subscription_until_it_is_resumed(world: World) -> None:
    """Status says so, and after the resume what waited comes, each event once."""
    world.answer("gone", 410)
    id_ = world.subscribe("/gone", "gone")
    world.publish("/gone", 20)
    world.publish("/gone", 20)  # One batch is one record, and so in one partition.

    def parked() -> bool:
        found = world.status(id_)
        return found["state"] == "parked" and found["parked"]["partitions"] == 2

    assert world.server.partition_count() == 2
    wait_until(parked, ARRIVE_S_MAX, "every partition has parked it")
    # What was under way when they parked arrives a moment later.
    tried = once_still(lambda: len(world.got("/gone", "gone")), ARRIVE_S_MAX, "no more comes")
    world.answer("gone")
    assert world.server.request("POST", f"/subscriptions/{id_}/resume").status == 202
    wait_until(lambda: len(world.got("/gone", "gone")) >= tried + 40, ARRIVE_S_MAX, "all come")
    wait_until(world.server.settled, ARRIVE_S_MAX, "everything settles")
    assert sorted(world.got("/gone", "gone")[tried:]) == sorted(2 * list(map(str, range(20))))
    wait_until(lambda: world.status(id_)["state"] == "ready", ARRIVE_S_MAX, "it is ready again")


def test_dead_letters_that_fifty_subscriptions_missed_stand_once_and_are_sent_again(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    """6 MB missed by fifty keep little more; a redrive delivers; deletion frees the rest."""
    world.answer("bad", 400)
    ids = [world.subscribe("/bad", "bad", retry=0) for _ in range(50)]
    world.publish("/bad", MISSED, "x" * 20_000)

    def kept(id_: str) -> int:
        return int(world.status(id_)["kept"]["count"])

    wait_until(lambda: all(kept(id_) == MISSED for id_ in ids), ARRIVE_S_MAX, "all are kept")
    assert stored_bytes(world) < 10 * 1024 * 1024
    world.answer("bad")
    tried = len(world.got("/bad", "bad"))
    assert command(world, "dead-letters", "redrive", "--subscription", ids[0]) == 0
    assert f"sent again: {MISSED}" in capfd.readouterr().out
    wait_until(lambda: len(world.got("/bad", "bad")) >= tried + MISSED, ARRIVE_S_MAX, "all come")
    assert command(world, "dead-letters", "list", "--subscription", ids[1], "--json") == 0
    assert len(capfd.readouterr().out.splitlines()) == MISSED
    assert command(world, "dead-letters", "purge", "--subscription", ids[1]) == 0
    assert f"deleted: {MISSED}" in capfd.readouterr().out
    for id_ in ids:
        world.server.request("DELETE", f"/subscriptions/{id_}")

    def left() -> list[object]:
        found: list[object] = world.server.request("GET", "/dead-letters").json()
        return found

    wait_until(lambda: not left(), ARRIVE_S_MAX, "nothing is kept")
    # Each of two partitions may keep a mebibyte of free pages.
    wait_until(lambda: stored_bytes(world) < 2_500_000, ARRIVE_S_MAX, "the files shrink")


def stored_bytes(world: World) -> int:
    """Length of the delivery stores."""
    folder = world.server.data_dir / "outcome"
    return sum(path.stat().st_size for path in folder.glob("p*/delivery.db"))


def command(world: World, *words: str) -> int:
    """Exit code of a command of the program."""
    with pytest.raises(SystemExit) as ended:
        app([*words, "--url", world.server.url])
    return int(ended.value.code or 0)
