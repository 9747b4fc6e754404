"""The dispatcher and its queues, in virtual time."""

import asyncio

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


def test_reports_each_attempt_once_with_its_duration(rig):
    """One task, one attempt, one report."""
    assert rig.offer() == [Admission.ADMITTED]
    assert rig.attempts == []
    rig.advance(1.0)
    (attempt,) = rig.attempts
    assert attempt.answer.status == 204
    assert attempt.duration_s == pytest.approx(0.01)
    assert attempt.task.event.attributes["id"] == "1"


def test_does_not_retry(rig):
    """What an error means is the pipeline's business."""
    rig.script = steps(reply(500))
    rig.offer()
    rig.advance(1000.0)
    assert [attempt.answer.status for attempt in rig.attempts] == [500]


def test_begins_with_few_attempts_and_doubles_while_the_sink_keeps_up(rig):
    """Slow start: 4, 8, 16, 32, 64 in flight, and no more."""
    rig.offer(1000)
    seen = []
    for _ in range(7):
        seen.append(rig.queue().in_flight)
        rig.advance(0.01)
    assert seen == [4, 8, 16, 32, 64, 64, 64]


def test_does_not_grow_without_demand(rig):
    """A limit that nobody reaches says nothing about the sink."""
    for _ in range(50):
        rig.offer()
        rig.advance(0.02)
    assert rig.queue().concurrency == 4


@pytest.mark.parametrize("answer", [TIMEOUT, reply(429), reply(503)], ids=["timeout", "429", "503"])
def test_halves_concurrency_once_for_a_round_trip_when_the_sink_is_overloaded(rig, answer):
    """Of the attempts in flight together one counts."""
    rig.offer(1000)
    rig.advance(0.045)
    rig.script = steps(answer, after_s=0.01)
    assert rig.queue().concurrency == 64
    rig.advance(0.015)  # the 64 in flight succeed, 64 start that do not
    rig.script = steps(reply(204), after_s=0.01)
    rig.advance(0.006)
    assert rig.queue().concurrency == 32


def test_refuses_when_the_queue_is_full_and_tells_when_it_has_drained(rig):
    """FULL at the limit, ``on_drained`` once at low water."""
    admissions = rig.offer(4 + 4096 + 1, data=None)
    assert admissions.count(Admission.ADMITTED) < len(admissions)
    assert admissions[-1] is Admission.FULL
    assert rig.drained == []
    rig.advance(10.0)
    assert rig.drained == [URI]
    assert rig.queue().queued == 0
    assert len(rig.attempts) == admissions.count(Admission.ADMITTED)


def test_limits_the_queue_by_count(make_rig):
    """The limit and the first refusal beyond it."""
    rig = make_rig(queued_max=10)
    assert rig.offer(15) == [Admission.ADMITTED] * 14 + [Admission.FULL]
    assert rig.queue().queued == 10


def test_limits_the_queue_by_bytes(make_rig):
    """Big events fill a queue before their number does; what is in flight counts."""
    rig = make_rig(held_bytes_max=1_000_000)
    admissions = rig.offer(20, data=b"x" * 100_000)
    assert admissions.count(Admission.ADMITTED) == 9
    assert rig.dispatcher.held_bytes <= 1_000_000
    rig.advance(1.0)
    assert rig.dispatcher.held_bytes == 0


def test_leaves_room_for_other_sinks_when_one_is_slow(make_rig):
    """A busy queue gets half of what is free in all, so the next sink finds room."""
    rig = make_rig(held_bytes_total_max=1_000_000)
    rig.script = steps(None)
    for number in range(50):
        rig.offer(100, uri=f"http://slow{number}.example/", data=b"x" * 10_000)
    assert rig.dispatcher.held_bytes <= 1_000_000 + 11_024 * 50
    assert rig.offer(uri=OTHER, data=b"x" * 10_000) == [Admission.ADMITTED]


