"""Replays over a log that has lost records, or shows fewer than it has."""

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.flow import RecordKind

A = "http://a.example/"


@pytest.fixture
def past(make_partition):
    """A partition whose route has had 200 events."""
    partition = make_partition(seed=21)
    partition.put_route("r", A)
    partition.start()
    partition.events = [event for _ in range(200) for event in partition.publish("t")]
    partition.advance(10.0)
    assert arrivals(partition) == partition.events
    return partition


def arrivals(partition):
    """Ids of the events that were sent, in order."""
    return [event for _, event, to in partition.sends if to == A]


def replay(partition, until_ms=None, **more):
    """Ask for a replay."""
    partition.checker.replayed("r")
    details = DemandDetails(until_ms=until_ms, **more)
    return partition.targets.ask("replay", "r", details, partition.clock.wall_ms())


def row_of(partition, run):
    """Progress of a run."""
    seq = next(demand.seq for demand in partition.targets.asked if demand.run == run)
    return partition.store.runs([seq])[seq]


@pytest.mark.parametrize("more", [{}, {"dry": True}, {"rate": 50.0}], ids=["all", "dry", "slow"])
@pytest.mark.parametrize("cut", [0, 30])
def test_what_the_log_has_lost_is_told(past, more, cut):
    """At the ends and in the middle, over a crash; what retention has deleted is told apart."""
    entries = [
        each for each in past.log.read(0, past.log.durable_end()) if each.kind == RecordKind.EVENTS
    ]
    start = entries[cut].offset if cut else 0
    past.advance(1.0)
    until_ms = past.clock.wall_ms()
    past.publish("t")  # By the record below it an owner knows its place.
    past.advance(1.0)
    if cut:
        past.crash()  # Nobody keeps the log.
    past.checker.deleted(start, ())
    run = replay(past, until_ms, **more)
    past.log.drop(start)
    lost = {entries[n].offset for n in (cut, cut + 1, 70, 71, 72, 199)}
    for offset in lost:
        past.log.damage(offset)
        past.checker.lost(offset, offset + 1)
    if cut:
        past.start()
    past.advance(0.2)
    past.crash()
    past.start()
    past.advance(60.0)
    row = row_of(past, run)
    found = row.missing, row.missing_from, row.missing_to
    assert found == (len(lost), min(lost), max(lost) + 1)
    assert (row.done, row.looked, row.oldest_ms is not None) == (True, row.total, bool(cut))
    assert row.selected == 200 - cut - len(lost)
    if "dry" not in more:
        left = [past.events[n] for n in range(cut, 200) if entries[n].offset not in lost]
        assert set(arrivals(past)[201:]) == set(left)
    past.rest()


def test_a_replay_waits_where_the_log_is_seen_to_end_early(past, monkeypatch):
    """What is behind is read when it is shown: it is not lost."""
    whole, shown = past.log.read, [past.log.durable_end()]
    monkeypatch.setattr(past.log, "durable_end", lambda: shown[0])
    monkeypatch.setattr(past.log, "read", lambda first, last: whole(first, min(last, shown[0])))
    run = replay(past, rate=50.0)
    past.advance(1.0)
    shown[0] -= 100
    past.advance(5.0)
    sent = arrivals(past)[200:]
    assert sorted(sent) == sorted(past.events[: len(sent)])
    assert len(sent) < 200
    shown[0] += 100
    past.advance(30.0)
    row = row_of(past, run)
    assert (row.selected, row.handled, row.missing) == (200, 200, 0)
    past.rest()
