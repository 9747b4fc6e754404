"""Dead letters nobody takes: what is given up is told, deletion frees them, whatever crashes."""

import pytest

from distributary.core import outcome
from distributary.core.deliver import Limits
from distributary.core.policy import DeliveryPolicy
from distributary.partitions import _flusher, _unwritten
from kit.simulation import partition as simulation
from kit.simulation.partition import answers, hangs

A, B = "http://a.example/", "http://b.example/"
ONCE = DeliveryPolicy(retry=0, timeout_s=1.0)


def kept(partition):
    """Routes of the dead letters in the store, with how many each has."""
    found = [dead_letter.key.route for dead_letter in partition.store.dead_letters(10_000)]
    return {route: found.count(route) for route in found}


def kept_keys(partition):
    """Matches of the dead letters in the store."""
    return {dead_letter.key for dead_letter in partition.store.dead_letters(10_000)}


def hangs_once(behaviour):
    """A sink whose first attempt hangs."""
    first = iter([hangs])

    def step(chance):
        return next(first, behaviour)(chance)

    return step


def given_up(partition):
    """What was told of dead letters that were given up: how many by route."""
    told = [fields for event, fields in partition.warnings if event == "dead-letters-given-up"]
    routes = [fields["route"] for fields in told]
    return {
        route: sum(fields["count"] for fields in told if fields["route"] == route)
        for route in routes
    }


def test_a_deleted_subscription_takes_its_dead_letters_along(partition):
    """Those of others stay; also where the owner dies before it has deleted them."""
    for route in ("r", "q"):
        partition.put_route(route, A, policy=ONCE)
    partition.sinks[A] = answers(400)
    partition.start()
    for _ in range(20):
        partition.publish("t")
    partition.advance(2.0)
    assert kept(partition) == {"r": 20, "q": 20}
    partition.delete_route("r")
    partition.advance(0.02)
    partition.crash()
    assert kept(partition)["r"] == 20
    partition.start()
    partition.advance(30.0)
    assert kept(partition) == {"q": 20}
    partition.crash()
    partition.delete_route("q")
    partition.start()
    partition.advance(30.0)
    assert kept(partition) == {}
    assert not given_up(partition)
    partition.rest()


def test_what_is_given_up_for_a_budget_is_told(make_partition):
    """The oldest, by route; crashes change nothing, and others lose nothing."""
    partition = make_partition(budgets=outcome.Budgets(route_bytes_max=5_000))
    partition.put_route("r", A, types=["r", "both"], policy=ONCE)
    partition.put_route("q", A, types=["both"], policy=ONCE)
    partition.sinks[A] = answers(400)
    partition.start()
    partition.publish("both")
    for _ in range(10):
        for _ in range(10):
            partition.publish("r")
        partition.advance(0.5)
        partition.crash()
        partition.start()
    partition.advance(1.0)
    left = kept(partition)
    assert left["q"] == 1
    assert 0 < left["r"] < 40
    assert given_up(partition) == {"r": 101 - left["r"]}
    newest = max(dead_letter.key.offset for dead_letter in partition.store.dead_letters(1_000))
    assert newest == partition.log.durable_end() - 1
    partition.rest()


def test_old_dead_letters_are_given_up_and_told(make_partition):
    """A month by default; here an hour."""
    partition = make_partition(budgets=outcome.Budgets(age_max_s=3_600.0))
    partition.put_route("r", A, policy=ONCE)
    partition.sinks[A] = answers(400)
    partition.start()
    partition.publish("t")
    partition.advance(3_000.0)
    partition.publish("t")
    partition.advance(100.0)
    assert kept(partition) == {"r": 2}
    partition.advance(1_000.0)
    assert (kept(partition), given_up(partition)) == ({"r": 1}, {"r": 1})
    partition.rest()


@pytest.mark.parametrize("crashes", [False, True])
def test_a_sink_that_refuses_faster_than_the_disk_writes_waits_for_it(
    make_partition, monkeypatch, crashes
):
    """What waits for a slow disk is bounded, whoever brings it; afterwards nothing is missing."""
    monkeypatch.setattr(simulation, "FLUSH_S_MAX", 0.5)
    monkeypatch.setattr(_unwritten, "UNWRITTEN_BYTES_MAX", 2_000)
    waiting = []

    class Spy(_flusher.Changes):
        def __init__(self):
            super().__init__()
            waiting.append(self.dead_letters)

    monkeypatch.setattr(_flusher, "Changes", Spy)
    partition = make_partition(limits=Limits(in_flight_max=8, in_flight_total_max=8))
    partition.put_route("r", A, policy=ONCE)
    partition.sinks[A] = answers(400)
    partition.start()
    partition.targets.halt("r")
    partition.advance(1.0)
    for _ in range(100):
        partition.publish("t")
    partition.advance(5.0)
    partition.targets.unhalt_all()
    partition.advance(5.0)
    if crashes:
        partition.crash()
        partition.start()
    partition.advance(60.0)
    assert kept(partition) == {"r": 100}
    most = max(sum(len(each.event) for each in letters) for letters in waiting)
    assert 0 < most < 2_000 + 8 * 300
    partition.rest()


@pytest.mark.parametrize("backfilled", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_kill_before_the_journal_leaves_a_letter_as_the_outcome(
    make_partition, backfilled, in_memory
):
    """Its match is not sent again: a sink that answers by then gets it by a redrive, once."""
    partition = make_partition(in_memory=in_memory)
    partition.put_route("r", A, policy=DeliveryPolicy(retry=0, timeout_s=5.0))
    partition.sinks[A] = hangs if backfilled else answers(400)
    partition.start()
    partition.advance(1.0)
    if backfilled:
        for _ in range(60):
            partition.publish("t")
        partition.advance(2.0)
        assert partition.store.kept_backfills
        partition.sinks[A] = hangs_once(answers(400, after_s=0.1))
        partition.advance(3.5)  # Those that hung have ended; one of the backfill hangs.
    partition.publish("t")
    before = kept_keys(partition)
    partition.store.crash_after = 0
    partition.advance(1.0)
    assert not partition.lives
    left = kept_keys(partition)
    assert left > before
    partition.sinks[A] = answers()
    partition.start()
    partition.advance(60.0)
    assert kept_keys(partition) == left
    partition.checker.may_redrive("r")
    partition.targets.ask("redrive", "r")
    partition.advance(5.0)
    assert not kept(partition)
    partition.rest()
