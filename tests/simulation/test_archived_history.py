"""What the log has no more and the archive has: replays and subscriptions that begin in the past.

The archive of these tests has the events of the records that retention deleted, in stretches; what
owners ask for is recalled a moment later.
"""

from dataclasses import replace

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.flow import RecordKind
from distributary.core.log.recalled import RecalledName, RecalledWriter
from distributary.core.policy import DeliveryPolicy
from distributary.datadir.archived import ArchivedStretch
from distributary.partitions.ports import BackfillBudget
from distributary.partitions.recall_requests import RequestsFile, read_requests
from distributary.partitions.recalls import Recalls
from kit.simulation.events import expect_history
from kit.simulation.partition import Partition, answers
from kit.simulation.shared import SharedPartition

A, B = "http://a.example/", "http://b.example/"
POLICY = DeliveryPolicy(retry=2, backoff_delay_s=0.1, timeout_s=1.0)
STRETCH = 16
EVENTS = {int(kind) for kind in (RecordKind.EVENTS, RecordKind.ADDRESSED, RecordKind.CARRIED)}


class Archives:
    """A partition whose log is archived before it is cut."""

    def __init__(self, folder, **named):
        super().__init__(folder, **named)
        self.archived = {}
        self.stretches = []
        self.recalled = []
        self.broken = False
        self.missing = set()
        self._recalled = folder / "recalled"
        self._requests = folder / "recalled.json"
        self._at = 0

    def archive(self, to_offset=None):
        """Archive the log up to *to_offset*, and delete that part of it."""
        end = self.log.durable_end() if to_offset is None else to_offset
        for first in range(self._at, end, STRETCH):
            last = min(first + STRETCH, end)
            entries = [each for each in self.log.read(first, last) if each.kind in EVENTS]
            times = [each.time_ms for each in entries] or [0]
            self.stretches.append(ArchivedStretch(first, last, times[0], times[-1]))
            self.archived[first] = entries
        self._at = self.archived_to = end
        self.log.drop(end)
        self.checker.deleted(end, ())

    def recall(self):
        """Bring what owners ask for."""
        for offset, _ in read_requests(self._requests):
            found = next(each for each in self.stretches if each.from_offset == offset)
            self._recalled.mkdir(exist_ok=True)
            writer = RecalledWriter(self._recalled, RecalledName(*found[:2]))
            for each in self.archived[offset]:
                if each.offset in self.missing:
                    writer.lose(each.offset, each.offset + 1)
                else:
                    writer.add(each.offset, each.time_ms, each.kind, each.body)
            writer.finish()
            self.recalled.append(offset)

    def put_route(self, route, sink, *, begin_ms=None, **named):
        """See ``Partition``: history has the archive in it."""
        super().put_route(route, sink, begin_ms=begin_ms, **named)
        record = self._routes[route]
        if begin_ms is not None and record.revision == 1:
            expect_history(Archived(self), self.checker, record, begin_ms)

    def advance(self, seconds):
        """Let *seconds* pass, and the job that recalls work."""
        left_s = seconds
        while left_s > 0:
            super().advance(min(left_s, 0.3))
            left_s -= 0.3
            if not self.broken:
                self.recall()

    def _adapted(self, context, timers):
        recalls = Recalls(
            self._recalled,
            RequestsFile(self._requests),
            lambda: self.stretches,
            self.clock,
            bytes_max=64 * 1024,
        )
        context = super()._adapted(context, timers)
        others = context.on_tick

        def tick():
            others()
            recalls.tick()

        return replace(context, recalls=recalls, on_tick=tick)


class ArchivedPartition(Archives, Partition):
    """On one machine."""


class ArchivedShared(Archives, SharedPartition):
    """Of nodes: the log is read in a thread, and shows its end late."""


class Archived:
    """What the archive of *partition* has, as ``expect_history`` reads a log."""

    def __init__(self, partition):
        self._entries = [each for found in partition.archived.values() for each in found]
        self.durable_end = partition.log.durable_end

    def offset_at(self, time_ms):
        """Returns the first offset of *time_ms* or later."""
        return next(each.offset for each in self._entries if each.time_ms >= time_ms)

    def read(self, first, end):
        """Returns the records of a range."""
        return [each for each in self._entries if first <= each.offset < end]


@pytest.fixture
def make_archived(tmp_path):
    """Makes such partitions; they are closed at the end."""
    made = []

    def make(kind=ArchivedPartition, **named):
        made.append(kind(tmp_path, **named))
        return made[-1]

    yield make
    for partition in made:
        partition.close()


@pytest.fixture(params=[ArchivedPartition, ArchivedShared], ids=["one machine", "nodes"])
def past(request, make_archived):
    """The route ``r`` has had 150 events over 150 s, of which the log has the last 50."""
    partition = make_archived(request.param, seed=7)
    partition.put_route("r", A, policy=POLICY)
    partition.start()
    partition.events = []
    for number in range(150):
        if number == 100:
            partition.cut = partition.log.durable_end()
        partition.events += partition.publish("t" if number % 3 else "u")
        partition.advance(1.0)
    partition.archive(partition.cut)
    assert arrivals(partition, A) == partition.events
    return partition


