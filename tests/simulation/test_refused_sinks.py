"""Sinks that the operator's settings refuse: their events wait, and become no dead letters."""

import dataclasses

import pytest

from distributary.core.errors import TransportError
from distributary.core.policy import Reply
from distributary.testing.scripted_transport import Step
from kit.simulation.partition import replies

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
BACK = "http://reply.example/"
REFUSED = TransportError("blocked-address", "10.0.0.1 is in 10.0.0.0/8, which is not allowed")
LONG_S = 300.0
"""Five looks at what is refused, and a hundred times what all retries of the policy take."""


def refused(_chance):
    """A sink that a setting refuses: nothing is dialled."""
    return Step(REFUSED, taken=False)


def dead_letters(partition):
    """Outcomes that are not deliveries."""
    return [fate.final for fate in partition.checker.fates() if fate.final != "delivered"]


def test_a_refused_sink_is_backfilled_and_makes_no_dead_letter(partition):
    """More than one match waits, one warning is given, and all is delivered once it may be."""
    partition.put_route("r", A)
    partition.put_route("other", B)
    partition.sinks[A] = refused
    partition.start()
    for _ in range(40):
        partition.publish("t")
        partition.advance(1.0)
    partition.advance(LONG_S)
    assert partition.store.kept_backfills
    assert not [
        fate for fate in partition.checker.fates() if fate.final in ("kept", "dead-lettered")
    ]
    partition.rollover()
    partition.start()
    partition.advance(100.0)
    warned = [fields for event, fields in partition.warnings if event == "sink-refused"]
    assert [fields["route"] for fields in warned] == ["r"]
    del partition.sinks[A]
    partition.rest()
    assert dead_letters(partition) == []


def test_a_refused_dead_letter_sink_waits_as_well(partition):
    """A dead letter that a setting keeps from its sink is not kept instead: it goes when it may."""
    partition.put_route("r", A, dead_letter=DEAD)
    partition.sinks[A] = lambda _chance: Step(
        TransportError("protocol", "never", retryable=False), taken=False
    )
    partition.sinks[DEAD] = refused
    partition.start()
    for _ in range(3):
        partition.publish("t")
    partition.advance(LONG_S)
    assert {fate.final for fate in partition.checker.fates()} == {None}
    del partition.sinks[DEAD]
    partition.rest()
    assert dead_letters(partition) == ["dead-lettered"] * 3


def test_what_a_changed_target_no_longer_refuses_is_sent_at_once(partition):
    """Rows, what is behind the open breaker, and a backfill; another route's still wait."""
    partition.put_route("r", A)
    partition.put_route("other", B)
    partition.sinks[A] = partition.sinks[B] = refused
    partition.start()
    partition.publish("t")
    partition.advance(2.0)
    (row,) = (row for row in partition.store.kept_rows.values() if row.key.route == "r")
    assert row.not_before_ms > partition.clock.wall_ms() + 50_000
    for _ in range(40):
        partition.publish("t")
        partition.advance(0.1)
    assert {name for name, _ in partition.store.kept_backfills} == {"r", "other"}
    partition.advance(LONG_S + 10.0)  # by now the breaker pauses half a minute
    del partition.sinks[A]
    partition.put_route("r", A)
    partition.advance(2.0)
    fates = {(fate.route, fate.final) for fate in partition.checker.fates()}
    assert fates == {("r", "delivered"), ("other", None)}
    del partition.sinks[B]
    partition.rest()
    assert dead_letters(partition) == []


def test_an_echo_at_its_end_is_dropped_and_makes_no_dead_letter(partition):
    """An event that has come back often enough ends there, with the reason."""
    partition.put_route("r", A, dead_letter=DEAD)
    end = TransportError("hop-limit", "often enough", retryable=False)
    partition.sinks[A] = lambda _chance: Step(end, taken=False)
    partition.start()
    partition.publish("t")
    partition.advance(2.0)
    (dropped,) = [fields for event, fields in partition.warnings if event == "dropped"]
    assert dropped["reason"] == "hop-limit"
    assert not [uri for _, _, uri in partition.sends if uri == DEAD]
    partition.rest()


@pytest.mark.parametrize("kept", [False, True], ids=["subscription", "trigger"])
def test_a_refused_destination_of_replies_uses_up_no_attempt(partition, kept):
    """Its deliveries wait, are made anew now and then, and are done once replies may go there."""
    partition.put_route("r", A, dead_letter=DEAD, reply=BACK, reply_kept=kept)
    partition.sinks[A] = replies()
    partition.sinks[BACK] = refused
    partition.start()
    partition.publish("t")
    partition.advance(LONG_S)
    made = [uri for _, _, uri in partition.sends]
    assert made.count(DEAD) == 0
    assert 4 <= made.count(A) <= 6  # one a minute
    assert {row.attempt for row in partition.store.kept_rows.values()} == {1}
    warned = [fields for event, fields in partition.warnings if event == "sink-refused"]
    assert [fields["route"] for fields in warned] == ["r"]
    del partition.sinks[BACK]
    partition.rest()
    assert dead_letters(partition) == []


@pytest.mark.parametrize("never", ["refused", "unusable"])
@pytest.mark.parametrize("outage_s", [0, 30])
def test_what_is_never_sent_keeps_nobody_else_from_the_sink(make_partition, never, outage_s):
    """Its attempts were the probes of the sink that both have, which failed each time."""
    partition = make_partition(seed=9)
    partition.put_route("good", A, types=["g"])
    partition.put_route("bad", A, types=["b"])
    now = partition.targets.now["bad"]
    sink = dataclasses.replace(now.sink, **{never: "its secret is missing"})
    partition.targets.put("bad", dataclasses.replace(now, sink=sink))
    partition.start()
    good = []

    def flow(seconds):
        for second in range(seconds):
            partition.publish(*["b"] * 5)
            if second % 5 == 0:
                good.extend(partition.publish("g"))
            partition.advance(1.0)

    flow(60)
    partition.sinks[A] = lambda _chance: Step(Reply(503, None, None, b""), 0.01)
    flow(outage_s)
    del partition.sinks[A]
    flow(60)
    partition.advance(1.0)
    assert set(good) == {event for _, event, to in partition.sends if to == A}
