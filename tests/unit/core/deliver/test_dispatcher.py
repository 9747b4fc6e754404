"""The dispatcher and its lanes, in virtual time."""

import asyncio
import math

import pytest
from msgspec.structs import replace

from distributary.core.deliver import Admission, BreakerState, Destination
from distributary.core.errors import TransportError
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

URI = "http://sink.example/"
OTHER = "http://other.example/"
REFUSED = TransportError("refused", "nobody there")
TIMEOUT = TransportError("timeout", "too slow")


def reply(status, retry_after=None):
    """A reply without a body."""
    return Reply(status, retry_after, None, b"")


def steps(*answers, after_s=0.01):
    """A script that gives these answers in turn, the last one for ever."""
    left = list(answers)

    def script(_event, _destination):
        return Step(left.pop(0) if len(left) > 1 else left[0], after_s)

    return script


def test_reports_each_attempt_once_with_its_duration(stage):
    """One task, one attempt, one report."""
    assert stage.offer() == [Admission.ADMITTED]
    assert stage.attempts == []
    stage.advance(1.0)
    (attempt,) = stage.attempts
    assert attempt.answer.status == 204
    assert attempt.duration_s == pytest.approx(0.01)
    assert attempt.task.event.attributes["id"] == "1"


def test_does_not_retry(stage):
    """What an error means is the pipeline's business."""
    stage.script = steps(reply(500))
    stage.offer()
    stage.advance(1000.0)
    assert [attempt.answer.status for attempt in stage.attempts] == [500]


def test_begins_with_few_attempts_and_doubles_while_the_sink_keeps_up(stage):
    """Slow start: 4, 8, 16, 32, 64 in flight, and no more."""
    stage.offer(1000)
    seen = []
    for _ in range(7):
        seen.append(stage.lane().in_flight)
        stage.advance(0.01)
    assert seen == [4, 8, 16, 32, 64, 64, 64]


def test_does_not_grow_without_demand(stage):
    """A limit that nobody reaches says nothing about the sink."""
    for _ in range(50):
        stage.offer()
        stage.advance(0.02)
    assert stage.lane().concurrency == 4


@pytest.mark.parametrize("answer", [TIMEOUT, reply(429), reply(503)], ids=["timeout", "429", "503"])
def test_halves_concurrency_once_for_a_round_trip_when_the_sink_is_overloaded(stage, answer):
    """Of the attempts in flight together one counts."""
    stage.offer(1000)
    stage.advance(0.045)
    stage.script = steps(answer, after_s=0.01)
    assert stage.lane().concurrency == 64
    stage.advance(0.015)  # the 64 in flight succeed, 64 start that do not
    stage.script = steps(reply(204), after_s=0.01)
    stage.advance(0.006)
    assert stage.lane().concurrency == 32


def test_refuses_when_the_queue_is_full_and_tells_of_room(stage):
    """FULL at the limit, ``on_room`` once at low water."""
    admissions = stage.offer(4 + 4096 + 1, data=None)
    assert admissions.count(Admission.ADMITTED) < len(admissions)
    assert admissions[-1] is Admission.FULL
    assert stage.room == []
    stage.advance(10.0)
    assert stage.room == [URI]
    assert stage.lane().queued == 0
    assert len(stage.attempts) == admissions.count(Admission.ADMITTED)


def test_limits_the_queue_by_count(make_stage):
    """The limit and the first refusal beyond it."""
    stage = make_stage(queued_max=10)
    assert stage.offer(15) == [Admission.ADMITTED] * 14 + [Admission.FULL]
    assert stage.lane().queued == 10


def test_limits_the_queue_by_bytes(make_stage):
    """Big events fill a lane before their number does; what is in flight counts."""
    stage = make_stage(held_bytes_max=1_000_000)
    admissions = stage.offer(20, data=b"x" * 100_000)
    assert admissions.count(Admission.ADMITTED) == 9
    assert stage.dispatcher.held_bytes <= 1_000_000
    stage.advance(1.0)
    assert stage.dispatcher.held_bytes == 0


def test_leaves_room_for_other_sinks_when_one_is_slow(make_stage):
    """A busy lane gets half of what is free in all, so the next sink finds room."""
    stage = make_stage(held_bytes_total_max=1_000_000)
    stage.script = steps(None)
    for number in range(50):
        stage.offer(100, uri=f"http://slow{number}.example/", data=b"x" * 10_000)
    assert stage.dispatcher.held_bytes <= 1_000_000 + 11_024 * 50
    assert stage.offer(uri=OTHER, data=b"x" * 10_000) == [Admission.ADMITTED]