def arrivals(partition, uri):
    """Ids of the events that were sent there, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def replay(partition, since_ms=None, until_ms=None, **more):
    """Ask for a replay; returns the run."""
    if not more.get("dry"):
        partition.checker.replayed("r")
    details = DemandDetails(since_ms=since_ms, until_ms=until_ms, **more)
    return partition.targets.ask("replay", "r", details, partition.clock.wall_ms())


def row_of(partition, run):
    """Progress of a run."""
    seq = next(demand.seq for demand in partition.targets.asked if demand.run == run)
    return partition.store.runs([seq])[seq]


def test_a_replay_sends_what_the_archive_has_and_then_what_the_log_has(past):
    """Each event once, and nothing is missing: ``oldest`` is not set."""
    run = replay(past)
    past.advance(60.0)
    assert sorted(arrivals(past, A)[150:]) == sorted(past.events)
    row = row_of(past, run)
    assert (row.selected, row.handled, row.passed, row.done) == (150, 150, 0, True)
    assert row.looked == row.total
    assert row.oldest_ms is None
    past.rest()


def test_a_replay_of_a_time_in_the_archive_sends_that_time_alone(past):
    """To the event, though a stretch begins earlier and ends later; no other is recalled."""
    times = {each.offset: each.time_ms for found in past.archived.values() for each in found}
    offsets = sorted(times)
    run = replay(past, times[offsets[20]], times[offsets[30]])
    past.advance(30.0)
    assert arrivals(past, A)[150:] == past.events[20:30]
    assert row_of(past, run).selected == 10
    assert len(set(past.recalled)) <= 3  # two, and one ahead
    past.rest()


def test_a_dry_run_counts_and_sends_nothing(past):
    """With filters of its own, by the newest ones of the route."""
    past.put_route("r", A, types=["t"], policy=POLICY)
    run = replay(past, dry=True)
    past.advance(30.0)
    assert row_of(past, run).selected == 100
    assert len(arrivals(past, A)) == 150
    past.rest()


@pytest.mark.parametrize("step_s", [0.02, 0.11, 0.7])
def test_a_crash_wherever_a_replay_stands_loses_nothing(past, step_s):
    """Copies are of attempts that were under way alone: the run counts each event once."""
    past.sinks[A] = answers(503, after_s=0.01)
    run = replay(past)
    for number in range(30):
        if number == 10:
            past.sinks.clear()
        past.advance(step_s)
        past.crash()
        past.start()
    past.advance(120.0)
    row = row_of(past, run)
    assert (row.selected, row.handled + row.passed, row.done) == (150, 150, True)
    found = arrivals(past, A)
    assert all(found.count(event) >= 2 for event in past.events)
    past.rest()


def test_a_retry_whose_event_is_not_in_memory_is_read_from_the_archive(past):
    """After a restart, while what was recalled is gone: it is asked for again, not given up."""
    past.sinks[A] = answers(503)
    patient = DeliveryPolicy(retry=8, backoff_delay_s=1.0, timeout_s=1.0)
    past.put_route("r", A, policy=patient)
    replay(past, None, past.clock.wall_ms() - 140_000)
    past.advance(3.0)
    waiting = len(past.store.kept_rows)
    assert waiting
    past.crash()
    for path in past._recalled.iterdir():
        path.unlink()
    past.sinks.clear()
    past.broken = True
    past.start()
    before = len(arrivals(past, A))
    past.advance(20.0)
    assert len(arrivals(past, A)) == before
    assert len(past.store.kept_rows) == waiting
    past.broken = False
    past.advance(30.0)
    assert len(arrivals(past, A)) == before + waiting
    past.rest()


def test_a_damaged_file_is_recalled_again(past):
    """Nothing of it is sent."""
    replay(past)
    past.advance(0.9)
    damaged = 0
    for path in past._recalled.iterdir():
        content = bytearray(path.read_bytes())
        content[50] ^= 1
        path.write_bytes(content)
        damaged += 1
    assert damaged
    past.advance(60.0)
    assert sorted(arrivals(past, A)[150:]) == sorted(past.events)
    past.rest()


def test_a_cancelled_replay_asks_for_nothing_more(past):
    """Its request is withdrawn, and what was recalled is deleted in the end."""
    past.broken = True
    run = replay(past)
    past.advance(1.0)
    assert read_requests(past._requests)
    past.targets.cancel(run)
    past.advance(60.0)
    assert not read_requests(past._requests)
    past.broken = False
    past.advance(200.0)
    assert not past._recalled.exists() or not list(past._recalled.iterdir())
    past.rest()


def test_a_route_that_begins_before_the_log_gets_all_of_history_and_what_comes(past):
    """Each event once, the archived ones first, over crashes too."""
    times = {each.offset: each.time_ms for found in past.archived.values() for each in found}
    begin_ms = times[sorted(times)[25]]
    past.put_route("new", B, begin_ms=begin_ms, types=["t"])
    later = []
    for number in range(30):
        later += past.publish("t", "u")[:1]
        past.advance(0.5)
        if number in {3, 9}:
            past.crash()
            past.start()
    past.advance(30.0)
    wanted = [event for n, event in enumerate(past.events) if n >= 25 and n % 3] + later
    found = arrivals(past, B)
    assert sorted(set(found)) == sorted(wanted)
    assert len(found) <= len(wanted) + 2 * 64  # what was under way at two crashes
    past.rest()
    assert not past.store.kept_backfills


def test_budgets_of_the_log_do_not_end_a_replay_from_the_archive(make_archived):
    """It keeps nothing of the log: nobody waits for it."""
    partition = make_archived(seed=3, backfill_budget=BackfillBudget(age_max_s=5.0))
    partition.put_route("r", A, policy=POLICY)
    partition.start()
    events = []
    for _ in range(40):
        events += partition.publish("t")
        partition.advance(1.0)
    partition.archive()
    partition.sinks[A] = answers(503, after_s=0.2)
    run = replay(partition, rate=5.0)
    partition.advance(15.0)
    partition.sinks.clear()
    partition.advance(60.0)
    row = row_of(partition, run)
    assert (row.selected, row.done) == (40, True)
    assert set(arrivals(partition, A)[40:]) == set(events)
    partition.rest()


def test_a_gap_of_the_archive_is_passed(past):
    """A day that was deleted is nobody's to send; the run tells what it begins with."""
    del past.stretches[:2]
    run = replay(past)
    past.advance(60.0)
    first = past.stretches[0]
    row = row_of(past, run)
    assert row.done
    assert row.oldest_ms == first.from_ms
    left = sum(
        each.offset < first.from_offset for found in past.archived.values() for each in found
    )
    assert sorted(arrivals(past, A)[150:]) == sorted(past.events[left:])
    past.rest()


