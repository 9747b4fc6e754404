"""What a flush writes, in which order, and what happens when it cannot."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import Leg
from distributary.core.journal import DoneKey, JournalState, Mark
from distributary.core.outcome import (
    IN_STORE,
    Batch,
    Changes,
    DeadLetter,
    Failure,
    LagRow,
    RetryRow,
    Slot,
)
from distributary.partitions._ledger import CURSOR_S, FLUSH_COUNT, FLUSH_S, Ledger, Point

LAG = LagRow("q", 3, 0, 3, None, b"{}")


class Stage:
    """A ledger whose medium writes down what reaches it, when the test lets it."""

    def __init__(self, clock, timers):
        self.calls = []
        self.failures = []
        self.untold = []
        self.quota_error = None
        self.works = []
        self.error = None
        self.state = JournalState([Mark(5, 50)])
        self.point = Point(Mark(5, 50))
        self.forgettable = []
        self.over = []
        self.given_up = []
        self.ledger = Ledger(
            self,
            self,
            partition=0,
            blocking=self,
            timers=timers,
            clock=clock,
            point=lambda: self.point,
            forgettable=lambda _durable: (self.forgettable, self.over),
            failed=self.failures.append,
            untold=lambda freed, counted: self.untold.append((freed, counted)),
            given_up=self.given_up.extend,
        )

    def flush(self, batch):
        if self.error:
            raise self.error
        self.calls.append(("flush", batch))
        return []

    @property
    def batch(self):
        """What the last flush wrote."""
        return next(batch for what, batch, *_ in reversed(self.calls) if what == "flush")

    @property
    def changes(self):
        """What it changed."""
        return self.batch.changes

    def free(self, partition, slots):
        if self.quota_error:
            raise self.quota_error
        self.calls.append(("free", partition, slots))

    def count(self, partition, slots):
        if self.quota_error:
            raise self.quota_error
        self.calls.append(("count", partition, slots))

    def run(self, work, done):
        self.works.append((work, done))

    def medium(self):
        """Let the flush under way reach the medium, and the loop learn of it."""
        work, done = self.works.pop(0)
        try:
            work()
        except StoreError as error:
            done(error)
        else:
            done(None)


@pytest.fixture
def stage(clock, timers):
    """A ledger at the cursor 5."""
    return Stage(clock, timers)


def row(offset):
    """A row."""
    return RetryRow(DoneKey(offset, 0, "r"), 1, Leg.EVENT, 2, 0, None, done=False)


def test_counts_that_cannot_be_written_stop_no_flush(stage, timers):
    """Outcomes of all routes go on; the slots are handed to whoever tells them later."""
    failed, delivered = (Slot(DoneKey(offset, 0, "r"), 1) for offset in (8, 9))
    stage.quota_error = StoreError("locked")
    stage.ledger.free(failed)
    stage.ledger.count(delivered)
    stage.ledger.done(DoneKey(8, 0, "r"), 1)
    timers.advance(FLUSH_S)
    stage.medium()
    assert [call[0] for call in stage.calls] == ["flush"]
    assert stage.untold == [([failed], [delivered])]
    assert not stage.failures


def test_slots_are_freed_before_everything_and_counted_after_it(stage, timers):
    """What a crash leaves between is a slot too few, never a delivery too many."""
    failed, delivered = (Slot(DoneKey(offset, 0, "r"), 1) for offset in (8, 9))
    stage.ledger.free(failed)
    stage.ledger.count(delivered)
    stage.ledger.put_row(row(8))
    timers.advance(FLUSH_S)
    stage.medium()
    assert [call[0] for call in stage.calls] == ["free", "flush", "count"]
    assert (stage.calls[0][2], stage.calls[-1][2]) == ([failed], [delivered])


def test_lags_that_have_ended_are_forgotten_with_the_rows(stage, timers):
    """Once the durable cursor has passed where they joined."""
    stage.over = [("q", 3)]
    stage.ledger.put_row(row(8))
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.changes.lags == {("q", 3): None}


def test_cursor_outcomes_and_rows_are_one_flush(stage, timers):
    """The cursor must never pass a match whose row is not durable (rule 1)."""
    stage.point = Point(Mark(9, 90), (), {"q": 7})
    stage.ledger.done(DoneKey(9, 0, "r"), 1)
    stage.ledger.put_row(row(8))
    timers.advance(FLUSH_S)
    stage.medium()
    changes = Changes(rows={row(8).key: row(8)})
    assert stage.calls == [
        ("flush", Batch(Mark(9, 90), [(DoneKey(9, 0, "r"), 1)], changes, {"q": 7}))
    ]
    assert stage.ledger.durable_mark == Mark(9, 90)


def test_outcomes_are_flushed_within_the_promised_time(stage, timers):
    """10 ms after the first of them, not of the last."""
    stage.ledger.done(DoneKey(6, 0, "r"), 1)
    timers.advance(FLUSH_S * 0.9)
    stage.ledger.done(DoneKey(7, 0, "r"), 1)
    assert not stage.works
    timers.advance(FLUSH_S * 0.1)
    assert len(stage.works) == 1


def test_many_outcomes_are_flushed_at_once(stage):
    """1,000 of them wait for no timer."""
    for offset in range(FLUSH_COUNT):
        stage.ledger.done(DoneKey(6 + offset, 0, "r"), 1)
    assert len(stage.works) == 1


def test_one_flush_at_a_time_and_the_next_takes_all_that_came(stage, timers):
    """Group commit: a slow medium makes larger flushes, not more of them."""
    stage.ledger.done(DoneKey(6, 0, "r"), 1)
    timers.advance(FLUSH_S)
    for offset in range(7, 7 + 2 * FLUSH_COUNT):
        stage.ledger.done(DoneKey(offset, 0, "r"), 1)
    timers.advance(1.0)
    assert len(stage.works) == 1
    stage.medium()
    assert len(stage.works) == 1
    stage.medium()
    assert [len(batch.done) for _, batch in stage.calls] == [1, 2 * FLUSH_COUNT]


def test_what_the_cursor_covers_is_not_written_again(stage, timers):
    """An outcome below the cursor is in the cursor; a caught-up one is in no cursor."""
    stage.point = Point(Mark(8, 80))
    stage.ledger.done(DoneKey(7, 0, "r"), 1)
    stage.ledger.done(DoneKey(8, 0, "r"), 1)
    stage.ledger.caught_up(DoneKey(2, 0, "q"), 1)
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.batch.done == [(DoneKey(8, 0, "r"), 1), (DoneKey(2, 0, "q"), 1)]


def test_nothing_is_written_where_nothing_changed(stage):
    """But it is known that the medium says what the owner knows."""
    stage.ledger.flush()
    assert not stage.works
    assert stage.ledger.durable_round == stage.ledger.begun_round == 1


def test_a_cursor_that_moved_without_outcomes_is_written_now_and_then(stage, timers, clock):
    """It only shortens a restart, so it costs few flushes."""
    stage.point = Point(Mark(6, 60))
    stage.ledger.moved()
    timers.advance(FLUSH_S)
    assert not stage.works
    clock.move_to(clock.monotonic_s() + CURSOR_S)
    stage.ledger.moved()
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.calls == [("flush", Batch(Mark(6, 60)))]


def test_a_lag_is_written_as_it_stands_at_the_flush(stage, timers):
    """Not as it began: it may have moved, or joined, before its first flush."""
    joined = LAG._replace(from_offset=9, to_offset=9)
    stage.ledger.put_lag(LAG)
    stage.point = Point(Mark(9, 90), (joined,))
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.changes.lags == {LAG.name: joined}


def test_a_lag_that_ended_is_deleted(stage, timers):
    """Also when it was put in the same flush."""
    stage.ledger.put_lag(LAG)
    stage.ledger.end_lag(LAG.name)
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.changes.lags == {LAG.name: None}


def test_a_void_row_is_deleted_and_not_written(stage, timers):
    """It goes without having been done."""
    stage.ledger.put_row(row(8))
    stage.ledger.forget(DoneKey(8, 0, "r"))
    timers.advance(FLUSH_S)
    stage.medium()
    assert (stage.changes.rows, stage.changes.forget) == ({}, [DoneKey(8, 0, "r")])


def test_rows_that_the_durable_cursor_has_passed_are_forgotten(stage):
    """With the next flush, whatever causes it."""
    stage.forgettable = [DoneKey(3, 0, "r")]
    stage.ledger.flush()
    stage.medium()
    assert stage.changes.forget == [DoneKey(3, 0, "r")]


def test_a_kept_dead_letter_is_in_the_store_before_its_outcome_counts(stage, timers):
    """Both in one flush."""
    key = DoneKey(6, 0, "r")
    letter = DeadLetter(key, 1, Failure("status-400", "http://s/"), b"", 0)
    stage.ledger.keep(letter)
    stage.ledger.done(key, 1)
    timers.advance(FLUSH_S)
    stage.medium()
    assert (stage.batch.done, stage.changes.dead_letters) == ([(key, 1)], [letter])


def test_a_flush_that_fails_stops_everything(stage, timers):
    """It is told once; no further flush is tried, and the cursor stays where it was."""
    stage.error = StoreError("no room")
    stage.ledger.put_row(row(8))
    stage.point = Point(Mark(9, 90))
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.failures == [stage.error]
    assert stage.calls == []
    stage.error = None
    stage.ledger.done(DoneKey(9, 0, "r"), 1)
    stage.ledger.flush()
    timers.advance(10.0)
    assert not stage.works
    assert stage.ledger.durable_mark == Mark(5, 50)


def test_a_drain_learns_when_all_is_durable(stage, timers):
    """A flush under way is not enough: what came meanwhile must follow it."""
    told = []
    stage.ledger.done(DoneKey(6, 0, "r"), 1)
    timers.advance(FLUSH_S)
    stage.ledger.done(DoneKey(7, 0, "r"), 1)
    stage.ledger.when_durable(lambda: told.append(True))
    stage.medium()
    assert not told
    stage.medium()
    assert told == [True]
    assert not stage.works


def test_a_drain_of_a_ledger_at_rest_is_told_at_once(stage):
    """There is nothing to wait for."""
    told = []
    stage.ledger.when_durable(lambda: told.append(True))
    assert told == [True]


def test_a_drain_of_a_dead_ledger_ends(stage, timers):
    """Before and after the failure: nobody waits for ever."""
    told = []
    stage.error = StoreError("no room")
    stage.ledger.put_row(row(8))
    timers.advance(FLUSH_S)
    stage.ledger.when_durable(lambda: told.append("before"))
    stage.medium()
    stage.ledger.when_durable(lambda: told.append("after"))
    assert told == ["before", "after"]


def test_a_row_that_changes_before_its_flush_keeps_its_event(stage, timers):
    """A reply that became a dead letter is in that flush or nowhere."""
    letter = row(8)._replace(leg=Leg.DEAD_LETTER, event=b"reply")
    stage.ledger.put_row(letter)
    stage.ledger.put_row(letter._replace(attempt=3, event=IN_STORE))
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.changes.rows == {letter.key: letter._replace(attempt=3)}
    stage.ledger.put_row(letter._replace(attempt=4, event=IN_STORE))
    stage.ledger.put_row(letter._replace(done=True, event=None))
    timers.advance(FLUSH_S)
    stage.medium()
    assert stage.changes.rows == {letter.key: letter._replace(done=True, event=None)}
