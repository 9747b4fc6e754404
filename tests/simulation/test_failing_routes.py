"""Routes whose deliveries fail are told in a file, by the owner that runs, for ``control``."""

import pytest

from distributary.core.outcome import read_failing, write_failing
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.testing.simulation import answers, replies

SINK, BACK = "http://sink.example/", "http://back.example/"
QUICK = DeliveryPolicy(
    retry=10, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=0.5, timeout_s=1.0
)


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
