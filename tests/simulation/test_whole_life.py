"""Every transition of a match's life is met: those that no other test meets have a script here."""

from pathlib import Path

import pytest

from distributary.core.deliver import Limits
from distributary.core.engine import EngineLimits, MatchState, Step
from distributary.core.policy import DeliveryPolicy
from kit.simulation.life_checker import LifeChecker, transitions
from kit.simulation.partition import answers, hangs, replies

FOLDER = Path(__file__).parent
SINK, DEAD, SLOW = "http://sink.example/", "http://dead.example/", "http://slow.example/"
BACK, OTHER = "http://back.example/", "http://other.example/"
STEADY = DeliveryPolicy(retry=2, backoff_delay_s=2.0, timeout_s=1.0)
ONCE = DeliveryPolicy(retry=0, timeout_s=1.0)
PATIENT = DeliveryPolicy(retry=2, timeout_s=60.0)
ROOMY = Limits(queued_max=40, in_flight_max=8, in_flight_total_max=12, retry_reserve=0)
SMALL = Limits(queued_max=6, in_flight_max=8, in_flight_total_max=12, retry_reserve=0)
ONE_REPLY = 3_000
"""Bytes in which one reply waits for room, and no second one."""


@pytest.fixture
def steps():
    """Gives what was met in this test."""
    before = LifeChecker.met.copy()
    return lambda: LifeChecker.met - before


def fill(partition, uri, count):
    """Let the sink at *uri* hang with *count* events of a route of its own."""
    partition.sinks[uri] = hangs
    partition.put_route(uri, uri, types=[uri], policy=PATIENT)
    for _ in range(count):
        partition.publish(uri)


ENDS = pytest.mark.parametrize(
    ("policy", "dead_letter", "step"),
    [
        pytest.param(STEADY, None, Step.RETRY, id="retry"),
        pytest.param(ONCE, DEAD, Step.TURN_TO_DEAD_LETTER, id="dead-letter"),
        pytest.param(ONCE, None, Step.KEEP, id="keep"),
        pytest.param(STEADY, None, Step.DELIVER, id="deliver"),
    ],
)
"""What becomes of a delivery whose reply finds no room elsewhere; or whose route wants none."""


def reply_elsewhere(partition, policy, dead_letter, step):
    """The route wants its replies somewhere else, or (to be delivered) no replies any more."""
    reply = None if step is Step.DELIVER else OTHER
    partition.put_route(
        "r", SINK, types=["t"], policy=policy, dead_letter=dead_letter, reply=reply, reply_kept=True
    )
    if reply is None:
        (fate,) = (fate for fate in partition.checker.fates() if fate.key.route == "r")
        dropped = {"route": "r", "offset": fate.key.offset, "index": fate.key.index}
        partition.checker.reply_dropped(dropped | {"reason": "no-destination"})
    partition.advance(0.3)


@ENDS
def test_a_reply_that_was_queued_goes_elsewhere(make_partition, steps, policy, dead_letter, step):
    """It is handed back; where it may not wait, its delivery has failed."""
    partition = make_partition(limits=ROOMY)
    partition.engine_limits = EngineLimits(reply_bytes_max=0)
    route = {"types": ["t"], "policy": policy, "dead_letter": dead_letter}
    partition.put_route("r", SINK, **route, reply=BACK, reply_kept=True)
    partition.sinks[SINK] = replies()
    fill(partition, BACK, 12)
    partition.start()
    partition.advance(0.5)
    partition.publish("t")
    partition.advance(0.1)
    reply_elsewhere(partition, policy, dead_letter, step)
    assert steps()[MatchState.QUEUED, step]
    partition.rest()


@ENDS
def test_a_reply_that_was_held_goes_elsewhere(make_partition, steps, policy, dead_letter, step):
    """It finds no room there, nor may it wait there: its delivery has failed."""
    partition = make_partition(limits=SMALL)
    partition.engine_limits = EngineLimits(reply_bytes_max=ONE_REPLY)
    route = {"types": ["t"], "policy": policy, "dead_letter": dead_letter}
    partition.put_route("r", SINK, **route, reply=BACK, reply_kept=True)
    partition.sinks[SINK] = replies()
    fill(partition, BACK, 40)
    fill(partition, OTHER, 40)
    partition.start()
    partition.advance(1.0)
    partition.publish("t")
    partition.advance(0.1)
    assert steps()[MatchState.IN_FLIGHT, Step.HOLD]
    reply_elsewhere(partition, policy, dead_letter, step)
    assert steps()[MatchState.HELD, step]
    partition.rest()


def test_what_is_held_back_becomes_a_row_when_the_cursor_must_pass(partition, steps):
    """A row stands for it when its sink has not got room in time."""
    partition.engine_limits = EngineLimits(window_events=2)
    fill(partition, SLOW, 30)
    partition.start()
    partition.advance(1.0)
    assert steps()[MatchState.HELD, Step.DEMOTE]
    assert steps()[MatchState.HELD, Step.DEFER]
    partition.rest()


def test_what_is_held_back_is_dropped_when_its_route_is_deleted(partition, steps):
    """It need not wait for room in a queue that it is not to join any more."""
    fill(partition, SLOW, 30)
    partition.start()
    partition.advance(0.05)
    assert steps()[MatchState.MATCHED, Step.HOLD]
    partition.delete_route(SLOW)
    partition.advance(1.0)
    assert steps()[MatchState.HELD, Step.DROP]
    partition.rest()


