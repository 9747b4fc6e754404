"""Targets that have not consented: their events wait, nothing is sent, and nothing is lost."""

import dataclasses

import pytest

from distributary.core.deliver.consent import AWAITS_CONSENT, Consent
from distributary.core.errors import TransportError
from distributary.core.outcome import read_failing
from distributary.testing.scripted_transport import Step
from kit.simulation.sinks import replies

A, B, DEAD, REPLY = (
    "http://a.example/",
    "http://b.example/",
    "http://dead.example/",
    "http://reply.example/",
)
LONG_S = 600.0
WAITS = Consent(given=False)
GIVEN = Consent(given=True, origin="events.example.com")


def say(partition, consent, *, way="sink", route="r"):
    """What the control process would have stored."""
    target = partition.targets.now[route]
    there = dataclasses.replace(getattr(target, way), consent=consent)
    partition.targets.put(route, dataclasses.replace(target, **{way: there}))


def sent_to(partition, uri):
    """Attempts at this sink."""
    return [sink for _, _, sink in partition.sends if sink == uri]


def finals(partition):
    """Outcomes so far."""
    return [fate.final for fate in partition.checker.fates()]


@pytest.mark.parametrize("crash", [False, True], ids=["", "over crashes"])
def test_events_wait_for_consent_and_are_all_delivered(partition, crash):
    """No attempt, no dead letter, no warning; the status says why, and another sink is served."""
    partition.put_route("r", A)
    partition.put_route("other", B)
    say(partition, WAITS)
    partition.start()
    for _ in range(20):
        partition.publish("t")
        partition.advance(1.0)
    if crash:
        partition.crash()
        partition.start()
    partition.advance(LONG_S)
    assert sent_to(partition, A) == []
    assert finals(partition).count("delivered") == 20
    assert finals(partition).count(None) == 20
    assert partition.warnings == []
    say(partition, GIVEN)
    partition.rest()
    assert set(finals(partition)) == {"delivered"}
    assert len(sent_to(partition, A)) == 20


def test_a_status_says_what_is_waited_for(partition, tmp_path):
    """As for an open breaker, with another reason; over with the first delivery."""
    partition.put_route("r", A)
    say(partition, WAITS)
    partition.start()
    partition.publish("t")
    partition.advance(5.0)
    (row,) = read_failing(tmp_path / "failing.json")
    assert (row.route, row.reason, row.dest) == ("r", AWAITS_CONSENT, A)
    say(partition, GIVEN)
    partition.rest()
    partition.advance(5.0)
    assert read_failing(tmp_path / "failing.json") == []


def test_the_first_event_follows_the_consent_at_once(partition):
    """It does not wait for the end of a breaker's pause."""
    partition.put_route("r", A)
    say(partition, WAITS)
    partition.start()
    partition.publish("t")
    partition.advance(LONG_S)
    say(partition, GIVEN)
    partition.advance(1.0)
    assert finals(partition) == ["delivered"]


def test_withdrawn_consent_stops_what_was_queued_and_what_is_retried(partition):
    """Until it is given again; attempts of the policy are not used up by waiting."""
    partition.put_route("r", A)
    say(partition, GIVEN)
    down = TransportError("refused", "nobody there")
    partition.sinks[A] = lambda _chance: Step(down, taken=False)
    partition.start()
    for _ in range(50):
        partition.publish("t")
    partition.advance(0.05)
    say(partition, WAITS)
    partition.advance(1.0)
    before = len(sent_to(partition, A))
    for _ in range(10):
        partition.publish("t")
    partition.advance(LONG_S)
    assert len(sent_to(partition, A)) == before
    assert set(finals(partition)) == {None}
    del partition.sinks[A]
    say(partition, GIVEN)
    partition.rest()
    assert set(finals(partition)) == {"delivered"}


def test_a_dead_letter_waits_for_the_consent_of_its_sink(partition):
    """It is neither kept instead nor given up."""
    partition.put_route("r", A, dead_letter=DEAD)
    say(partition, WAITS, way="dead_letter")
    never = TransportError("protocol", "never", retryable=False)
    partition.sinks[A] = lambda _chance: Step(never, taken=False)
    partition.start()
    for _ in range(3):
        partition.publish("t")
    partition.advance(LONG_S)
    assert (sent_to(partition, DEAD), set(finals(partition))) == ([], {None})
    say(partition, GIVEN, way="dead_letter")
    partition.rest()
    assert finals(partition) == ["dead-lettered"] * 3


def test_a_subscription_that_is_counted_waits_as_well(partition):
    """Reservations are for deliveries that follow."""
    partition.put_route("r", A, events_max=5)
    say(partition, WAITS)
    partition.start()
    for _ in range(10):
        partition.publish("t")
    partition.advance(LONG_S)
    assert sent_to(partition, A) == []
    say(partition, GIVEN)
    partition.rest()
    assert finals(partition).count("delivered") == 5


def test_a_deleted_route_waits_for_nothing(partition):
    """What waited for the consent is dropped with it."""
    partition.put_route("r", A)
    say(partition, WAITS)
    partition.start()
    for _ in range(5):
        partition.publish("t")
    partition.advance(10.0)
    partition.delete_route("r")
    partition.rest()
    assert sent_to(partition, A) == []


@pytest.mark.parametrize("crash", [False, True], ids=["", "over crashes"])
def test_a_reply_waits_for_the_consent_of_its_destination(partition, crash):
    """Its delivery is not done before; at most a few sinks' answers wait in memory meanwhile."""
    partition.put_route("r", A, reply=REPLY)
    say(partition, WAITS, way="reply")
    partition.sinks[A] = replies()
    partition.start()
    for _ in range(5):
        partition.publish("t")
        partition.advance(1.0)
    if crash:
        partition.crash()
        partition.start()
    partition.advance(60.0)
    assert (sent_to(partition, REPLY), set(finals(partition))) == ([], {None})
    say(partition, GIVEN, way="reply")
    partition.advance(60.0)
    partition.rest()
    assert set(finals(partition)) == {"delivered"}
    assert len(set(sent_to(partition, REPLY))) == 1
    assert len(sent_to(partition, REPLY)) >= 5