def test_an_idle_lane_always_takes_one_task(make_stage):
    """However large it is: else it could never be sent."""
    stage = make_stage(held_bytes_max=10, held_bytes_total_max=10)
    assert stage.offer(2, data=b"x" * 1000) == [Admission.ADMITTED, Admission.FULL]


def test_keeps_a_reserve_for_retries(make_stage):
    """A retry is taken where a new task is not, up to the reserve."""
    stage = make_stage(queued_max=10, retry_reserve=3)
    stage.offer(14)
    to = Destination(URI)
    offers = [stage.dispatcher.offer_retry(stage.task(), to) for _ in range(4)]
    assert offers == [Admission.ADMITTED] * 3 + [Admission.FULL]


def test_one_sink_that_hangs_delays_no_other(stage):
    """S1, S11: the others' attempts take as long as without it."""
    stage.script = lambda _event, destination: (
        Step(None) if destination.uri == URI else Step(after_s=0.01)
    )
    stage.offer(5000)
    for number in range(999):
        stage.offer(3, uri=f"http://good{number}.example/")
    stage.advance(0.02)
    assert len(stage.attempts) == 999 * 3
    assert max(attempt.duration_s for attempt in stage.attempts) == pytest.approx(0.01)


def test_bounds_the_attempts_of_all_lanes_but_not_the_first_of_each(make_stage):
    """A thousand hanging sinks leave the next one its first attempt."""
    stage = make_stage(in_flight_max=100, in_flight_total_max=1000)
    stage.script = lambda _event, destination: (
        Step(None) if "hang" in destination.uri else Step(after_s=0.01)
    )
    for number in range(500):
        stage.offer(4, uri=f"http://hang{number}.example/")
    assert stage.dispatcher.in_flight == 25 * 4 + 475
    stage.offer(10, uri=OTHER)
    stage.advance(0.2)
    assert len(stage.attempts) == 10


def test_lanes_that_waited_for_a_place_start_when_one_is_free(make_stage):
    """Nothing is left behind, and no lane starves."""
    stage = make_stage(in_flight_max=2, in_flight_total_max=2)
    for number in range(20):
        stage.offer(5, uri=f"http://sink{number}.example/")
    assert stage.dispatcher.in_flight == 2
    stage.advance(0.01 * 51)
    assert len(stage.attempts) == 100
    assert stage.dispatcher.in_flight == stage.dispatcher.queued == 0


def test_cooling_down_stops_slow_lanes_alone(stage):
    """Lanes whose oldest attempt is old start nothing; the others go on."""
    stage.script = lambda _event, destination: Step(after_s=5.0 if destination.uri == URI else 0.01)
    stage.offer(10)
    stage.advance(1.0)
    stage.dispatcher.cool_down(0.5)
    stage.offer(100, uri=OTHER)
    stage.advance(3.0)
    assert len(stage.attempts) == 100
    stage.advance(10.0)
    assert stage.lane().queued in (0, 2)  # when the old ones ended the next four could start
    stage.dispatcher.warm_up()
    stage.advance(10.0)
    assert len(stage.attempts) == 110


def test_warming_up_lets_slow_lanes_start_again(stage):
    """``warm_up`` undoes ``cool_down`` at once."""
    stage.script = lambda event, _destination: Step(
        after_s=5.0 if event.attributes["id"] == "1" else 0.01
    )
    stage.offer(1)
    stage.advance(1.0)
    stage.dispatcher.cool_down(0.5)
    assert stage.offer(3) == [Admission.ADMITTED] * 3
    stage.advance(1.0)
    assert stage.attempts == []
    stage.dispatcher.warm_up()
    stage.advance(1.0)
    assert len(stage.attempts) == 3


def test_hands_back_what_was_not_started(stage):
    """What is in flight stays and is reported; the rest comes back, oldest first."""
    stage.offer(20)
    stage.offer(10, uri=OTHER)
    taken = stage.dispatcher.take_queued()
    assert [int(task.event.attributes["id"]) for task in taken] == [
        *range(5, 21),
        *range(25, 31),
    ]
    stage.advance(1.0)
    assert len(stage.attempts) == 8
    assert (stage.dispatcher.queued, stage.dispatcher.held_bytes) == (0, 0)


def test_hands_back_the_queue_of_one_sink(stage):
    """For a route that is to lag."""
    stage.offer(20)
    stage.offer(20, uri=OTHER)
    assert len(stage.dispatcher.take_queued(OTHER)) == 16
    assert stage.dispatcher.queued == 16
    assert stage.dispatcher.take_queued("http://unknown.example/") == []


