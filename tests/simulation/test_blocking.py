"""The loop of an owner waits for nothing: no store, no file of a row, whoever holds them."""

import random

import pytest
import sqlalchemy as sa

from distributary.core import errors
from distributary.core.engine import EngineLimits
from distributary.core.errors import StoreError
from distributary.core.policy import DeliveryPolicy
from distributary.datadir import StatusField
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualTimers
from kit.simulation import partition as simulation
from kit.simulation import ports as simulated_ports
from kit.simulation import runs as simulated_runs
from kit.simulation.partition import answers

A, B = "http://a.example/", "http://b.example/"


@pytest.fixture
def strict(monkeypatch):
    """Whatever blocks fails where it runs in the turn of a loop, and not beside it."""
    state = {"loop": False, "found": []}

    def on(loop, function):
        def run(*arguments, **named):
            before, state["loop"] = state["loop"], loop
            try:
                return function(*arguments, **named)
            finally:
                state["loop"] = before

        return run

    def forbid(kind, name):
        function = getattr(kind, name)

        def run(*arguments):
            if state["loop"]:
                state["found"].append(f"{kind.__name__}.{name}")
            return function(*arguments)

        monkeypatch.setattr(kind, name, run)

    def statement(_connection, _cursor, text, *_more):
        if state["loop"]:
            state["found"].append(text)

    monkeypatch.setattr(VirtualTimers, "advance", on(True, VirtualTimers.advance))
    monkeypatch.setattr(
        simulation.PartitionConsumer, "start", on(True, simulation.PartitionConsumer.start)
    )
    for name in ("_work", "_crashed"):
        if hasattr(simulated_ports.LateWork, name):
            work = getattr(simulated_ports.LateWork, name)
            monkeypatch.setattr(simulated_ports.LateWork, name, on(False, work))
    monkeypatch.setattr(simulation.Partition, "crash", on(False, simulation.Partition.crash))
    forbid(simulated_ports.TargetsView, "refresh")
    forbid(simulated_ports.SimulatedTargets, "last_seq")
    forbid(simulated_ports.SimulatedTargets, "between")
    forbid(MemoryLog, "read")
    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    yield state["found"]
    sa.event.remove(sa.Engine, "before_cursor_execute", statement)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_statement_runs_on_the_loop(tmp_path, strict, seed):
    """Whatever happens to a partition: retries that are read again, deletions, counts, crashes."""
    simulated_runs.play(tmp_path, seed, limits=EngineLimits(row_events_bytes_max=2 * 2_048))
    assert not strict


def test_a_hole_is_looked_into_beside_the_loop(partition, strict):
    """By the live reader and by a backfill, which both need the changes that were lost in it."""
    partition.put_route("r", A)
    partition.publish("t")
    partition.put_route("q", B)
    partition.publish("t")
    partition.put_route("old", A, begin_ms=0)
    partition.log.damage(2)
    partition.checker.lost(2, 3)
    partition.start()
    partition.advance(5.0)
    assert len(partition.sends) == 2 + 1 + 2
    assert not strict
    partition.rest()


# -- a store that cannot be read ----------------------------------------------------------------


def lock_store(partition, monkeypatch, seconds):
    """The store of resources answers nobody for *seconds*: each read waits, then fails."""
    until_s = partition.clock.monotonic_s() + seconds
    whole = simulated_ports.TargetsView.read

    def read(view):
        if partition.clock.monotonic_s() < until_s:
            raise StoreError("the store is locked")
        return whole(view)

    monkeypatch.setattr(simulated_ports.TargetsView, "read", read)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_every_promise_holds_while_reads_of_the_store_fail(tmp_path, monkeypatch, seed):
    """Most of them, at any time: routes met unread are backfilled, and lose and repeat nothing."""
    chance = random.Random(seed)
    whole = simulated_ports.TargetsView.read

    def read(view):
        if chance.random() < 0.7:
            raise StoreError("the store is locked")
        return whole(view)

    def refresh(view):
        take = whole(view)
        if take is not None:
            take()
        return take is not None

    monkeypatch.setattr(simulated_ports.TargetsView, "read", read)
    monkeypatch.setattr(simulated_ports.TargetsView, "refresh", refresh)
    simulated_runs.play(tmp_path, seed)


def test_a_store_that_is_locked_does_not_stop_what_is_known(partition, monkeypatch):
    """Routes that nobody can look up wait as a backfill; the others do not wait for them."""
    partition.put_route("known", A)
    partition.start()
    partition.publish("t")
    partition.advance(1.0)
    lock_store(partition, monkeypatch, 10.0)
    partition.put_route("new", B)
    for _ in range(20):
        partition.publish("t")
        partition.advance(0.3)
    assert [uri for _, _, uri in partition.sends] == [A] * 21
    assert "route-lags" in [name for name, _ in partition.reports]
    partition.advance(15.0)
    assert sorted(uri for _, _, uri in partition.sends) == [A] * 21 + [B] * 20
    partition.rest()
    assert not partition.failures


def test_a_store_that_is_slow_does_not_stop_what_is_known(partition):
    """A read that takes ten seconds holds the intake up for a moment, and nothing else."""
    partition.put_route("known", A)
    partition._aside = lambda timers: simulated_ports.LateWork(timers, lambda: 5.0, partition.crash)
    partition.start()
    partition.publish("t")
    partition.put_route("new", B)
    partition.publish("t")
    partition.advance(1.0)
    assert [uri for _, _, uri in partition.sends] == [A, A]
    partition.advance(30.0)
    assert [uri for _, _, uri in partition.sends] == [A, A, B]
    partition.rest()