def test_a_dead_letter_that_waits_for_room_is_kept_when_its_sink_is_taken_away(
    make_partition, steps
):
    """Nobody is left who would take it."""
    partition = make_partition(limits=SMALL)
    partition.put_route("r", SINK, types=["t"], policy=ONCE, dead_letter=DEAD)
    partition.sinks[SINK] = answers(400)
    fill(partition, DEAD, 40)
    partition.start()
    partition.advance(1.0)
    partition.publish("t")
    partition.advance(0.5)
    partition.put_route("r", SINK, types=["t"], policy=ONCE)
    partition.advance(0.5)
    assert steps()[MatchState.DEFERRED, Step.KEEP]
    partition.rest()


def test_a_dead_letter_that_is_read_again_is_kept_when_its_sink_was_taken_away(partition, steps):
    """That is found once its event is there."""
    partition.engine_limits = EngineLimits(row_events_bytes_max=0)
    partition.put_route("r", SINK, policy=STEADY, dead_letter=DEAD)
    partition.sinks.update({SINK: answers(400), DEAD: answers(503)})
    partition.start()
    partition.publish("t")
    partition.advance(1.0)
    partition.put_route("r", SINK, policy=STEADY)
    partition.advance(10.0)
    assert steps()[MatchState.READING, Step.KEEP]
    partition.rest()


def test_a_row_of_a_lost_record_is_void_while_its_route_is_parked(partition, steps):
    """Another event of the route stands at its position."""
    partition.put_route("r", SINK, policy=STEADY, parks=True)
    partition.sinks[SINK] = answers(410)
    partition.start()
    partition.publish("t")
    partition.advance(0.5)
    partition.crash()
    partition.log.lose_tail(1)
    partition.checker.lost(1, 2)
    partition.start()
    partition.publish("t")
    partition.advance(0.5)
    assert steps()[MatchState.DEFERRED, Step.VOID]
    partition.targets.ask("resume", "r")
    partition.rest()


def test_a_row_of_a_lost_record_is_void_when_it_is_read(partition, steps):
    """An event that its route does not see stands at its position."""
    partition.put_route("r", SINK, types=["t"], policy=STEADY)
    partition.sinks[SINK] = answers(503)
    partition.start()
    partition.publish("t")
    partition.advance(0.5)
    partition.crash()
    partition.log.lose_tail(1)
    partition.checker.lost(1, 2)
    partition.start()
    partition.publish("u")
    partition.advance(5.0)
    assert steps()[MatchState.READING, Step.VOID]
    partition.rest()


def test_a_row_of_a_lost_record_is_void_though_it_is_done(partition, steps):
    """Its event stood in the store; later the live reader meets another one at its position."""
    partition.put_route("r", SINK, policy=STEADY, reply=BACK, dead_letter=DEAD)
    partition.sinks.update({SINK: replies(), BACK: answers(400), DEAD: answers(503)})
    partition.start()
    partition.publish("t")
    partition.advance(1.0)
    partition.crash()
    partition.log.lose_tail(1)
    partition.sinks.clear()
    partition.start()
    partition.advance(10.0)
    assert [row.done for row in partition.store.kept_rows.values()] == [True]
    partition.checker.lost(1, 2)
    partition.publish("t")
    partition.advance(1.0)
    assert steps()[MatchState.DONE, Step.VOID]
    partition.rest()


def test_what_was_under_way_at_a_crash_waits_as_rows_while_its_route_is_parked(
    make_partition, steps
):
    """It lies before the backfill, which has all that came later."""
    partition = make_partition(limits=SMALL)
    partition.put_route("r", SINK, policy=PATIENT, parks=True)
    gone = iter([answers(410, after_s=0.5)])

    def gone_once(chance):
        return next(gone, hangs)(chance)

    partition.sinks[SINK] = gone_once
    partition.start()
    for _ in range(40):
        partition.publish("t")
    partition.advance(2.0)
    partition.crash()
    partition.start()
    partition.advance(0.5)
    assert steps()[MatchState.MATCHED, Step.DEFER]
    partition.targets.ask("resume", "r")
    partition.rest()


def test_a_row_asks_once_it_is_read_where_its_subscription_is_counted_by_then(partition, steps):
    """What was not counted when its event was asked for is, when the event is there."""
    partition.engine_limits = EngineLimits(row_events_bytes_max=0)
    partition.put_route("r", SINK, types=["t"], policy=STEADY)
    partition.sinks[SINK] = answers(404)  # opens no breaker
    partition.start()
    for number in range(100):
        partition.publish("t")
        partition.advance(0.03)
        if number == 80:
            partition.put_route("r", SINK, types=["t"], policy=STEADY, events_max=1_000)
    assert steps()[MatchState.READING, Step.RESERVE]
    partition.sinks.clear()
    partition.rest()


def test_every_transition_is_met(request):
    """By the scripts above, the other tests of this folder, and the seeds."""
    played = {item.path for item in request.session.items}
    if request.config.option.keyword or not played.issuperset(FOLDER.glob("test_*.py")):
        pytest.skip("the whole simulation must be played, and only some of it is")
    missing = {transition for transition in transitions() if not LifeChecker.met[transition]}
    assert missing == set()
