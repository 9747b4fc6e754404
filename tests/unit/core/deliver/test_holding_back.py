"""When queues hold back: breaker, ``Retry-After``, rate limit, lease; in virtual time."""

import itertools

import pytest

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


def test_opens_the_breaker_after_failures_in_a_row(rig):
    """Ten in a row: nothing starts, new tasks are refused."""
    rig.script = steps(REFUSED)
    rig.offer(100)
    rig.advance(0.1)
    failed = len(rig.attempts)
    assert 10 <= failed <= 14
    assert rig.queue().breaker is BreakerState.OPEN
    assert rig.offer() == [Admission.OPEN]
    rig.advance(0.1)
    assert len(rig.attempts) == failed


def test_probes_a_dead_sink_less_and_less_often(rig):
    """Pauses double from 0.25 s to 30 s, lengthened by at most 20 %, never beyond 30 s."""
    starts = []

    def script(_event, _destination):
        starts.append(rig.now_s)
        return Step(REFUSED, 0.0)

    rig.script = script
    rig.offer(200)
    rig.advance(400.0)
    waits = [b - a for a, b in itertools.pairwise(starts[10:]) if b - a > 0.1]
    for wait, least in zip(waits, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=False):
        assert least <= wait + 0.01
        assert wait <= min(least * 1.2, 30) + 0.01
    assert len(waits) > 8


def test_a_probe_that_succeeds_closes_the_breaker(rig):
    """The queue goes out, concurrency begins with one and doubles, and room is told."""
    rig.script = steps(REFUSED)
    rig.offer(30)
    rig.advance(0.1)
    assert rig.offer() == [Admission.OPEN]
    rig.script = steps(reply(204))
    rig.advance(5.0)
    assert rig.queue().breaker is BreakerState.CLOSED
    assert rig.queue().queued == 0
    assert rig.drained == [URI]


def test_asks_for_a_task_to_probe_with_when_it_has_none(rig):
    """An empty queue whose breaker is open calls ``on_drained``, and takes one task."""
    rig.script = steps(REFUSED)
    rig.offer(10)
    rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.OPEN
    assert rig.offer() == [Admission.OPEN]
    rig.advance(1.0)
    assert rig.drained == [URI]
    assert rig.offer(2) == [Admission.ADMITTED, Admission.OPEN]


@pytest.mark.parametrize("status", [400, 401, 404, 410, 301, 408])
def test_a_sink_that_says_no_is_alive(rig, status):
    """Answers that are about the event do not open the breaker."""
    rig.script = steps(reply(status))
    rig.offer(100)
    rig.advance(10.0)
    assert len(rig.attempts) == 100
    assert rig.queue().breaker is BreakerState.CLOSED


def test_a_blocked_address_piles_nothing_up(rig):
    """No later attempt can succeed, so each task gets its answer at once."""
    rig.script = steps(TransportError("blocked-address", "no", retryable=False))
    rig.offer(100)
    rig.advance(10.0)
    assert len(rig.attempts) == 100


def test_a_flapping_sink_gets_everything_with_few_extra_attempts(rig):
    """S12: at 50 % errors the mean of attempts per event stays below 2.2."""
    flips = iter(range(10**6))
    rig.script = lambda _event, _destination: Step(
        reply(500) if (next(flips) * 2654435761 >> 8) % 2 else reply(204), 0.01
    )
    waiting, delivered, attempts = 2000, 0, 0
    while delivered < 2000:
        while waiting and rig.offer() == [Admission.ADMITTED]:
            waiting -= 1
        rig.advance(0.01)
        for attempt in rig.attempts:
            attempts += 1
            ok = attempt.answer.status == 204
            delivered += ok
            waiting += not ok
        rig.attempts.clear()
        assert rig.now_s < 600
    assert attempts / 2000 <= 2.2


@pytest.mark.parametrize("status", [429, 503])
def test_starts_nothing_before_retry_after_has_passed(rig, status):
    """S5: the sink said when; its queue waits."""
    starts = []
    answers = [reply(status, "7")]

    def script(_event, _destination):
        starts.append(rig.now_s)
        return Step(answers.pop() if answers else reply(204), 0.01)

    rig.script = script
    rig.offer(20)
    rig.advance(60.0)
    late = [start for start in starts if start > 0.01]
    assert min(late) >= 7.01
    assert len(rig.attempts) == 20


