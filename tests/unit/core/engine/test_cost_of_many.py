"""What many backfills, many matches and many rows cost."""

import random
from types import SimpleNamespace

import pytest

from distributary.core.engine import EngineLimits
from distributary.core.engine._catching_up import SLICE_READS, SLICE_RECORDS, CatchingUp
from distributary.core.engine.backfills import Backfills
from distributary.core.engine.retry_rows import RetryRows
from distributary.core.engine.tracker import LISTED_MAX, Tracker
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import DoneKey, Mark, RecordKind, RouteRecord, Stage, encode_route
from distributary.core.outcome import BackfillRow, RetryRow
from distributary.partitions._log_reads import LogReads
from distributary.testing.memory_log import MemoryLog

LIMITS = EngineLimits()
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")


class _Log(MemoryLog):
    opened = 0
    closed = 0

    def close(self):
        self.closed += 1


class _Sending:
    """Takes what backfills bring, unless its sink is full."""

    def __init__(self):
        self.tasks = []
        self.full = set()
        self.asked = 0

    def offer_backfill(self, task):
        self.asked += 1
        if task.route in self.full:
            return "http://full.example/"
        self.tasks.append(task)
        return None

    def refuses(self, _route, _offset, **_full):
        return None

    def is_done(self, _task):
        return False

    def may_join(self, _route):
        return True


class _Backfiller:
    """Backfills with what reads the log for them; the live reader stands at the end."""

    def __init__(self, log, sending):
        def open_log():
            log.opened += 1
            return log

        self.ended = []
        self.reads = LogReads(open_log, LIMITS.readers_max)
        effects = SimpleNamespace(end_backfill=self.ended.append, read_log=self.reads.ask)
        self.backfills = Backfills(0, LIMITS, effects)
        end = log.durable_end()
        state = SimpleNamespace(
            live=end,
            durable=end,
            limits=LIMITS,
            effects=effects,
            backfills=self.backfills,
            rows=SimpleNamespace(archived_to=0),
        )
        self.parts = CatchingUp(state, sending, sending)

    def advance(self):
        more = self.parts.advance(joining=True)
        more |= self.reads.bring(self.parts)
        return more

    def __getattr__(self, name):
        return getattr(self.backfills, name)


@pytest.fixture
def log(clock):
    """A thousand records of one event."""
    made = _Log(clock)
    made.append([(RecordKind.EVENTS, event_record.encode([EVENT]))] * 1000)
    return made


@pytest.fixture
def consumer():
    """Whoever gets the tasks."""
    return _Sending()


@pytest.fixture
def backfills(log, consumer):
    """Backfills of a live reader that stands at the end."""
    return _Backfiller(log, consumer)


def _row(route, *, types=("other",), start=0):
    record = RouteRecord(seq=1, op="put", uid=route, revision=1, types=types)
    return BackfillRow(route, start, 0, start, None, encode_route(record))


def _next_offsets(backfills):
    return {name: backfill.next_offset for name, backfill in backfills._all.items()}


def test_all_backfills_share_one_slice_of_a_turn(backfills):
    """Live events wait for one slice, not one a route; and every backfill has its turn."""
    for number in range(10):
        backfills.add(_row(f"r{number}"))
    turns = 0
    more = True
    while more:
        before = _next_offsets(backfills)
        more = backfills.advance()
        after = dict.fromkeys(before, 1000) | _next_offsets(backfills)
        assert sum(after.values()) - sum(before.values()) <= SLICE_RECORDS
        turns += 1
    assert turns >= 10 * 1000 // SLICE_RECORDS
    assert len(backfills.ended) == 10


def test_many_backfills_share_few_readers_and_give_them_back(log, backfills):
    """Each holds a file or two, and 10,000 routes may begin in the past at once."""
    for number in range(2 * LIMITS.readers_max):
        backfills.add(_row(f"r{number}"))
    while backfills.advance():
        pass
    assert len(backfills.ended) == 2 * LIMITS.readers_max
    assert log.opened <= LIMITS.readers_max
    backfills.reads.close()
    assert log.closed == log.opened


def test_a_sink_that_is_full_is_not_asked_for_every_backfill_in_every_slice(backfills, consumer):
    """A thousand backfills behind one sink: a turn costs a slice of them, and then they rest."""
    names = [f"r{number}" for number in range(1000)]
    consumer.full.update(names)
    for name in names:
        backfills.add(_row(name, types=()))
    while backfills.advance():  # Each reads its first chunk.
        pass
    asked = consumer.asked
    assert asked == 1000
    assert not backfills.advance()
    assert consumer.asked == asked
    backfills.wake()
    before = consumer.asked
    while backfills.advance():
        assert consumer.asked - before <= LIMITS.slice_backfills
        before = consumer.asked
    assert consumer.asked - asked == LIMITS.wake_count


