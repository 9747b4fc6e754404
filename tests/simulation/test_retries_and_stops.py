"""Retries, dead letters and rule 7 (stopping), each broken on purpose."""

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.engine.machine import Engine
from distributary.core.errors import StoreError
from distributary.core.flow import Stage
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.partitions import _runs
from kit.simulation.partition import answers, hangs

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
STEADY = DeliveryPolicy(
    retry=3, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=2.0, timeout_s=1.0
)
PATIENT = DeliveryPolicy(retry=50, backoff_delay_s=3_000.0, backoff_max_s=3_600.0)


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


# -- retries and dead letters -------------------------------------------------------------------


def test_a_retry_row_survives_a_restart_and_keeps_its_attempt_number(partition):
    """The next owner makes attempt 3, when it is due."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(3.5)
    partition.crash()
    partition.start()
    partition.advance(30.0)
    fate = partition.checker.fate(event, "r")
    assert fate.numbers[Stage.PRIMARY] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    assert fate.final == "kept"
    partition.rest()


def test_the_dead_letter_stage_survives_a_restart(partition):
    """What failed at its sink is not tried there again; its dead letter tells why it failed."""
    partition.put_route("r", A, dead_letter=DEAD, policy=STEADY)
    partition.sinks[A] = answers(400, body=b"bad")
    partition.sinks[DEAD] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    (row,) = partition.store.kept_rows.values()
    assert (row.stage, row.failure.code, row.failure.dest) == (Stage.DEAD_LETTER, 400, A)
    partition.crash()
    partition.sinks[DEAD] = answers()
    partition.start()
    partition.rest()
    assert arrivals(partition, A) == [event]
    assert partition.checker.fate(event, "r").final == "dead-lettered"


@pytest.mark.parametrize("dead_letter", [None, DEAD], ids=["absent", "failing"])
def test_what_nobody_takes_is_kept_in_the_store(partition, dead_letter):
    """Never dropped because of a sink: it can be redriven."""
    partition.put_route("r", A, dead_letter=dead_letter, policy=STEADY)
    partition.sinks[A] = partition.sinks[DEAD] = answers(500)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(60.0)
    (kept,) = partition.store.all_dead_letters.values()
    assert kept.failure.dest == (dead_letter or A)
    assert partition.checker.fate(event, "r").final == "kept"
    partition.rest()


def test_a_dead_letter_sink_that_is_taken_away_leaves_its_dead_letters_in_the_store(partition):
    """The dead letter waited for an attempt that can no longer be made."""
    partition.put_route("r", A, dead_letter=DEAD, policy=STEADY)
    partition.sinks[A] = answers(400)
    partition.sinks[DEAD] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    partition.put_route("r", A, policy=STEADY)
    partition.advance(5.0)
    assert partition.checker.fate(event, "r").final == "kept"
    partition.rest()


@pytest.mark.parametrize("days", [-1, 1])
def test_a_wall_clock_that_jumps_a_day_neither_hurries_nor_stalls_retries(partition, days):
    """Waits are of the monotonic clock; after a restart no wait is longer than its policy's."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(0.5)
    partition.clock.jump(days * 86_400_000)
    partition.advance(1.0)
    assert len(arrivals(partition, A)) == 1
    partition.advance(1.5)
    assert len(arrivals(partition, A)) == 2
    partition.clock.jump(days * 86_400_000)
    partition.crash()
    partition.sinks.clear()
    partition.start()
    partition.advance(STEADY.backoff_max_s * 1.2 + 1.0)
    assert partition.checker.fate(event, "r").final == "delivered"