def test_a_sink_whose_answers_must_be_cut_off_gets_few_attempts(rig):
    """S3: each costs a connection and as many bytes as are ever read; the other sinks pay too."""
    rig.script = steps(Reply(200, None, None, b"", cut=True))
    rig.offer(1_000)
    rig.advance(1.0)
    assert 15 <= len(rig.attempts) <= 30
    assert rig.queue().concurrency == 1
    assert rig.queue().breaker is BreakerState.CLOSED
    assert all(attempt.answer.status == 200 for attempt in rig.attempts)


def test_caps_retry_after_by_the_policy(rig):
    """S5: a sink cannot ask for more than the subscriber's longest wait."""
    rig.script = steps(reply(503, "1000000000"), reply(204))
    rig.offer(10, backoff_max_s=5.0)
    rig.advance(1.0)
    assert rig.queue().held_s == pytest.approx(4.01)
    rig.advance(5.0)
    assert len(rig.attempts) == 10


@pytest.mark.parametrize("value", ["-1", "abc", "", None, "Fri, 31 Dec 1999 23:59:59 GMT", "0"])
def test_ignores_a_retry_after_that_asks_for_nothing(rig, value):
    """S5: garbage, zero and the past hold nothing up."""
    rig.script = steps(reply(503, value), reply(204))
    rig.offer(3)
    rig.advance(0.1)
    assert len(rig.attempts) == 3
    assert rig.queue().held_s == 0.0


def test_a_flood_of_503_without_end_costs_few_requests(rig):
    """S5: with ``Retry-After: 1`` and a breaker, an hour's storm is a trickle."""
    rig.script = steps(reply(503, "1"))
    rig.offer(1000)
    rig.advance(60.0)
    assert len(rig.attempts) < 20


@pytest.mark.parametrize("rate", [1.0, 10.0, 300.0])
def test_keeps_the_rate_limit(rig, rate):
    """In any second at most the rate, a tenth of it ahead, and one."""
    starts = []

    def script(_event, _destination):
        starts.append(rig.now_s)
        return Step(after_s=0.001)

    rig.script = script
    rig.offer(int(rate * 3), rate_limit_per_s=rate)
    rig.advance(10.0)
    assert len(starts) == int(rate * 3)
    for first in starts:
        within = [start for start in starts if first <= start < first + 1.0]
        assert len(within) <= rate * 1.1 + 1
    assert starts[-1] == pytest.approx(3.0, abs=1.3 / rate + 0.2)


def paced(rate, owner="limited"):
    """The sink as a subscription with a rate limit asks for it."""
    return Destination(URI, policy=DeliveryPolicy(rate_limit_per_s=rate), paced_by=owner)


def offer_to(rig, destination, count):
    """What came of offering so many tasks there."""
    return [rig.dispatcher.offer(rig.task(), destination) for _ in range(count)]


def test_a_rate_limit_holds_up_its_own_subscription_alone(rig):
    """Another subscription of the same sink gets 500 events while the limited one gets one."""
    offer_to(rig, paced(1.0), 100)
    rig.offer(500)
    rig.advance(1.0)
    ids = [int(attempt.task.event.attributes["id"]) for attempt in rig.attempts]
    assert sorted(ids)[2:] == list(range(101, 601))
    assert sorted(ids)[:2] == [1, 2]


def test_each_subscription_has_its_own_pace(rig):
    """Two limits at one sink are kept side by side."""
    offer_to(rig, paced(1.0, "slow"), 50)
    offer_to(rig, paced(10.0, "quick"), 50)
    rig.advance(3.85)
    ids = [int(attempt.task.event.attributes["id"]) for attempt in rig.attempts]
    assert len([number for number in ids if number <= 50]) == 4
    assert 38 <= len([number for number in ids if number > 50]) <= 41


def test_a_limited_subscription_gets_its_turn_at_a_sink_that_is_never_idle(rig):
    """What others have waiting does not stand before it: its pace is kept."""
    rig.script = lambda event, _destination: Step(
        after_s=0.5 + int(event.attributes["id"]) % 50 / 100
    )
    offer_to(rig, paced(20.0), 40)
    for _ in range(40):
        rig.offer(500)
        rig.advance(0.25)
    ids = {int(attempt.task.event.attributes["id"]) for attempt in rig.attempts}
    assert set(range(1, 41)) <= ids


def test_a_fast_rate_leaves_the_others_their_turn(rig):
    """A limit above what the sink takes is no right to the whole sink."""
    rig.script = lambda _event, _destination: Step(after_s=1.0)
    offer_to(rig, paced(1e6), 4_000)
    rig.offer(4_000)
    rig.advance(20.0)
    ids = [int(attempt.task.event.attributes["id"]) for attempt in rig.attempts]
    assert len([number for number in ids if number > 4_000]) == pytest.approx(len(ids) / 2, rel=0.1)