def test_a_new_route_that_is_deleted_before_it_was_read_ends(partition, monkeypatch):
    """Its matches are dropped with the reason: they wait for nobody."""
    partition.put_route("known", A)
    partition.start()
    partition.advance(1.0)
    lock_store(partition, monkeypatch, 5.0)
    partition.put_route("new", B)
    partition.publish("t")
    partition.advance(2.0)
    partition.delete_route("new")
    partition.publish("t")
    partition.advance(10.0)
    assert [uri for _, _, uri in partition.sends] == [A, A]
    partition.rest()
    assert not partition.failures


def test_what_was_lost_in_a_hole_is_asked_for_until_the_store_answers(partition, monkeypatch):
    """Nobody goes by the hole before that (DESIGN rule 4), and nothing fails."""
    partition.put_route("r", A)
    partition.publish("t")
    partition.put_route("q", B)
    (event,) = partition.publish("t")
    partition.log.damage(2)
    partition.checker.lost(2, 3)
    partition.start()
    until_s = partition.clock.monotonic_s() + 4.0
    whole = simulated_ports.SimulatedTargets.newest_seq

    def newest_seq(targets):
        if partition.clock.monotonic_s() < until_s:
            raise StoreError("the store is locked")
        return whole(targets)

    monkeypatch.setattr(simulated_ports.SimulatedTargets, "newest_seq", newest_seq)
    partition.advance(3.0)
    assert len(partition.sends) == 1
    partition.advance(5.0)
    assert min(partition.sends[1:])[1] == event
    assert [uri for _, _, uri in partition.sends] in ([A, A, B], [A, B, A])
    partition.rest()
    assert not partition.failures


def test_a_partition_stops_where_what_was_lost_is_known_to_nobody(partition, monkeypatch):
    """A change is never skipped (DESIGN rule 4)."""
    partition.put_route("r", A)
    partition.publish("t")
    partition.put_route("q", B)
    partition.publish("t")
    partition.log.damage(2)
    partition.start()

    def newest_seq(_targets):
        raise errors.StoreTrimmedError("the store keeps only newer ones")

    with monkeypatch.context() as patched:
        patched.setattr(simulated_ports.SimulatedTargets, "newest_seq", newest_seq)
        partition.advance(3.0)
    assert isinstance(partition.failure, errors.StoreTrimmedError)
    assert len(partition.sends) == 1


# -- holes that is backfilled meet --------------------------------------------------------------


def test_a_backfill_tells_of_a_hole(partition):
    """Matches that it loses have no outcome: that is said, as the live reader says it."""
    for _ in range(5):
        partition.publish("t")
    partition.put_route("r", A, begin_ms=0)
    partition.start()
    partition.log.damage(2)
    partition.checker.lost(2, 3)
    told = []
    context = partition.consumer._context
    add = context.meter.add
    context.meter.add = lambda name, value=1: (told.append((name, value)), add(name, value))
    partition.advance(5.0)
    holes = [fields for name, fields in partition.warnings if name == "records-lost"]
    assert {"route": "r", "from": 2, "to": 3} in holes
    assert ("lag_lost_records_total", 1) in told
    assert len(partition.sends) == 4
    partition.rest()


def test_a_replay_begins_behind_a_cut_that_it_could_not_prevent(partition):
    """Retention that cut while the beginning was looked for gave that history up, before it."""
    partition.put_route("other", B)
    for _ in range(20):
        partition.publish("t")
    partition.start()
    partition.advance(2.0)
    partition.put_route("r", A, begin_ms=0)
    whole = partition.log.start

    def start():
        found = whole()
        if found == 0:
            partition.log.drop(15)
            partition.checker.deleted(15, set())
        return found

    partition.log.start = start
    partition.advance(5.0)
    backfills = [fields for name, fields in partition.reports if name == "route-replays"]
    assert [fields["from"] for fields in backfills] == [15]
    assert not [fields for name, fields in partition.warnings if name == "records-lost"]


# -- rows ---------------------------------------------------------------------------------------


def test_rows_of_all_routes_together_are_bounded(partition):
    """Sinks that fail half the time open no breaker; beyond the bound, routes are backfilled."""
    partition.engine_limits = EngineLimits(rows_max=60)
    slow = DeliveryPolicy(retry=50, backoff_delay_s=30.0, timeout_s=1.0)
    partition.put_route("well", B)
    for number in range(20):
        uri = f"http://half-{number}.example/"
        partition.put_route(f"r{number}", uri, policy=slow)
        partition.sinks[uri] = lambda chance: (
            answers(503)(chance) if chance.random() < 0.5 else answers()(chance)
        )
    partition.start()
    most = 0
    for _ in range(100):
        partition.publish("t")
        partition.advance(0.2)
        most = max(most, partition.status_page[StatusField.WAITING])
    assert most <= 60 + 20 * 8  # what was under way when the bound was met
    assert not [f for name, f in partition.reports if name == "route-lags" and f["route"] == "well"]
    assert len([uri for _, _, uri in partition.sends if uri == B]) == 100
    partition.rest()
