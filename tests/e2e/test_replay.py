"""``start`` and ``maxevents`` on the whole server: real processes, real log, real sinks."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from distributary.cli._behaviour import Behaviour
from kit.running_server import RunningServer, wait_until
from kit.servers import PASSWORD, USER
from kit.servers.fixtures import authority, nats_server
from kit.servers.nats import NatsServer
from kit.traffic import Traffic

__all__ = ["authority", "nats_server"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0
"""Longest wait for what must come: longer means that it never does."""

BATCH = 20


class World:
    """The server and its sinks."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic
        self._count = 0

    def publish(self, source: str, count: int) -> list[str]:
        """So many events in batches; their ids."""
        ids: list[str] = []
        while len(ids) < count:
            fresh = [f"e{self._count + number}" for number in range(min(BATCH, count - len(ids)))]
            self._count += len(fresh)
            events = [
                {"specversion": "1.0", "id": id_, "source": source, "type": "t", "data": id_}
                for id_ in fresh
            ]
            headers = {"content-type": "application/cloudevents-batch+json"}
            body = json.dumps(events).encode()
            assert self.server.request("POST", "/events", body, headers).status == 202
            ids += fresh
        return ids

    def subscribe(self, source: str, sink: str, **config: object) -> str:
        """A subscription with that ``config``; its id."""
        url = self.traffic.sinks[sink].url
        return self.server.subscribe(url, source=source, config=config)

    def ids(self, source: str, sink: str) -> list[str]:
        """Ids of what the sink got of *source*."""
        got = tuple(self.traffic.sinks[sink].requests)
        fields = [dict(request.headers) for request in got]
        return [
            found[b"ce-id"].decode() for found in fields if found[b"ce-source"] == source.encode()
        ]

    def arrived(self, source: str, sink: str, count: int) -> list[str]:
        """Wait for so many events of *source* at *sink*, and until nothing is under way."""
        wait_until(
            lambda: len(self.ids(source, sink)) >= count,
            ARRIVE_S_MAX,
            f"{count} events of {source} at {sink}",
        )
        wait_until(self.server.settled, ARRIVE_S_MAX, "everything settles")
        return self.ids(source, sink)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, plain_server: RunningServer) -> Iterator[World]:
    """The server with the sinks of this module."""
    folder = tmp_path_factory.mktemp("replay")
    sinks = dict.fromkeys(("one", "two"), Behaviour())
    with Traffic(folder, sinks, keep_requests=True) as traffic:
        yield World(plain_server, traffic)


def test_from_the_earliest_event_without_a_gap_or_a_double(world: World) -> None:
    """500 events lie there, and publishing goes on while the subscription is made."""
    old = world.publish("/replay", 500)
    live: list[str] = []
    created = threading.Event()

    def go_on() -> None:
        while not created.is_set() or len(live) < 200:
            live.extend(world.publish("/replay", BATCH))

    publishing = threading.Thread(target=go_on)
    publishing.start()
    world.subscribe("/replay", "one", start="earliest")
    created.set()
    publishing.join()
    got = world.arrived("/replay", "one", len(old) + len(live))
    assert sorted(got) == sorted(old + live)


def test_from_a_time_on(world: World) -> None:
    """What was published before it does not come; what was published after it does."""
    world.publish("/time", 40)
    time.sleep(0.01)  # Record times are milliseconds.
    begin = datetime.now(UTC).isoformat()
    wanted = world.publish("/time", 40)
    world.subscribe("/time", "two", start=begin)
    wanted += world.publish("/time", 40)
    assert sorted(world.arrived("/time", "two", len(wanted))) == sorted(wanted)


def test_a_replay_is_the_new_subscriptions_alone(world: World) -> None:
    """Others do not see history again."""
    world.subscribe("/alone", "one")
    events = world.publish("/alone", 40)
    world.arrived("/alone", "one", 40)
    world.subscribe("/alone", "two", start="earliest")
    assert sorted(world.arrived("/alone", "two", 40)) == sorted(events)
    assert sorted(world.ids("/alone", "one")) == sorted(events)


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_so_many_events_and_no_more(world: World, start: str) -> None:
    """Ten of a hundred, over all partitions; then the subscription is gone."""
    source = f"/counted/{start}"
    if start == "earliest":
        world.publish(source, 100)
    name = world.subscribe(source, "one", maxevents=10, start=start)
    if start == "latest":
        world.publish(source, 100)
    wait_until(
        lambda: world.server.request("GET", f"/subscriptions/{name}").status == 404,
        ARRIVE_S_MAX,
        "the subscription ends",
    )
    got = world.arrived(source, "one", 10)
    assert len(got) == len(set(got)) == 10


def test_a_stream_stores_what_is_replayed(world: World, nats_server: NatsServer) -> None:
    """Within the time in which it takes a message of the same name for the one that it has."""
    asyncio.run(nats_server.create_stream("replayed", "replayed", duplicate_window=600))
    name = world.server.subscribe(
        f"nats://127.0.0.1:{nats_server.port}",
        source="/stored",
        protocol="NATS",
        protocolsettings={"subject": "replayed"},
        sinkcredential={"credentialtype": "PLAIN", "identifier": USER, "secret": PASSWORD},
    )

    def stored() -> Counter[str]:
        found = asyncio.run(nats_server.stored("replayed"))
        return Counter(headers["ce-id"] for _, headers, _ in found)

    ids = world.publish("/stored", 20)
    wait_until(lambda: stored() == Counter(ids), ARRIVE_S_MAX, "all events are stored")
    body = b'{"from": "2020-01-01T00:00:00Z"}'
    fields = {"content-type": "application/json"}
    answer = world.server.request("POST", f"/subscriptions/{name}/replay", body, fields)
    assert answer.status == 202, answer.body
    wait_until(lambda: stored() == Counter(ids * 2), ARRIVE_S_MAX, "all are stored again")
