"""Queues of targets that must consent: nothing starts before, and rates are kept."""

import itertools

import pytest

from distributary.core.deliver import Admission, BreakerState, Destination
from distributary.core.deliver.consent import Consent
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

URI = "http://sink.example/"
NAME = f"consent of {URI}"
WAITS = Destination(URI, consent=Consent(given=False))
GIVEN = Destination(URI, consent=Consent(given=True, origin="events.example.com"))


def rig_step(status):
    """An answer at once."""
    return Step(Reply(status, None, None, b""), 0.0)


def paced(rate_per_min, **policy):
    """A destination that allows so many requests a minute here."""
    consent = Consent(given=True, origin="o", rate_per_s=rate_per_min / 60)
    return Destination(URI, consent=consent, policy=DeliveryPolicy(**policy))


def test_nothing_is_admitted_without_consent(rig):
    """New tasks and retries are refused as by an open breaker; no attempt is made."""
    assert rig.dispatcher.offer(rig.task(), WAITS) is Admission.OPEN
    assert rig.dispatcher.offer_retry(rig.task(), WAITS) is Admission.OPEN
    rig.advance(3600.0)
    assert rig.attempts == []
    assert rig.dispatcher.take_queued(NAME) == []


def test_its_queue_is_seen_and_ends(rig):
    """An open one, without tasks; dropped when nothing is offered for a while."""
    rig.dispatcher.offer(rig.task(), WAITS)
    state = rig.queue(NAME)
    assert (state.breaker, state.queued, state.in_flight) == (BreakerState.OPEN, 0, 0)
    assert rig.dispatcher.is_open(NAME)
    assert rig.dispatcher.cut_off() == []
    rig.advance(200.0)
    assert rig.queue(NAME) is None


def test_consent_does_not_wait_for_a_breaker(rig):
    """With it the destination has a queue of its own, which is closed and empty."""
    rig.dispatcher.offer(rig.task(), WAITS)
    assert rig.dispatcher.offer(rig.task(), GIVEN) is Admission.ADMITTED
    rig.advance(0.1)
    assert len(rig.attempts) == 1


def test_a_rate_limit_does_not_hide_the_missing_consent(rig):
    """The queue of a subscription with a limit would admit tasks."""
    limited = Destination(
        URI, policy=DeliveryPolicy(rate_limit_per_s=5.0), paced_by="a", consent=WAITS.consent
    )
    assert limited.queue == NAME
    assert rig.dispatcher.offer(rig.task(), limited) is Admission.OPEN


@pytest.mark.parametrize("rate_per_min", [1, 30, 120])
def test_the_allowed_rate_is_kept(rig, rate_per_min):
    """Never more starts in any minute, whatever is offered, retries and their answers included."""
    starts = []

    def script(_event, _destination):
        starts.append(rig.now_s)
        return rig_step(503 if len(starts) % 3 else 204)

    rig.script = script
    to = paced(rate_per_min)
    for _ in range(400):
        rig.dispatcher.offer(rig.task(), to)
    rig.advance(1200.0)
    assert len(starts) >= min(15 * rate_per_min, 300)
    for first in starts:
        within = [at_s for at_s in starts if first <= at_s < first + 60.0 - 1e-6]
        assert len(within) <= rate_per_min


def test_the_rate_is_the_targets_not_the_subscriptions(rig):
    """Two subscriptions share what it allows; one with a limit of its own keeps both."""
    starts = []
    rig.script = lambda _event, _destination: starts.append(rig.now_s) or rig_step(204)
    for name in ("a", "b"):
        consent = Consent(given=True, origin="o", rate_per_s=1.0)
        policy = DeliveryPolicy(rate_limit_per_s=50.0)
        to = Destination(URI, consent=consent, policy=policy, paced_by=name)
        for _ in range(30):
            rig.dispatcher.offer(rig.task(), to)
    rig.advance(30.0)
    assert 28 <= len(starts) <= 31
    assert all(later - earlier > 0.99 for earlier, later in itertools.pairwise(starts))


def test_other_sinks_are_not_paced(rig):
    """Each target has its own rate."""
    for _ in range(50):
        rig.dispatcher.offer(rig.task(), paced(1))
    rig.offer(50, uri="http://other.example/")
    rig.advance(1.0)
    sinks = [attempt.sink for attempt in rig.attempts]
    assert sinks.count("http://other.example/") == 50
    assert sinks.count(URI) == 1