def test_a_new_rate_counts_at_once(rig):
    """After one attempt in a million seconds, 10 a second begin with the next tenth."""
    offer_to(rig, paced(1e-6), 3)
    rig.advance(5.0)
    assert len(rig.attempts) == 1
    waiting = rig.dispatcher.take_queued(paced(1e-6).queue)
    for task in waiting:
        rig.dispatcher.offer(task, paced(10.0))
    rig.advance(0.35)
    assert len(rig.attempts) == 3


def test_what_waits_for_its_pace_shares_breaker_and_retry_after_of_the_sink(rig):
    """The pace is the subscription's, the sink's state is everybody's."""
    rig.script = steps(reply(503, "30"))
    rig.offer(1)
    rig.advance(0.1)
    assert rig.queue().held_s > 29.0
    rig.script = steps(reply(204))
    assert offer_to(rig, paced(100.0), 1) == [Admission.ADMITTED]
    assert rig.queue(paced(100.0).queue).held_s > 29.0
    rig.advance(10.0)
    assert len(rig.attempts) == 1
    rig.advance(25.0)
    assert len(rig.attempts) == 2


def test_a_limited_subscription_hears_when_the_breaker_lets_go(rig):
    """It was refused, and is told by its own name."""
    rig.script = steps(REFUSED)
    rig.offer(30)
    rig.advance(0.1)
    rig.dispatcher.take_queued(URI)
    assert offer_to(rig, paced(100.0), 1) == [Admission.OPEN]
    rig.advance(5.0)
    assert paced(100.0).queue in rig.drained


def test_a_pace_is_not_forgotten_while_it_holds_back(rig):
    """A limit of one an hour holds although nobody uses the sink in between."""
    offer_to(rig, paced(1 / 3600), 1)
    rig.advance(1000.0)
    offer_to(rig, paced(1 / 3600), 1)
    rig.advance(1000.0)
    assert len(rig.attempts) == 1
    rig.advance(2000.0)
    assert len(rig.attempts) == 2
    rig.timers.run_until_idle()
    assert rig.dispatcher.queues() == []


def test_remembers_a_dead_sink_longer(rig):
    """What an open breaker knows is worth keeping."""
    rig.script = steps(REFUSED)
    rig.offer(10)
    rig.advance(200.0)
    assert rig.queue().breaker is BreakerState.HALF_OPEN
    rig.advance(700.0)
    assert rig.queue() is None


def test_begins_gently_when_a_sink_is_back(rig):
    """After an open breaker: one attempt, the probe, then two, four, eight."""
    rig.offer(1000)
    rig.advance(0.05)
    rig.script = steps(REFUSED)
    rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.OPEN
    rig.script = steps(reply(204))
    while rig.queue().breaker is not BreakerState.CLOSED:
        rig.advance(0.001)
    seen = []
    for _ in range(4):
        seen.append(rig.queue().in_flight)
        rig.advance(0.01)
    assert seen == [2, 4, 8, 16]


def test_an_earlier_reason_to_wake_replaces_a_later_one(rig):
    """A queue has one timer, and it is the first that is due."""
    rig.offer(1)
    rig.advance(1.0)
    queue = rig.dispatcher._queues[URI]
    queue._wake_at(100.0, 1.0)
    queue._wake_at(3.0, 1.0)
    queue._wake_at(50.0, 1.0)
    assert queue._timer_at_s == 3.0
    rig.advance(2.5)
    assert queue._timer is None


def test_asks_for_a_probe_after_its_queue_was_taken_away(rig):
    """A route that is backfilled because the breaker opened hears when the sink can be tried."""
    rig.script = steps(REFUSED)
    rig.offer(30)
    rig.advance(0.1)
    assert rig.queue().breaker is BreakerState.OPEN
    assert rig.dispatcher.take_queued(URI)
    rig.advance(0.01)
    assert rig.drained == []
    rig.advance(1.0)
    assert rig.drained == [URI]
    assert rig.offer() == [Admission.ADMITTED]


def test_who_is_about_to_end_starts_nothing_within_a_hold(rig):
    """Another owner may have the partition: that the session is to end gives it no attempt."""
    rig.dispatcher.hold("lease")
    rig.dispatcher.begin_drain(0.5)
    rig.offer(3)
    rig.advance(1.0)
    assert rig.dispatcher.in_flight == len(rig.attempts) == 0
    rig.dispatcher.go_on("lease")
    rig.advance(1.0)
    assert len(rig.attempts) == 3
