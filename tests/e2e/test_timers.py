"""Timers and subscriptions that end by themselves, on a whole server that is restarted between."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from distributary.cli._behaviour import Behaviour
from distributary.cli._listen_server import Request
from distributary.core.flow import ABOUT_ROUTE, RecordKind, TimerEvent, decode_timer_event
from distributary.core.log import Reader
from kit.running_server import RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COME_S_MAX = 60.0
"""Longest wait for a timer event: longer means that it never comes."""

NAMES = ("first", "second", "picky", "plain", "ends", "counted")


class World:
    """A server with timers, and what their sinks got."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic

    def url(self, name: str) -> str:
        """Where the sink *name* listens."""
        return self.traffic.sinks[name].url

    def got(self, name: str) -> list[Request]:
        """Requests of the sink *name*, in the order of arrival."""
        return list(self.traffic.sinks[name].requests)

    def attributes(self, name: str) -> list[dict[str, str]]:
        """Attributes of the events that the sink *name* got."""
        return [
            {
                key.decode().removeprefix("ce-"): value.decode()
                for key, value in request.headers
                if key.startswith(b"ce-")
            }
            for request in self.got(name)
        ]

    def wait_for(self, name: str, count: int) -> None:
        """Wait until the sink *name* has got *count* events."""
        wait_until(lambda: len(self.got(name)) >= count, COME_S_MAX, f"{count} events at {name}")

    def logged(self) -> list[TimerEvent]:
        """Every timer event in the log; none of those by which other tests hear of theirs."""
        timer_events = []
        for partition in range(self.server.partition_count()):
            reader = Reader(self.server.paths.log, partition)
            end = reader.durable_end()
            timer_events += [
                decode_timer_event(record.body)
                for record in reader.kinds(reader.start(), end, RecordKind.TIMER_EVENT)
            ]
            reader.close()
        return [each for each in timer_events if each.number != ABOUT_ROUTE]

    def told(self, event: str, name: str) -> bool:
        """Whether the log of the server tells *event* of the subscription *name*."""
        lines = self.server.log.read_text().splitlines()
        return any(event in line and name in line for line in lines)

    def timer_events_of(self, kind: str) -> list[TimerEvent]:
        """The timer events in the log whose events have the type *kind*."""
        return [
            timer_event
            for timer_event in self.logged()
            if timer_event.event.attributes["type"] == kind
        ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, plain_server: RunningServer) -> Iterator[World]:
    """The server with the sinks of this module."""
    folder = tmp_path_factory.mktemp("timers")
    sinks = dict.fromkeys(NAMES, Behaviour())
    with Traffic(folder, sinks, keep_requests=True) as traffic:
        yield World(plain_server, traffic)


def _in_s(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_timer_is_heard_by_its_own_subscription_alone(world: World) -> None:
    """Data and attributes as asked for; filters apply; nobody else sees the timer events."""
    timer_events = world.server.metric("timer_ticks_total")
    first = world.server.subscribe(
        world.url("first"), types=["t.first"], config={"interval": 1, "data": {"n": 1}}
    )
    world.server.subscribe(
        world.url("second"), source="urn:mine", config={"interval": 1, "type": "t.second"}
    )
    world.server.subscribe(
        world.url("picky"),
        config={"interval": 1, "type": "t.picky"},
        filters=[{"not": {"exact": {"type": "t.picky"}}}],
    )
    world.server.subscribe(world.url("plain"))
    world.wait_for("first", 2)
    world.wait_for("second", 2)
    for event, request in zip(world.attributes("first"), world.got("first"), strict=False):
        assert event["type"] == "t.first"
        assert event["source"] == f"/subscriptions/{first}"
        assert request.body == b'{"n":1}'
        assert dict(request.headers)[b"content-type"] == b"application/json"
    assert {event["type"] for event in world.attributes("second")} == {"t.second"}
    assert {event["source"] for event in world.attributes("second")} == {"urn:mine"}
    wait_until(lambda: len(world.timer_events_of("t.picky")) >= 2, COME_S_MAX, "ticks in the log")
    assert world.got("picky") == []
    assert world.got("plain") == []
    wait_until(
        lambda: world.server.metric("timer_ticks_total") >= timer_events + 6,
        COME_S_MAX,
        "ticks are counted",
    )


def test_a_subscription_ends_at_its_time(world: World) -> None:
    """A GET answers 404, its timer stops, and the log says so."""
    ended = world.server.metric("subscriptions_ended_total")
    name = world.server.subscribe(
        world.url("ends"), types=["t.ends"], config={"interval": 1, "expires": _in_s(2.5)}
    )
    wait_until(
        lambda: world.server.request("GET", f"/subscriptions/{name}").status == 404,
        COME_S_MAX,
        "it expires",
    )
    count = len(world.timer_events_of("t.ends"))
    time.sleep(1.5)  # real time is what a real server lives in: longer than one interval
    assert len(world.timer_events_of("t.ends")) == count <= 2
    wait_until(lambda: world.told("subscription-expired", name), COME_S_MAX, "it is told")
    wait_until(
        lambda: world.server.metric("subscriptions_ended_total") == ended + 1,
        COME_S_MAX,
        "it is counted",
    )


def test_a_subscription_ends_when_its_deliveries_are_used_up(world: World) -> None:
    """The timer goes on until then; the sink gets as many as were asked for."""
    name = world.server.subscribe(
        world.url("counted"), types=["t.counted"], config={"interval": 1, "maxevents": 2}
    )
    wait_until(
        lambda: world.server.request("GET", f"/subscriptions/{name}").status == 404,
        COME_S_MAX,
        "it is used up",
    )
    assert len(world.got("counted")) == 2
    wait_until(lambda: world.told("subscription-used-up", name), COME_S_MAX, "it is told")


def test_a_restart_repeats_no_number_and_ends_what_expired_meanwhile(world: World) -> None:
    """Numbers of the second run are above those of the first; a time that passed is passed."""
    name = world.server.subscribe(world.url("plain"), config={"expires": _in_s(4.0)})
    before = world.timer_events_of("t.first")
    assert world.server.stop() == 0
    time.sleep(4.0)  # as above: the end must come while nobody runs
    world.server.start()
    world.server.wait_ready()
    assert world.server.request("GET", f"/subscriptions/{name}").status == 404
    wait_until(
        lambda: len(world.timer_events_of("t.first")) >= len(before) + 2, COME_S_MAX, "it goes on"
    )
    after = world.timer_events_of("t.first")[len(before) :]
    assert len({timer_event.uid for timer_event in [*before, *after]}) == 1
    assert max(timer_event.number for timer_event in before) < min(
        timer_event.number for timer_event in after
    )
    numbers = [
        (timer_event.uid, timer_event.revision, timer_event.number)
        for timer_event in world.logged()
    ]
    assert len(set(numbers)) == len(numbers)
    wanted = {timer_event.event.attributes["id"] for timer_event in after}
    wait_until(
        lambda: wanted <= {event["id"] for event in world.attributes("first")},
        COME_S_MAX,
        "the new ticks arrive",
    )
    assert world.got("plain") == []
