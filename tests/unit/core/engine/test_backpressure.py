"""When a full queue is worth a pause of the whole intake, and when its route must be backfilled."""

import pytest

from distributary.core.deliver import BreakerState, QueueState
from distributary.core.engine.backpressure import (
    DRAIN_S_MAX,
    PAUSE_S,
    SHARE_MAX,
    UNPROVEN_S,
    Backpressure,
)

URI, OTHER = "http://sink.example/", "http://other.example/"


def queue(uri=URI, **changed):
    """A full queue that empties quickly."""
    state = QueueState(
        uri=uri,
        queued=4096,
        queued_bytes=1,
        in_flight=64,
        concurrency=64,
        breaker=BreakerState.CLOSED,
        completions_per_s=20_000.0,
        drain_s=0.2,
        oldest_in_flight_s=0.005,
        held_s=0.0,
    )
    return state._replace(**changed)


class Lanes:
    """Queues as the test says."""

    def __init__(self, *states):
        self.states = {state.uri: state for state in states}

    def queue(self, uri):
        return self.states.get(uri)

    def queues(self):
        return list(self.states.values())


@pytest.mark.parametrize(
    ("changed", "worth"),
    [
        pytest.param({}, True, id="fast"),
        pytest.param({"breaker": BreakerState.OPEN}, False, id="closed-sink"),
        pytest.param({"breaker": BreakerState.HALF_OPEN}, False, id="probing"),
        pytest.param({"held_s": 0.5}, False, id="retry-after"),
        pytest.param({"starved": True}, False, id="room-that-others-hold"),
        pytest.param(
            {"drain_s": DRAIN_S_MAX * 1.1, "oldest_in_flight_s": PAUSE_S * 1.1}, False, id="slow"
        ),
        pytest.param({"completions_per_s": 0.0, "drain_s": 1e9}, True, id="connecting"),
        pytest.param(
            {"completions_per_s": 0.0, "drain_s": 1e9, "oldest_in_flight_s": UNPROVEN_S * 1.1},
            False,
            id="hangs",
        ),
    ],
)
def test_a_pause_is_for_a_sink_that_is_about_to_have_room(clock, changed, worth):
    """Everything else is backfilled alone (promise 4)."""
    assert (
        Backpressure(Lanes(queue(**changed)).queue, lambda _: False).worth(URI, clock.monotonic_s())
        is worth
    )


def test_a_sink_without_a_queue_is_not_waited_for(clock):
    """There is nothing to wait for."""
    assert not Backpressure(Lanes().queue, lambda _: False).worth(URI, clock.monotonic_s())


def pauses(patience, clock):
    """Pauses that one sink gets in a row within a second."""
    count = 0
    while patience.worth(URI, clock.monotonic_s()) and count < 45:
        clock.move_to(clock.monotonic_s() + PAUSE_S)
        count += 1
    return count


def test_a_sink_may_hold_up_the_others_for_a_share_of_the_time(clock):
    """Half of a second while another queue is hungry."""
    hungry = queue(OTHER, queued=0, drain_s=0.0)
    count = pauses(Backpressure(Lanes(queue(), hungry).queue, lambda _: False), clock)
    assert SHARE_MAX <= count * PAUSE_S <= SHARE_MAX + 3 * PAUSE_S


def test_the_share_is_of_each_second(clock):
    """What was spent before does not count for ever."""
    patience = Backpressure(
        Lanes(queue(), queue(OTHER, queued=0, drain_s=0.0)).queue, lambda _: False
    )
    pauses(patience, clock)
    assert not patience.worth(URI, clock.monotonic_s())
    clock.move_to(clock.monotonic_s() + 1.0)
    assert patience.worth(URI, clock.monotonic_s())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"queued": 7}, id="has-work"),
        pytest.param({"queued": 0, "breaker": BreakerState.OPEN}, id="takes-nothing"),
    ],
)
def test_the_share_holds_whatever_the_other_queues_say(clock, other):
    """A sink whose events lie behind in the log has no queue that could be hungry."""
    count = pauses(
        Backpressure(Lanes(queue(), queue(OTHER, **other)).queue, lambda _: False), clock
    )
    assert SHARE_MAX <= count * PAUSE_S <= SHARE_MAX + 3 * PAUSE_S


def test_the_only_sink_may_hold_up_the_intake_for_long(clock):
    """Nobody waits behind it, and a backfill would read the log twice."""
    assert pauses(Backpressure(Lanes(queue()).queue, lambda uri: uri == URI), clock) == 45


@pytest.mark.parametrize("slow", [{"drain_s": 3.0}, {"completions_per_s": 0.0, "drain_s": 1e9}])
@pytest.mark.parametrize(("partitions", "worth"), [(1, False), (4, True)])
def test_partitions_share_what_the_only_sink_takes(clock, partitions, worth, slow):
    """It is as fast as before when there are more of them; among others it is not waited for."""
    lanes = Lanes(queue(oldest_in_flight_s=0.9, **slow))
    alone = Backpressure(lanes.queue, lambda _: True, partitions)
    assert alone.worth(URI, clock.monotonic_s()) is worth
    assert not Backpressure(lanes.queue, lambda _: False, partitions).worth(
        URI, clock.monotonic_s()
    )


@pytest.mark.parametrize(
    ("changed", "comfortable"),
    [
        pytest.param({"queued": 10}, True, id="nearly-empty"),
        pytest.param({}, False, id="full"),
        pytest.param({"queued": 10, "breaker": BreakerState.HALF_OPEN}, False, id="probing"),
        pytest.param(
            {"queued": 0, "in_flight": 0, "breaker": BreakerState.HALF_OPEN}, True, id="no-probe"
        ),
        pytest.param(
            {"queued": 0, "in_flight": 1, "breaker": BreakerState.HALF_OPEN}, False, id="a-probe"
        ),
        pytest.param({"queued": 10, "held_s": 0.1}, False, id="retry-after"),
        pytest.param({"queued": 0, "starved": True}, False, id="room-that-others-hold"),
        pytest.param({"queued": 10, "drain_s": 2.0}, False, id="slow"),
    ],
)
def test_a_route_joins_where_its_sink_keeps_up(changed, comfortable):
    """Else it would be backfilled again at once."""
    assert (
        Backpressure(Lanes(queue(**changed)).queue, lambda _: False).comfortable(URI) is comfortable
    )


def test_a_sink_without_a_queue_is_comfortable():
    """Nothing was sent there lately, so nothing waits."""
    assert Backpressure(Lanes().queue, lambda _: False).comfortable(URI)