def test_a_turn_reads_few_chunks_however_many_backfills_there_are(
    log, backfills, consumer, monkeypatch
):
    """A chunk is read, and searched for, in a time in which hundreds of records are looked at."""
    names = [f"r{number}" for number in range(100)]
    consumer.full.update(names)
    for name in names:
        backfills.add(_row(name, types=()))
    reads = []
    read_chunk = log.read_chunk
    monkeypatch.setattr(log, "read_chunk", lambda *where: (reads.append(1), read_chunk(*where))[1])
    more = True
    while more:
        before = len(reads)
        more = backfills.advance()
        assert len(reads) - before <= SLICE_READS
    assert len(reads) == 100


def test_a_sink_that_has_room_is_tried_by_those_that_wait_for_it(backfills, consumer):
    """And not by those that wait for another."""
    consumer.full.add("r")
    backfills.add(_row("r", types=()))
    while backfills.advance():
        pass
    asked = consumer.asked
    backfills.wake_for("http://other.example/")
    assert not backfills.advance()
    assert consumer.asked == asked
    consumer.full.clear()
    backfills.wake_for("http://full.example/")
    while backfills.advance():
        pass
    assert len(consumer.tasks) == 1000


def test_resting_backfills_hold_no_chunk_when_there_are_many(backfills, consumer):
    """64 KiB each would be 640 MB for 10,000 of them."""
    names = [f"r{number}" for number in range(LIMITS.chunks_max + 1)]
    consumer.full.update(names)
    for name in names:
        backfills.add(_row(name, types=()))
    while backfills.advance():
        pass
    assert [backfill.peek(1000)[0] for backfill in backfills._all.values()] == [None] * len(names)
    consumer.full.clear()
    backfills.wake_for("http://full.example/")
    backfills.wake()
    while backfills.advance():
        pass
    assert len(consumer.tasks) == 1000 * len(names)


def test_a_task_is_finished_in_the_backfill_that_brought_it(backfills, consumer):
    """Only then does the backfill end."""
    backfills.add(_row("r", types=()))
    backfills.add(_row("q"))
    while backfills.advance():
        pass
    assert backfills.floors() == {"r": 0}
    for task in consumer.tasks:
        backfills.finish(task)
    backfills.advance()
    assert set(backfills.ended) == {("r", 0), ("q", 0)}


def test_a_backfill_that_ended_is_remembered_until_the_cursor_has_passed_where_it_joined(backfills):
    """Else a restart would begin a replay again that has been made."""
    backfills.add(_row("r")._replace(from_offset=40, to_offset=40))
    assert not len(backfills.backfills)
    assert backfills.began_before("r", 30)
    assert not backfills.covers("r", 10, 0)
    assert backfills.forgettable(39) == []
    assert backfills.forgettable(40) == [("r", 0)]
    assert not backfills.began_before("r", 30)


def test_a_record_with_many_matches_is_tracked_like_one_with_few(make_task):
    """Finished in any order; the mark moves with the last one."""
    tracker = Tracker(Mark(0, 0))
    tasks = [make_task(route=f"r{number}") for number in range(LISTED_MAX + 5)]
    tracker.take(0, 7, tasks)
    for task in tasks[::2] + tasks[1::2]:
        assert tracker.mark() == Mark(0, 0)
        assert task in tracker.open_below(1)
        tracker.finish(task)
    assert tracker.mark() == Mark(1, 7)


def test_finished_rows_are_looked_through_once_a_second(tmp_path, monkeypatch):
    """A flush comes every 10 ms, and a stuck match may keep 100,000 of them."""
    from kit.simulation.partition import Partition  # noqa: PLC0415 - heavy, for one test

    partition = Partition(tmp_path)
    partition.start()
    waiting, outcomes = partition.consumer._state.rows, partition.consumer._engine.outcomes
    asked = []

    def needs(route, _offset):
        asked.append(route)
        return True

    monkeypatch.setattr(partition.consumer._state.backfills, "needs", needs)
    key = DoneKey(0, 0, "r")
    waiting.finished[key] = RetryRow(key, 1, 1, 1, 0, None, done=True)
    partition.advance(2.0)
    waiting.finished[key] = RetryRow(key, 1, 1, 1, 0, None, done=True)
    for _ in range(5):
        outcomes.forgettable(1)
    assert len(asked) <= 1
    partition.close()


class _Unwalked(dict):
    """Rows that nobody may walk over."""

    def __iter__(self):
        raise AssertionError("all rows were looked at")

    keys = items = values = __iter__


def test_the_lowest_row_is_known_without_a_look_at_all_of_them():
    """There may be 100,000 rows, and the status page is written ten times a second."""
    chance = random.Random(7)
    waiting = RetryRows(LIMITS)
    waiting.rows = _Unwalked()
    left = set()
    for _ in range(3_000):
        key = DoneKey(chance.randrange(200), chance.randrange(2), chance.choice("ab"))
        if key in left:
            left.discard(key)
            waiting.finish(key)
        else:
            left.add(key)
            waiting.add(RetryRow(key, 1, Stage.PRIMARY, 1, 0, None, done=False))
        assert waiting.lowest_offset() == min((key.offset for key in left), default=None)