@pytest.mark.parametrize("dry", [False, True])
def test_what_is_missing_in_the_middle_of_the_archive_is_told(past, dry):
    """And what the log has lost: all else is sent, over a crash too."""
    entries = {each.offset: each for found in past.archived.values() for each in found}
    absent = past.stretches.pop(3)
    first = past.stretches[1].from_offset
    past.missing = {first + 2, first + 3, first + 9} & entries.keys()
    assert len(past.missing) == 3
    holes = {each.offset for each in past.log.read(past.cut, past.cut + 60)} - entries.keys()
    holes = set(sorted(holes)[:2]) | set(sorted(holes)[20:23])
    for offset in holes:
        past.log.damage(offset)
        past.checker.lost(offset, offset + 1)
    run = replay(past, dry=dry)
    past.advance(2.0)
    past.crash()
    past.start()
    past.advance(60.0)
    row = row_of(past, run)
    lost = past.missing | set(range(*absent[:2])) | holes
    assert (row.missing, row.missing_from, row.missing_to) == (
        *(len(lost), min(lost)),
        max(lost) + 1,
    )
    assert (row.done, row.oldest_ms, row.looked) == (True, None, row.total)
    gone = len(lost & entries.keys()) + len(holes)
    assert row.selected == 150 - gone
    if not dry:
        assert len(set(arrivals(past, A)[150:])) == 150 - gone
    past.rest()


def test_a_route_that_begins_in_a_gap_of_the_archive_counts_what_is_lost(past):
    """As damage of the log is: by a counter and a line of the log."""
    first = past.stretches[1].from_offset
    past.missing = {first + 2, first + 3}
    lost = {each.offset for found in past.archived.values() for each in found} & past.missing
    times = [each.time_ms for found in past.archived.values() for each in found]
    past.put_route("new", B, begin_ms=min(times))
    past.advance(60.0)
    told = [fields for name, fields in past.warnings if name == "records-lost"]
    assert told
    assert len(set(arrivals(past, B))) == 150 - len(lost)


def test_an_archive_that_is_taken_out_in_the_middle_of_a_run_is_told(past):
    """What nobody can read any more is passed, and the run says where the log begins."""
    run = replay(past, rate=20.0)
    past.advance(2.0)
    sent = len(arrivals(past, A)) - 150
    assert 0 < sent < 100
    past.stretches.clear()
    past.advance(60.0)
    row = row_of(past, run)
    begins = past.log.start()
    oldest = next(iter(past.log.read(begins, past.log.durable_end())))
    assert (row.done, row.oldest_ms) == (True, oldest.time_ms)
    assert row.selected < 150
    assert arrivals(past, A)[-50:] == past.events[100:]
    past.rest()
