"""A backfill beyond its budget gives its oldest matches up: counted and told, whatever crashes.

Beyond the quota of its namespace they become kept dead letters.
"""

import dataclasses

from distributary.core.engine import EngineLimits
from distributary.core.policy import DeliveryPolicy
from distributary.core.quotas import Quotas, QuotaTable
from distributary.partitions import _flusher, _unwritten
from distributary.partitions.ports import BackfillBudget
from kit.simulation import partition as simulation
from kit.simulation.partition import answers, hangs
from kit.simulation.ports import LateWork

A, B = "http://a.example/", "http://b.example/"
PATIENT = DeliveryPolicy(retry=1_000, backoff_delay_s=10.0, backoff_max_s=60.0, timeout_s=1.0)


def given_up(partition):
    """How many matches of each route were given up, as the owner told people."""
    told = [fields for event, fields in partition.warnings if event == "matches-given-up"]
    assert {fields["reason"] for fields in told} <= {"retention"}
    counts = {}
    for fields in told:
        counts[fields["route"]] = counts.get(fields["route"], 0) + fields["count"]
    return counts


def dropped(partition):
    """Matches that ended without delivery, of all routes."""
    return [fate for fate in partition.checker.fates() if fate.final == "dropped"]


def test_without_a_budget_nothing_is_given_up(make_partition):
    """A dead sink keeps the log for as long as its policy says."""
    partition = make_partition()
    partition.put_route("dead", A, policy=PATIENT)
    partition.sinks[A] = hangs
    partition.start()
    for _ in range(30):
        partition.publish("t")
        partition.advance(10.0)
    partition.retain()
    assert partition.log.start() <= 1
    assert not given_up(partition)
    partition.rest()
    assert not dropped(partition)


def test_a_backfill_and_its_rows_end_where_they_are_too_old(make_partition):
    """The log goes on; the others, and what is younger, get everything."""
    partition = make_partition(backfill_budget=BackfillBudget(age_max_s=120.0))
    partition.put_route("dead", A, policy=PATIENT)
    partition.put_route("good", B)
    partition.sinks[A] = answers(503)
    partition.start()
    events = []
    for number in range(48):
        events += partition.publish("t")
        partition.advance(10.0)
        if number % 12 == 11:
            partition.crash()
            partition.start()
    partition.advance(20.0)
    assert given_up(partition)["dead"] >= 25
    partition.retain()
    assert partition.log.start() > 25
    assert {event for _, event, to in partition.sends if to == B} == set(events)
    partition.rest()
    ended = dropped(partition)
    assert {fate.route for fate in ended} == {"dead"}
    assert given_up(partition).keys() == {"dead"}
    assert given_up(partition)["dead"] >= len(ended)
    assert partition.checker.fate(events[-1], "dead").final == "delivered"


def test_a_clock_that_leaps_makes_nothing_too_old(make_partition):
    """A month ahead for a moment: what is seconds old is delivered."""
    partition = make_partition(backfill_budget=BackfillBudget(age_max_s=7 * 86_400.0))
    partition.put_route("dead", A, policy=PATIENT)
    partition.sinks[A] = answers(503)
    partition.start()
    events = []
    for _ in range(20):
        events += partition.publish("t")
        partition.advance(1.0)
    partition.clock.jump(30 * 86_400_000)
    partition.advance(60.0)
    partition.rollover()
    partition.start()  # newer settings: another session of the same process
    partition.advance(60.0)
    partition.clock.jump(-30 * 86_400_000)
    partition.sinks[A] = answers(200)
    partition.rest()
    assert not dropped(partition)
    assert {partition.checker.fate(event, "dead").final for event in events} == {"delivered"}


def test_a_backfill_ends_where_it_keeps_too_many_bytes(make_partition):
    """By the size of the log behind it."""
    partition = make_partition(backfill_budget=BackfillBudget(bytes_max=5_000))
    partition.put_route("dead", A, policy=PATIENT)
    partition.sinks[A] = answers(503)
    partition.start()
    events = []
    for _ in range(150):
        events += partition.publish("t")
        partition.advance(1.0)
    partition.advance(30.0)
    partition.retain()
    kept = partition.log.durable_end() - partition.log.start()
    assert 5 < kept < 60
    assert given_up(partition)["dead"] > 60
    partition.rest()
    assert partition.checker.fate(events[-1], "dead").final == "delivered"


