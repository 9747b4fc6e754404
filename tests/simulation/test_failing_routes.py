"""Routes whose deliveries fail are told in a file, by the owner that runs, for ``control``."""

import pytest

from distributary.core.event import Event
from distributary.core.flow import (
    ABOUT_ROUTE,
    Position,
    RecordKind,
    TimerEvent,
    encode_timer_event,
)
from distributary.core.outcome import Tally, read_failing, write_failing
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from kit.simulation.partition import answers, replies

SINK, BACK = "http://sink.example/", "http://back.example/"
QUICK = DeliveryPolicy(
    retry=10, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=0.5, timeout_s=1.0
)


LIFECYCLE = "dev.distributary.subscription.failing.v1"


def tell(partition, number, route="r"):
    """Append a lifecycle event for the sink of *route* itself."""
    attributes = {"specversion": "1.0", "id": f"l{number}", "source": "/s", "type": LIFECYCLE}
    event = Event(attributes, b"{}")
    body = encode_timer_event(TimerEvent(route, 1, ABOUT_ROUTE, event))
    offset = partition.log.append([(RecordKind.TIMER_EVENT, body)])
    partition.checker.published(Position(0, offset, 0), event)
    partition.checker.expect(Position(0, offset, 0), route, event)


@pytest.fixture
def failing(partition, tmp_path):
    """A partition with a route, and what it tells after a while: rows by route."""
    partition.put_route("r", SINK, policy=QUICK, reply=BACK, reply_kept=True)
    partition.put_route("other", "http://other.example/", policy=QUICK)
    partition.start()

    def told(after_s=5.0):
        partition.advance(after_s)
        return {row.route: row for row in read_failing(tmp_path / "failing.json")}

    return partition, told


def test_a_failing_sink_is_told_until_it_delivers(failing):
    """Attempts in a row; the route beside it is not in it."""
    partition, told = failing
    partition.sinks[SINK] = answers(503)
    partition.publish("t")
    row = told()["r"]
    assert (row.reason, row.dest) == ("status-503", SINK)
    assert row.count >= 3
    assert list(told()) == ["r"]
    partition.sinks[SINK] = answers()
    partition.publish("t")
    assert told() == {}
    partition.rest()


def test_a_reply_that_is_refused_is_a_failure_of_its_route(failing):
    """It says where."""
    partition, told = failing
    partition.sinks[SINK] = replies()
    partition.sinks[BACK] = answers(413)
    partition.publish("t")
    row = told()["r"]
    assert (row.reason, row.dest) == ("status-413", BACK)
    partition.rest()


def test_a_final_failure_is_told(failing):
    """Once is enough: that event is not delivered."""
    partition, told = failing
    partition.sinks[SINK] = answers(400)
    partition.publish("t")
    row = told()["r"]
    assert (row.reason, row.count) == ("status-400", 1)
    partition.rest()


def test_a_final_failure_outlives_its_owner_and_ends_with_a_delivery(failing):
    """Nothing else ends it: no time, and no restart."""
    partition, told = failing
    partition.sinks[SINK] = answers(400)
    partition.publish("t")
    since_ms = told()["r"].since_ms
    partition.crash()
    partition.start()
    assert told(3600.0)["r"].since_ms == since_ms
    assert partition.tallies.kept["r"].failing_since_ms == since_ms
    partition.sinks[SINK] = answers()
    partition.publish("t")
    assert told() == {}
    assert partition.tallies.kept["r"].failing_since_ms == 0
    partition.rest()


def test_a_file_that_is_behind_brings_no_failure_back(failing, tmp_path):
    """Its owner ended before it wrote that a delivery had succeeded; the tally says so."""
    partition, told = failing
    partition.sinks[SINK] = answers(400)
    partition.publish("t")
    rows = list(told().values())
    partition.sinks[SINK] = answers()
    partition.publish("t")
    assert told() == {}
    partition.crash()
    write_failing(tmp_path / "failing.json", rows)
    partition.start()
    assert told() == {}
    partition.rest()


def test_a_deleted_route_is_not_told_any_more(failing):
    """There is nobody to tell of it."""
    partition, told = failing
    partition.sinks[SINK] = answers(400)
    partition.publish("t")
    assert "r" in told()
    partition.delete_route("r")
    assert told() == {}
    partition.rest()


def test_an_open_breaker_is_told_of_routes_that_send_nothing(failing):
    """Another route's failures opened it."""
    partition, told = failing
    partition.sinks[SINK] = answers(503)
    partition.put_route("late", SINK, types=["u"], policy=QUICK)
    for _ in range(12):
        partition.publish("t")
    partition.advance(0.2)
    partition.publish("u")
    assert told(1.5)["late"].dest == SINK
    partition.rest()


@pytest.mark.parametrize("status", [400, 503], ids=["final", "with retries"])
@pytest.mark.parametrize("way", ["live", "over a crash", "by a backfill"])
def test_a_lifecycle_event_that_is_refused_is_no_failure(failing, status, way):
    """Else a sink that refuses to hear that it fails would fail by that, without end."""
    partition, told = failing
    partition.sinks[SINK] = answers(status)
    if way == "by a backfill":
        partition.targets.halt("r")
        tell(partition, 1)
        partition.advance(2.0)
        partition.targets.unhalt("r")
    tell(partition, 2)
    if way == "over a crash":
        partition.advance(0.7)
        partition.crash()
        partition.start()
    assert told() == {}
    tally = partition.tallies.kept.get("r", Tally())
    assert tally.failed or way == "over a crash"  # which loses the counts of its last second
    assert tally.failing_since_ms == 0
    partition.rest()


def test_a_lifecycle_event_that_is_delivered_ends_no_failure(failing):
    """Else a sink that takes these alone would recover each time that it hears that it fails."""
    partition, told = failing
    partition.sinks[SINK] = answers(400)
    partition.publish("t")
    assert "r" in told()
    partition.sinks[SINK] = answers()
    tell(partition, 1)
    assert "r" in told()
    tally = partition.tallies.kept["r"]
    assert (tally.delivered, tally.success_ms, tally.answer_status) == (1, 0, 204)
    partition.publish("t")
    assert told() == {}
    partition.rest()


def test_a_reply_to_a_lifecycle_event_that_is_refused_is_no_failure(failing):
    """It is a part of that delivery."""
    partition, told = failing
    partition.sinks[SINK] = replies()
    partition.sinks[BACK] = answers(413)
    tell(partition, 1)
    assert told() == {}
    partition.rest()


def test_a_lifecycle_event_meets_an_open_breaker_in_silence(failing):
    """What opened it is told by the route that failed."""
    partition, told = failing
    partition.sinks[SINK] = answers(503)
    partition.put_route("late", SINK, types=["u"], policy=QUICK)
    for _ in range(12):
        partition.publish("t")
    partition.advance(0.2)
    tell(partition, 1, "late")
    assert list(told(1.5)) == ["r"]
    partition.rest()


def test_a_lifecycle_event_that_is_sent_again_by_a_run_is_no_failure(failing):
    """Also where a run sends kept events without reading the log."""
    partition, told = failing
    partition.put_route("p", SINK, types=["u", LIFECYCLE], policy=QUICK, parks=True)
    partition.sinks[SINK] = answers(400)
    tell(partition, 1, "p")
    assert told() == {}
    sent = len(partition.sends)
    partition.checker.redriven("p")
    partition.targets.ask("redrive", "p")
    assert told() == {}
    assert len(partition.sends) == sent + 1
    partition.rest()