def test_tells_how_a_lane_stands(stage):
    """Queue, pace, and how long the queue will take."""
    stage.offer(2000, data=b"x" * 10)
    stage.advance(2.05)
    stage.offer(1000, data=b"x" * 10)
    state = stage.lane()
    assert state.uri == URI
    assert state.in_flight == 64
    assert state.queued == 1000 - 64
    assert state.queued_bytes == state.queued * (1024 + 10)
    assert state.drain_s > 0
    assert state.breaker is BreakerState.CLOSED
    assert [lane.uri for lane in stage.dispatcher.lanes()] == [URI]
    assert stage.dispatcher.queued == state.queued


def test_estimates_the_pace_of_the_last_second(stage):
    """A sink at 10 ms and 64 at once makes 6,400 a second."""
    for _ in range(15):
        stage.offer(1000)
        stage.advance(0.1)
    assert stage.lane().completions_per_s == pytest.approx(6400, rel=0.05)


def test_the_drain_time_of_a_silent_lane_is_infinite(stage):
    """Nothing was answered: nobody knows."""
    stage.script = steps(None)
    stage.offer(10)
    stage.advance(5.0)
    assert stage.lane().drain_s == math.inf
    assert stage.lane().oldest_in_flight_s == pytest.approx(5.0)
    assert stage.dispatcher.oldest_in_flight_s() == pytest.approx(5.0)


def test_an_unknown_sink_has_no_lane(stage):
    """Asking makes none."""
    assert stage.lane("http://unknown.example/") is None
    assert stage.dispatcher.oldest_in_flight_s() == 0.0


def test_drops_lanes_that_nobody_uses(stage):
    """A removed sink is forgotten, and the timers come to rest."""
    stage.offer(1)
    stage.offer(1, uri=OTHER)
    stage.advance(50.0)
    stage.offer(1, uri=OTHER)
    stage.advance(45.0)
    assert stage.lane() is None
    assert stage.lane(OTHER) is not None
    stage.timers.run_until_idle()
    assert stage.dispatcher.lanes() == []
    assert stage.offer() == [Admission.ADMITTED]


def test_a_destination_without_transport_fails_its_task_for_good(stage):
    """A route of a newer version must not stop the lane."""
    to = Destination(URI, protocol="CARRIER-PIGEON")
    assert stage.dispatcher.offer(stage.task(), to) is Admission.ADMITTED
    assert stage.attempts == []
    stage.advance(0.1)
    assert stage.attempts[0].answer.reason == "protocol"
    assert not stage.attempts[0].answer.retryable


def test_gives_the_transport_the_timeout_of_the_policy(stage):
    """Every subscription has its own."""
    stage.script = steps(None)
    to = Destination(URI, policy=DeliveryPolicy(timeout_s=3.0))
    stage.dispatcher.offer(stage.task(), to)
    stage.advance(2.9)
    assert stage.attempts == []
    stage.advance(0.2)
    assert stage.attempts[0].answer.reason == "timeout"
    assert stage.attempts[0].duration_s == pytest.approx(3.0)


def test_header_lines_go_along_to_the_sinks_of_knative_kinds_alone(stage):
    """A publisher's header fields are nobody else's business."""
    task = stage.task()
    task = replace(task, carried=b"x-request-id: r1\r\n")
    for namespace in (None, "shop"):
        stage.dispatcher.offer(task, Destination(URI, namespace=namespace))
        stage.advance(1.0)
    assert stage.transport.carried == [b"", b"x-request-id: r1\r\n"]


def test_header_lines_that_go_along_count_among_the_bytes_of_a_lane(make_stage):
    """They are held with their task."""
    stage = make_stage(held_bytes_max=20_000)
    stage.script = lambda *_: Step(None)
    tasks = [replace(stage.task(), carried=b"x" * 8_000) for _ in range(8)]
    admitted = [stage.dispatcher.offer(task, Destination(URI)) for task in tasks]
    assert admitted == [Admission.ADMITTED] * 2 + [Admission.FULL] * 6


def test_closing_with_abort_ends_what_is_under_way(stage):
    """Each attempt is reported as ``closed``; what waits can be taken."""
    stage.script = steps(None)
    stage.offer(10)
    asyncio.run(stage.dispatcher.close(abort=True))
    assert [attempt.answer.reason for attempt in stage.attempts] == ["closed"] * 4
    assert len(stage.dispatcher.take_queued()) == 6
    assert stage.offer() == [Admission.FULL]