QUOTA = QuotaTable(named={"small": Quotas(pinned_log_bytes=10_000)})
"""Over two partitions, of which one is simulated."""


def set_aside(partition):
    """How many matches of each route became dead letters by a quota, as the owner told people."""
    told = [fields for event, fields in partition.warnings if event == "matches-set-aside"]
    counts = {}
    for fields in told:
        counts[fields["route"]] = counts.get(fields["route"], 0) + fields["count"]
    return counts


def in_namespace(partition, route, namespace):
    """Let *route* be of *namespace*."""
    target = partition.targets.now[route]
    partition.targets.put(route, dataclasses.replace(target, namespace=namespace))


def test_rows_beyond_the_quota_wait_for_the_disk(make_partition, monkeypatch):
    """Read faster than dead letters are written, all of them would stand in memory."""
    monkeypatch.setattr(simulation, "FLUSH_S_MAX", 5.0)
    monkeypatch.setattr(_unwritten, "UNWRITTEN_BYTES_MAX", 2_000)
    monkeypatch.setattr(
        simulation.Partition,
        "_aside",
        lambda self, timers: LateWork(timers, lambda: 0.001, self.crash),
    )
    waiting = []

    class Spy(_flusher.Changes):
        def __init__(self):
            super().__init__()
            waiting.append(self.dead_letters)

    monkeypatch.setattr(_flusher, "Changes", Spy)
    quotas = QuotaTable(named={"small": Quotas(pinned_log_bytes=1_000)})
    partition = make_partition(backfill_budget=BackfillBudget(quotas=quotas, partitions=1))
    partition.engine_limits = EngineLimits(row_events_bytes_max=0, reads_max=8)
    policy = DeliveryPolicy(retry=1_000, backoff_delay_s=3_000.0, backoff_max_s=6_000.0)
    partition.put_route("dead", A, policy=policy)
    partition.sinks[A] = answers(404)
    in_namespace(partition, "dead", "small")
    partition.start()
    for _ in range(200):
        partition.publish("t")
        partition.advance(0.02)
    partition.advance(600.0)
    assert set_aside(partition)["dead"] > 150
    assert 0 < max(sum(len(each.event) for each in letters) for letters in waiting) < 5_000
    partition.sinks.clear()
    partition.rest()


def test_matches_beyond_the_quota_of_a_namespace_are_kept_as_dead_letters(make_partition):
    """The log goes on, nothing is lost, and another namespace is not touched; whatever crashes."""
    partition = make_partition(backfill_budget=BackfillBudget(quotas=QUOTA, partitions=2))
    for route, sink in (("dead", A), ("other", B)):
        partition.put_route(route, sink, policy=PATIENT, dead_letter="http://dead.example/")
        partition.sinks[sink] = answers(503)
    in_namespace(partition, "dead", "small")
    in_namespace(partition, "other", "large")
    partition.start()
    events = []
    for number in range(150):
        events += partition.publish("t")
        partition.advance(1.0)
        if number % 50 == 49:
            partition.crash()
            partition.start()
    partition.advance(30.0)
    count = set_aside(partition)["dead"]
    assert count > 60
    assert set_aside(partition).keys() == {"dead"}
    floors = partition.store.kept_backfills.values()
    assert min(row.from_offset for row in floors if row.route == "dead") > 60
    partition.sinks[B] = answers(200)
    partition.rest()
    assert not dropped(partition)
    kept = [partition.checker.fate(event, "dead") for event in events]
    assert sum(fate.final == "kept" for fate in kept) >= 60
    assert {fate.final for fate in kept} == {"kept", "delivered"}
    assert {partition.checker.fate(event, "other").final for event in events} == {"delivered"}