def test_retries_on_demand_take_turns_and_are_durable_one_by_one(make_partition, monkeypatch):
    """However often they are asked for: a loop that they held would be killed, and begin anew."""
    monkeypatch.setattr(_runs, "UNWRITTEN_MAX", 1)
    partition = make_partition(seed=3)
    routes = ["q", "r", "s"]
    for route in routes:
        partition.put_route(route, f"http://{route}.example/", policy=PATIENT)
        partition.sinks[f"http://{route}.example/"] = answers(404)
    partition.start()
    events = [event for _ in range(4) for event in partition.publish("t")]
    partition.advance(30.0)
    seqs = range(1, 1 + 3 * 100)
    made, in_this_turn, retry_now = [], [], Engine.retry_now

    def watched(engine, route):
        assert in_this_turn == []
        ended = [run for run in partition.store.runs(seqs).values() if run.done]
        assert len(ended) == 100 * len(made)
        partition.timers.call_later(0.0, in_this_turn.clear)
        in_this_turn.append(route)
        made.append(route)
        return retry_now(engine, route)

    monkeypatch.setattr(Engine, "retry_now", watched)
    for _ in range(100):
        for route in routes:
            partition.targets.ask("retry", route)
    partition.advance(5.0)
    assert made == routes
    runs = partition.store.runs(seqs)
    assert {(run.done, run.handled, run.total) for run in runs.values()} == {(True, 4, 4)}
    assert len([name for name, _ in partition.reports if name == "retry-done"]) == len(runs) == 300
    assert arrivals(partition, "http://q.example/") == events * 2


def test_a_dry_retry_counts_those_of_its_route_alone(make_partition):
    """And not of one whose name holds this one's."""
    partition = make_partition(seed=3)
    for route, kind, count in (("r", "t", 2), ("rr", "u", 3)):
        partition.put_route(route, A, types=[kind], policy=PATIENT)
        for _ in range(count):
            partition.publish(kind)
    partition.sinks[A] = answers(404)
    partition.start()
    partition.advance(5.0)
    partition.targets.ask("retry", "rr", DemandDetails(dry=True))
    partition.targets.ask("retry", "rr")
    partition.targets.ask("retry", "r", DemandDetails(dry=True))
    partition.advance(5.0)
    found = partition.store.runs([1, 2, 3])
    assert [found[seq].handled for seq in (1, 2, 3)] == [3, 3, 2]
    assert len(arrivals(partition, A)) == 2 + 2 * 3


# -- rule 7: stopping ---------------------------------------------------------------------------


def test_a_drain_starts_nothing_and_makes_everything_durable(partition):
    """Attempts under way are waited for; the next owner has what waits, is queued or backfilled."""
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=0, timeout_s=5.0))
    partition.put_route("fast", B)
    partition.sinks[A] = answers(after_s=0.5)
    partition.start()
    for _ in range(40):
        partition.publish("t")
    partition.advance(1.0)
    assert partition.store.kept_backfills
    sent = len(partition.sends)
    assert partition.rollover(5.0) == 0
    assert len(partition.sends) == sent
    assert partition.checker.undurable_count == 0
    partition.start()
    partition.rest()


def test_a_retry_that_was_asked_for_before_a_drain_begins_nothing_in_it(make_partition):
    """Its look-up comes back from the thread once everything has stopped."""
    partition = make_partition(seed=3)
    partition.put_route("r", A, types=["t"], policy=PATIENT)
    partition.put_route("slow", B, types=["u"])
    partition.sinks[A], partition.sinks[B] = answers(404), answers(after_s=2.0)
    partition.start()
    for _ in range(5):
        partition.publish("t")
    partition.advance(30.0)
    partition.sinks[A] = answers()
    (slow,) = partition.publish("u")
    partition.advance(0.1)
    partition.targets.ask("retry", "r")
    while not partition.store.runs([1]):
        partition.advance(0.001)
    assert partition.rollover(5.0) == 0
    assert partition.sends[-1][1] == slow
    partition.start()
    partition.advance(2.0)
    assert len(arrivals(partition, A)) == 2 * 5
    partition.rest()


def test_a_drain_ends_at_its_deadline(partition):
    """What has no answer by then is left without an outcome, as after a crash."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=0, timeout_s=60.0))
    partition.sinks[A] = hangs
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(0.5)
    assert partition.rollover(0.2) == 1
    partition.sinks.clear()
    partition.start()
    partition.rest()
    assert arrivals(partition, A) == [event, event]
    assert partition.checker.fate(event, "r").final == "delivered"


def test_a_medium_that_fails_during_the_drain_is_told(partition):
    """The owner ends all the same; its outcomes do not count, and that is no secret."""
    partition.put_route("r", A)
    partition.sinks[A] = answers(after_s=0.3)
    partition.start()
    partition.publish("t")
    partition.advance(0.1)
    partition.files.failing = True
    partition.rollover(5.0)
    assert [type(error) for error in partition.failures] == [StoreError]
    partition.files.failing = False
    partition.start()
    partition.rest()