def test_an_idle_queue_always_takes_one_task(make_rig):
    """However large it is: else it could never be sent."""
    rig = make_rig(held_bytes_max=10, held_bytes_total_max=10)
    assert rig.offer(2, data=b"x" * 1000) == [Admission.ADMITTED, Admission.FULL]


def test_keeps_a_reserve_for_retries(make_rig):
    """A retry is taken where a new task is not, up to the reserve."""
    rig = make_rig(queued_max=10, retry_reserve=3)
    rig.offer(14)
    to = Destination(URI)
    offers = [rig.dispatcher.offer_retry(rig.task(), to) for _ in range(4)]
    assert offers == [Admission.ADMITTED] * 3 + [Admission.FULL]


def test_one_sink_that_hangs_delays_no_other(rig):
    """S1, S11: the others' attempts take as long as without it."""
    rig.script = lambda _event, destination: (
        Step(None) if destination.uri == URI else Step(after_s=0.01)
    )
    rig.offer(5000)
    for number in range(999):
        rig.offer(3, uri=f"http://good{number}.example/")
    rig.advance(0.02)
    assert len(rig.attempts) == 999 * 3
    assert max(attempt.duration_s for attempt in rig.attempts) == pytest.approx(0.01)


def test_bounds_the_attempts_of_all_queues_but_not_the_first_of_each(make_rig):
    """A thousand hanging sinks leave the next one its first attempt."""
    rig = make_rig(in_flight_max=100, in_flight_total_max=1000)
    rig.script = lambda _event, destination: (
        Step(None) if "hang" in destination.uri else Step(after_s=0.01)
    )
    for number in range(500):
        rig.offer(4, uri=f"http://hang{number}.example/")
    assert rig.dispatcher.in_flight == 25 * 4 + 475
    rig.offer(10, uri=OTHER)
    rig.advance(0.2)
    assert len(rig.attempts) == 10


def test_queues_that_waited_for_a_place_start_when_one_is_free(make_rig):
    """Nothing is left behind, and no queue starves."""
    rig = make_rig(in_flight_max=2, in_flight_total_max=2)
    for number in range(20):
        rig.offer(5, uri=f"http://sink{number}.example/")
    assert rig.dispatcher.in_flight == 2
    rig.advance(0.01 * 51)
    assert len(rig.attempts) == 100
    assert rig.dispatcher.in_flight == rig.dispatcher.queued == 0


def test_draining_stops_slow_queues_alone(rig):
    """Queues whose oldest attempt is old start nothing; the others go on."""
    rig.script = lambda _event, destination: Step(after_s=5.0 if destination.uri == URI else 0.01)
    rig.offer(10)
    rig.advance(1.0)
    rig.dispatcher.begin_drain(0.5)
    rig.offer(100, uri=OTHER)
    rig.advance(3.0)
    assert len(rig.attempts) == 100
    rig.advance(10.0)
    assert rig.queue().queued in (0, 2)  # when the old ones ended the next four could start
    rig.advance(10.0)
    assert len(rig.attempts) == 110


def test_nothing_starts_while_attempts_are_held(rig):
    """Answers still count, tasks are still accepted, and all of them start afterwards."""
    rig.script = lambda _event, _destination: Step(after_s=0.5)
    rig.offer(2)
    rig.dispatcher.hold("lease")
    assert rig.offer(3) == [Admission.ADMITTED] * 3
    rig.offer(2, uri=OTHER)
    rig.advance(20.0)
    assert len(rig.attempts) == 2
    assert rig.dispatcher.in_flight == 0
    rig.dispatcher.go_on("lease")
    rig.advance(5.0)
    assert len(rig.attempts) == 7