def test_closing_without_abort_waits_for_the_answers(stage):
    """Nothing new starts; what runs is answered first."""
    stage.offer(10)

    async def close():
        closing = asyncio.get_running_loop().create_task(stage.dispatcher.close(abort=False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not closing.done()
        stage.advance(1.0)
        await closing

    asyncio.run(close())
    assert [attempt.answer.status for attempt in stage.attempts] == [204] * 4
    assert len(stage.dispatcher.take_queued()) == 6
    stage.timers.run_until_idle()
    assert len(stage.attempts) == 4


def test_closing_an_idle_dispatcher_returns_at_once(stage):
    """Nothing is under way: nothing to wait for."""
    asyncio.run(stage.dispatcher.close(abort=False))
    assert stage.offer() == [Admission.FULL]


def test_a_task_may_be_offered_from_inside_a_report(stage):
    """The pipeline answers reports with retries."""
    to = Destination(URI)
    again = iter(range(3))
    stage.dispatcher.offer(stage.task(), to)
    reports = stage.attempts
    shared = stage.dispatcher._shared
    shared.on_attempt = lambda attempt: (
        reports.append(attempt),
        next(again, None) is not None and stage.dispatcher.offer(stage.task(), to),
    )
    stage.advance(1.0)
    assert len(reports) == 4


def test_taking_the_queue_gives_its_room_back(make_stage):
    """Bytes as well as places, in the lane and in all."""
    stage = make_stage(held_bytes_max=100_000)
    stage.script = steps(None)
    stage.offer(10, data=b"x" * 20_000)
    stage.dispatcher.take_queued()
    stage.advance(60.0)
    assert stage.dispatcher.held_bytes == 0
    stage.script = steps(reply(204))
    assert stage.offer(4, data=b"x" * 20_000) == [Admission.ADMITTED] * 4


def test_taking_the_queue_of_a_lane_that_refused_is_followed_by_news_of_room(make_stage):
    """Also where no answer of that lane will follow; not from inside the call."""
    stage = make_stage(in_flight_max=1, in_flight_total_max=1, queued_max=3)
    stage.script = steps(None)
    stage.offer(1, uri=OTHER)
    assert stage.offer(5)[-1] is Admission.FULL
    stage.dispatcher.take_queued(URI)
    assert stage.room == []
    stage.advance(0.001)
    assert stage.room == [URI]


# -- attempts that were not made ------------------------------------------------------------


@pytest.mark.parametrize("reason", ["credential-expired", "unreadable-settings"])
def test_an_attempt_that_was_not_made_says_nothing_about_the_sink(stage, reason):
    """Other subscriptions have the same sink: its breaker stays closed for them."""
    stage.script = lambda _event, _destination: Step(TransportError(reason, "x"), 0.01)
    for _ in range(30):
        assert stage.offer() == [Admission.ADMITTED]
        stage.advance(0.1)
    assert stage.lane().breaker is BreakerState.CLOSED
    assert {attempt.answer.reason for attempt in stage.attempts} == {reason}


def test_a_probe_that_was_not_made_proves_no_life(stage):
    """The breaker opens again, and the next probe may be made."""
    stage.script = lambda _event, _destination: Step(TransportError("refused", "x"), 0.01)
    stage.offer(10)
    stage.advance(0.2)
    assert stage.lane().breaker is BreakerState.OPEN
    stage.script = lambda _event, _destination: Step(TransportError("credential-expired", ""), 0.01)
    stage.advance(1.0)
    stage.offer()
    stage.advance(0.02)
    assert stage.lane().breaker is BreakerState.OPEN
    stage.script = lambda _event, _destination: Step(Reply(204, None, None, b""), 0.01)
    stage.advance(2.0)
    assert stage.offer() == [Admission.ADMITTED]
    stage.advance(0.1)
    assert stage.lane().breaker is BreakerState.CLOSED


def test_an_unusable_destination_fails_and_may_be_tried_again(stage):
    """The transport is not asked; the reason is told."""
    to = Destination(URI, unusable="the key is lost")
    assert stage.dispatcher.offer(stage.task(), to) is Admission.ADMITTED
    assert stage.attempts == []
    stage.advance(0.1)
    (attempt,) = stage.attempts
    assert attempt.answer.reason == "unreadable-settings"
    assert attempt.answer.retryable
    assert "the key is lost" in str(attempt.answer)
    assert stage.lane().in_flight == 0
