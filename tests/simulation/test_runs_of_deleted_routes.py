"""Runs of a route that is deleted meanwhile: they end early, and say so."""

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.policy import DeliveryPolicy
from kit.simulation.partition import answers

A, B = "http://a.example/", "http://b.example/"
ONCE = DeliveryPolicy(retry=1, backoff_delay_s=0.1, timeout_s=1.0)
EVENTS = 150


@pytest.fixture
def make(make_partition):
    """Makes a partition whose routes ``r`` and ``q`` have had 150 events."""

    def made(status):
        partition = make_partition(seed=11)
        for route, sink in (("r", A), ("q", B)):
            partition.put_route(route, sink, policy=ONCE)
            partition.sinks[sink] = answers(status)
        partition.start()
        for _ in range(EVENTS):
            partition.publish("t")
        partition.advance(5.0)
        partition.sinks.clear()
        return partition

    return made


def ask(partition, kind, route, **details):
    """Ask the owner for a run; returns the number of its demand."""
    if kind == "replay":
        partition.checker.replayed(route)
    elif kind == "redrive":
        partition.checker.redriven(route)
    partition.targets.ask(kind, route, DemandDetails(**details), partition.clock.wall_ms())
    return partition.targets.asked[-1].seq


def row_of(partition, seq):
    """The progress of a run."""
    return partition.store.runs([seq])[seq]


@pytest.mark.parametrize("halted", [False, True])
def test_a_replay_of_a_deleted_route_ends(make, halted):
    """And so does its run, also where the route was paused before: it held the log for ever."""
    partition = make(200)
    seq = ask(partition, "replay", "r", rate=20.0)
    partition.advance(1.0)
    if halted:
        partition.targets.halt("r")
        partition.advance(1.0)
    partition.delete_route("r")
    partition.advance(10.0)
    row = row_of(partition, seq)
    sent = len([to for _, _, to in partition.sends if to == A]) - EVENTS
    assert (row.done, row.route_deleted, row.passed) == (True, True, 0)
    # A pause makes a row of the next one, which has its outcome apart from the run.
    assert row.handled == sent + halted
    assert 0 < row.handled < EVENTS
    assert "replay-ended-early" in dict(partition.reports)
    partition.rest()


def test_a_replay_that_is_over_stays_so_when_its_route_is_deleted(make):
    """Also for an owner that comes later."""
    partition = make(200)
    seq = ask(partition, "replay", "r")
    partition.advance(30.0)
    partition.delete_route("r")
    partition.advance(1.0)
    partition.crash()
    partition.start()
    partition.advance(5.0)
    assert not row_of(partition, seq).route_deleted
    partition.rest()


def test_a_retry_of_a_deleted_route_ends_early(make):
    """Nothing is made due; one of a route that is there is done."""
    partition = make(200)
    partition.crash()
    seqs = [ask(partition, "retry", route) for route in ("gone", "r")]
    partition.start()
    partition.advance(5.0)
    assert [row_of(partition, seq).route_deleted for seq in seqs] == [True, False]
    partition.rest()


@pytest.mark.parametrize("kind", ["redrive", "purge"])
def test_a_run_of_dead_letters_of_a_deleted_route_ends_early(make, kind):
    """It says so, and how many it has handled; one of all routes goes on without it."""
    partition = make(400)
    seq = ask(partition, kind, "r", rate=20.0)
    partition.advance(2.0)
    partition.delete_route("r")
    partition.advance(2.0)
    row = row_of(partition, seq)
    assert (row.done, row.route_deleted) == (True, True)
    assert 0 < row.handled < EVENTS
    assert f"{kind}-ended-early" in dict(partition.reports)
    partition.checker.redriven("q")
    seq = ask(partition, kind, "")
    partition.advance(30.0)
    row = row_of(partition, seq)
    assert (row.done, row.route_deleted) == (True, False)
    partition.rest()