def test_a_hold_ends_when_its_last_reason_does(rig):
    """The lease and the disk are apart: while one holds, the end of the other starts nothing."""
    rig.dispatcher.hold("lease")
    rig.dispatcher.hold("unwritten")
    rig.offer(1)
    rig.dispatcher.go_on("unwritten")
    rig.advance(1.0)
    assert not rig.attempts
    rig.dispatcher.go_on("lease")
    rig.advance(1.0)
    assert len(rig.attempts) == 1


def test_who_is_about_to_end_is_so_after_a_hold(rig):
    """Slow queues start nothing more, though attempts may go on."""
    rig.script = lambda _event, _destination: Step(after_s=5.0)
    rig.offer(1)
    rig.advance(1.0)
    rig.dispatcher.begin_drain(0.5)
    rig.dispatcher.hold("lease")
    rig.dispatcher.go_on("lease")
    rig.offer(3)
    rig.advance(1.0)
    assert rig.dispatcher.in_flight == 1


def test_a_slow_queue_starts_again_when_it_is_slow_no_more(rig):
    """What was admitted meanwhile is not forgotten."""
    rig.script = lambda event, _destination: Step(
        after_s=5.0 if event.attributes["id"] == "1" else 0.01
    )
    rig.offer(1)
    rig.advance(1.0)
    rig.dispatcher.begin_drain(0.5)
    assert rig.offer(3) == [Admission.ADMITTED] * 3
    rig.advance(1.0)
    assert rig.attempts == []
    rig.advance(4.0)
    assert len(rig.attempts) == 4


def test_hands_back_what_was_not_started(rig):
    """What is in flight stays and is reported; the rest comes back, oldest first."""
    rig.offer(20)
    rig.offer(10, uri=OTHER)
    taken = rig.dispatcher.take_queued()
    assert [int(task.event.attributes["id"]) for task in taken] == [
        *range(5, 21),
        *range(25, 31),
    ]
    rig.advance(1.0)
    assert len(rig.attempts) == 8
    assert (rig.dispatcher.queued, rig.dispatcher.held_bytes) == (0, 0)


def test_hands_back_the_queue_of_one_sink(rig):
    """For a route that is to be backfilled."""
    rig.offer(20)
    rig.offer(20, uri=OTHER)
    assert len(rig.dispatcher.take_queued(OTHER)) == 16
    assert rig.dispatcher.queued == 16
    assert rig.dispatcher.take_queued("http://unknown.example/") == []


def test_tells_how_a_queue_stands(rig):
    """Queue, pace, and how long the queue will take."""
    rig.offer(2000, data=b"x" * 10)
    rig.advance(2.05)
    rig.offer(1000, data=b"x" * 10)
    state = rig.queue()
    assert state.uri == URI
    assert state.in_flight == 64
    assert state.queued == 1000 - 64
    assert state.queued_bytes == state.queued * (1024 + 10)
    assert state.drain_s > 0
    assert state.breaker is BreakerState.CLOSED
    assert [queue.uri for queue in rig.dispatcher.queues()] == [URI]
    assert rig.dispatcher.queued == state.queued


def test_an_unknown_sink_has_no_queue(rig):
    """Asking makes none."""
    assert rig.queue("http://unknown.example/") is None
    assert rig.dispatcher.oldest_in_flight_s() == 0.0


def test_drops_queues_that_nobody_uses(rig):
    """A removed sink is forgotten, and the timers come to rest."""
    rig.offer(1)
    rig.offer(1, uri=OTHER)
    rig.advance(50.0)
    rig.offer(1, uri=OTHER)
    rig.advance(45.0)
    assert rig.queue() is None
    assert rig.queue(OTHER) is not None
    rig.timers.run_until_idle()
    assert rig.dispatcher.queues() == []
    assert rig.offer() == [Admission.ADMITTED]


def test_a_queue_whose_tasks_wait_is_kept(rig):
    """However long nothing was sent to its sink."""
    rig.dispatcher.hold("lease")
    rig.offer()
    rig.advance(10_000.0)
    rig.dispatcher.go_on("lease")
    rig.advance(1.0)
    assert len(rig.attempts) == 1


def test_a_destination_without_transport_fails_its_task_for_good(rig):
    """A route of a newer version must not stop the queue."""
    to = Destination(URI, protocol="CARRIER-PIGEON")
    assert rig.dispatcher.offer(rig.task(), to) is Admission.ADMITTED
    assert rig.attempts == []
    rig.advance(0.1)
    assert rig.attempts[0].answer.reason == "protocol"
    assert not rig.attempts[0].answer.retryable


def test_gives_the_transport_the_timeout_of_the_policy(rig):
    """Every subscription has its own."""
    rig.script = steps(None)
    to = Destination(URI, policy=DeliveryPolicy(timeout_s=3.0))
    rig.dispatcher.offer(rig.task(), to)
    rig.advance(2.9)
    assert rig.attempts == []
    rig.advance(0.2)
    assert rig.attempts[0].answer.reason == "timeout"
    assert rig.attempts[0].duration_s == pytest.approx(3.0)


def test_header_lines_go_along_to_the_sinks_of_knative_kinds_alone(rig):
    """A publisher's header fields are nobody else's business."""
    task = rig.task()
    task = replace(task, carried=b"x-request-id: r1\r\n")
    for namespace in (None, "shop"):
        rig.dispatcher.offer(task, Destination(URI, namespace=namespace))
        rig.advance(1.0)
    assert rig.transport.carried == [b"", b"x-request-id: r1\r\n"]


def test_header_lines_that_go_along_count_among_the_bytes_of_a_queue(make_rig):
    """They are held with their task."""
    rig = make_rig(held_bytes_max=20_000)
    rig.script = lambda *_: Step(None)
    tasks = [replace(rig.task(), carried=b"x" * 8_000) for _ in range(8)]
    admitted = [rig.dispatcher.offer(task, Destination(URI)) for task in tasks]
    assert admitted == [Admission.ADMITTED] * 2 + [Admission.FULL] * 6


def test_closing_with_abort_ends_what_is_under_way(rig):
    """Each attempt is reported as ``closed``; what waits can be taken."""
    rig.script = steps(None)
    rig.offer(10)
    asyncio.run(rig.dispatcher.close(abort=True))
    assert [attempt.answer.reason for attempt in rig.attempts] == ["closed"] * 4
    assert len(rig.dispatcher.take_queued()) == 6
    assert rig.offer() == [Admission.FULL]


def test_closing_without_abort_waits_for_the_answers(rig):
    """Nothing new starts; what runs is answered first."""
    rig.offer(10)

    async def close():
        closing = asyncio.get_running_loop().create_task(rig.dispatcher.close(abort=False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not closing.done()
        rig.advance(1.0)
        await closing

    asyncio.run(close())
    assert [attempt.answer.status for attempt in rig.attempts] == [204] * 4
    assert len(rig.dispatcher.take_queued()) == 6
    rig.timers.run_until_idle()
    assert len(rig.attempts) == 4


def test_closing_an_idle_dispatcher_returns_at_once(rig):
    """Nothing is under way: nothing to wait for."""
    asyncio.run(rig.dispatcher.close(abort=False))
    assert rig.offer() == [Admission.FULL]


def test_a_task_may_be_offered_from_inside_a_report(rig):
    """The pipeline answers reports with retries."""
    to = Destination(URI)
    again = iter(range(3))
    rig.dispatcher.offer(rig.task(), to)
    reports = rig.attempts
    shared = rig.dispatcher._shared("default")
    shared.on_attempt = lambda attempt: (
        reports.append(attempt),
        next(again, None) is not None and rig.dispatcher.offer(rig.task(), to),
    )
    rig.advance(1.0)
    assert len(reports) == 4


def test_taking_the_queue_gives_its_room_back(make_rig):
    """Bytes as well as places, in the queue and in all."""
    rig = make_rig(held_bytes_max=100_000)
    rig.script = steps(None)
    rig.offer(10, data=b"x" * 20_000)
    rig.dispatcher.take_queued()
    rig.advance(60.0)
    assert rig.dispatcher.held_bytes == 0
    rig.script = steps(reply(204))
    assert rig.offer(4, data=b"x" * 20_000) == [Admission.ADMITTED] * 4


def test_taking_a_queue_that_refused_is_followed_by_a_drain_notice(make_rig):
    """Also where no answer of that queue will follow; not from inside the call."""
    rig = make_rig(in_flight_max=1, in_flight_total_max=1, queued_max=3)
    rig.script = steps(None)
    rig.offer(1, uri=OTHER)
    assert rig.offer(5)[-1] is Admission.FULL
    rig.dispatcher.take_queued(URI)
    assert rig.drained == []
    rig.advance(0.001)
    assert rig.drained == [URI]


# -- attempts that were not made ------------------------------------------------------------


@pytest.mark.parametrize("reason", ["credential-expired", "unreadable-settings", "replies-crowded"])
def test_an_attempt_that_was_not_made_says_nothing_about_the_sink(rig, reason):
    """Other subscriptions have the same sink: its breaker stays closed for them."""
    rig.script = lambda _event, _destination: Step(TransportError(reason, "x"), 0.01)
    for _ in range(30):
        assert rig.offer() == [Admission.ADMITTED]
        rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.CLOSED
    assert {attempt.answer.reason for attempt in rig.attempts} == {reason}


def test_a_probe_may_be_asked_for(rig):
    """Long before the pause of the breaker ends; nothing happens inside the call."""
    rig.script = lambda _event, _destination: Step(TransportError("refused", "x"), 0.01)
    for _ in range(60):
        rig.offer(10)
        rig.advance(2.0)
    rig.dispatcher.take_queued()
    rig.advance(40.0)
    rig.offer(10)
    rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.OPEN
    assert rig.offer() == [Admission.OPEN]
    rig.script = lambda _event, _destination: Step(Reply(204, None, None, b""), 0.01)
    rig.drained.clear()
    rig.dispatcher.probe(URI)
    assert rig.drained == []
    rig.advance(0.002)
    assert rig.drained == [URI]
    assert rig.offer() == [Admission.ADMITTED]
    rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.CLOSED
    rig.dispatcher.probe(URI)
    rig.dispatcher.probe(OTHER)


def test_a_probe_that_was_not_made_proves_no_life(rig):
    """Nor death: the next attempt is the probe, at once."""
    rig.script = lambda _event, _destination: Step(TransportError("refused", "x"), 0.01)
    rig.offer(10)
    rig.advance(0.2)
    assert rig.queue().breaker is BreakerState.OPEN
    rig.script = lambda _event, _destination: Step(TransportError("credential-expired", ""), 0.01)
    rig.advance(1.0)
    rig.offer()
    rig.advance(0.02)
    assert rig.queue().breaker is BreakerState.HALF_OPEN
    rig.script = lambda _event, _destination: Step(Reply(204, None, None, b""), 0.01)
    assert rig.offer() == [Admission.ADMITTED]
    rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.CLOSED


def test_an_unusable_destination_fails_and_may_be_tried_again(rig):
    """The transport is not asked; the reason is told."""
    to = Destination(URI, unusable="the key is lost")
    assert rig.dispatcher.offer(rig.task(), to) is Admission.ADMITTED
    assert rig.attempts == []
    rig.advance(0.1)
    (attempt,) = rig.attempts
    assert attempt.answer.reason == "unreadable-settings"
    assert attempt.answer.retryable
    assert "the key is lost" in str(attempt.answer)
    (queue,) = rig.dispatcher.queues()  # of its own: it tells nothing of the sink
    assert (queue.uri, queue.in_flight) == (f"(not sent) {URI}", 0)
