"""What a flush writes, in which order, and what happens when it cannot."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark, Stage
from distributary.core.outcome import (
    IN_STORE,
    BackfillRow,
    Batch,
    Changes,
    DeadLetter,
    Failure,
    RetryRow,
)
from distributary.partitions._flusher import (
    CURSOR_S,
    FEW_COUNT,
    FLUSH_AWAY_S,
    FLUSH_COUNT,
    FLUSH_S,
    Point,
)

BACKFILL = BackfillRow("q", 3, 0, 3, None, b"{}")


@pytest.fixture
def rig(make_flusher_rig):
    """A flusher at the cursor 5."""
    return make_flusher_rig()


@pytest.fixture
def away(make_flusher_rig):
    """A flusher whose state is on another machine."""
    return make_flusher_rig(local=False)


def row(offset):
    """A row."""
    return RetryRow(DoneKey(offset, 0, "r"), 1, Stage.PRIMARY, 2, 0, None, done=False)


def test_few_outcomes_are_a_small_flush(rig, timers):
    """One write and one sync."""
    for offset in range(FEW_COUNT):
        rig.flusher.done(DoneKey(8 + offset, 0, "r"), 0)
    timers.advance(FLUSH_S)
    rig.medium()
    assert (len(rig.batch.done), rig.small.count) == (FEW_COUNT, 1)


def test_outcomes_wait_longer_for_another_machine(away, timers):
    """A flush costs as much as many deliveries: so it has many, also after another flush."""
    away.flusher.done(DoneKey(8, 0, "r"), 0)
    away.flusher.backfilled(DoneKey(3, 0, "r"), 0)
    timers.advance(FLUSH_S)
    assert not away.works
    timers.advance(FLUSH_AWAY_S - FLUSH_S)
    assert len(away.works) == 1
    away.flusher.done(DoneKey(9, 0, "r"), 0)
    away.medium()
    timers.advance(FLUSH_S)
    assert not away.works
    timers.advance(FLUSH_AWAY_S - FLUSH_S)
    away.medium()
    assert [key.offset for key, _crc in away.batch.done] == [9]


def test_who_waits_for_another_machine_takes_the_outcomes_along(away, timers):
    """A reservation waits for its flush, and so does a retry: as long as on one machine."""
    away.flusher.done(DoneKey(8, 0, "r"), 0)
    away.asked = "told"
    away.flusher.ask()
    timers.advance(FLUSH_S)
    away.medium()
    assert ("after", "told") in away.calls
    assert [key.offset for key, _crc in away.batch.done] == [8]
    timers.advance(FLUSH_AWAY_S)
    assert not away.works  # nothing is left


def test_many_outcomes_are_flushed_at_once_wherever_they_go(away):
    """Of the live path, and of a backfill."""
    for note in (away.flusher.done, away.flusher.backfilled):
        for offset in range(FLUSH_COUNT):
            note(DoneKey(8 + offset, 0, "r"), 0)
        assert len(away.works) == 1
        away.medium()


def test_many_outcomes_rows_and_counts_are_none(rig, timers):
    """They take long, or need SQL: a thread waits for them."""
    for offset in range(FEW_COUNT + 1):
        rig.flusher.done(DoneKey(8 + offset, 0, "r"), 0)
    timers.advance(FLUSH_S)
    rig.medium()
    rig.flusher.put_row(row(50))
    timers.advance(FLUSH_S)
    rig.medium()
    rig.history.rows = FEW_COUNT + 1, b""
    rig.flusher.ask()
    timers.advance(FLUSH_S)
    rig.medium()
    rig.flusher.done(DoneKey(51, 0, "r"), 0)
    rig.asked = "told"
    timers.advance(FLUSH_S)
    rig.medium()
    assert (len([what for what, *_ in rig.calls if what == "flush"]), rig.small.count) == (4, 0)


def test_counts_are_told_of_failures_first_and_of_the_rest_last(rig, timers):
    """What a crash leaves between is a reservation too few, never a delivery too many."""
    rig.asked = "told"
    rig.flusher.put_row(row(8))
    timers.advance(FLUSH_S)
    assert not rig.asked
    rig.medium()
    assert [call[0] for call in rig.calls] == ["before", "flush", "after"]
    assert rig.calls[0][1] == rig.calls[-1][1] == "told"


def test_what_only_the_counts_are_asked_writes_nothing(rig, timers):
    """All rows are durable already; the next flush takes what came meanwhile."""
    rig.asked = "told"
    rig.flusher.ask()
    timers.advance(FLUSH_S)
    assert rig.calls == [("after", "told")]
    assert not rig.works


def test_what_the_counts_are_asked_during_a_flush_goes_with_the_next_one(rig, timers):
    """Its row may not stand in the one that is under way."""
    rig.flusher.put_row(row(8))
    timers.advance(FLUSH_S)
    rig.asked = "told"
    rig.flusher.ask()
    rig.medium()
    assert ("after", "told") not in rig.calls
    timers.advance(FLUSH_S)
    assert rig.calls[-1] == ("after", "told")


def test_nothing_is_asked_after_a_flush_that_failed(rig, timers):
    """Whether the rows are durable is not known: their matches hold no reservation."""
    rig.asked = "told"
    rig.error = StoreError("full")
    rig.flusher.put_row(row(8))
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.flusher.dead
    assert [call[0] for call in rig.calls] == ["before"]


def test_backfills_that_have_ended_are_forgotten_with_the_rows(rig, timers):
    """Once the durable cursor has passed where they joined."""
    rig.over = [("q", 3)]
    rig.flusher.put_row(row(8))
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.changes.backfills == {("q", 3): None}


def test_cursor_outcomes_and_rows_are_one_flush(rig, timers):
    """The cursor must never pass a match whose row is not durable (rule 1)."""
    rig.point = Point(Mark(9, 90), (), {"q": 7})
    rig.flusher.done(DoneKey(9, 0, "r"), 1)
    rig.flusher.put_row(row(8))
    timers.advance(FLUSH_S)
    rig.medium()
    changes = Changes(rows={row(8).key: row(8)})
    assert rig.calls == [
        ("flush", Batch(Mark(9, 90), [(DoneKey(9, 0, "r"), 1)], changes, {"q": 7}))
    ]
    assert rig.flusher.durable_mark == Mark(9, 90)


def test_outcomes_are_flushed_within_the_promised_time(rig, timers):
    """10 ms after the first of them, not of the last."""
    rig.flusher.done(DoneKey(6, 0, "r"), 1)
    timers.advance(FLUSH_S * 0.9)
    rig.flusher.done(DoneKey(7, 0, "r"), 1)
    assert not rig.works
    timers.advance(FLUSH_S * 0.1)
    assert len(rig.works) == 1


def test_many_outcomes_are_flushed_at_once(rig):
    """1,000 of them wait for no timer."""
    for offset in range(FLUSH_COUNT):
        rig.flusher.done(DoneKey(6 + offset, 0, "r"), 1)
    assert len(rig.works) == 1


def test_one_flush_at_a_time_and_the_next_takes_all_that_came(rig, timers):
    """Group commit: a slow medium makes larger flushes, not more of them."""
    rig.flusher.done(DoneKey(6, 0, "r"), 1)
    timers.advance(FLUSH_S)
    for offset in range(7, 7 + 2 * FLUSH_COUNT):
        rig.flusher.done(DoneKey(offset, 0, "r"), 1)
    timers.advance(1.0)
    assert len(rig.works) == 1
    rig.medium()
    assert len(rig.works) == 1
    rig.medium()
    assert [len(batch.done) for _, batch in rig.calls] == [1, 2 * FLUSH_COUNT]


def test_what_the_cursor_covers_is_not_written_again(rig, timers):
    """An outcome below the cursor is in the cursor; a caught-up one is in no cursor."""
    rig.point = Point(Mark(8, 80))
    rig.flusher.done(DoneKey(7, 0, "r"), 1)
    rig.flusher.done(DoneKey(8, 0, "r"), 1)
    rig.flusher.backfilled(DoneKey(2, 0, "q"), 1)
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.batch.done == [(DoneKey(8, 0, "r"), 1), (DoneKey(2, 0, "q"), 1)]


def test_nothing_is_written_where_nothing_changed(rig):
    """But it is known that the medium says what the owner knows."""
    rig.flusher.flush()
    assert not rig.works
    assert rig.flusher.durable_round == rig.flusher.begun_round == 1


def test_a_cursor_that_moved_without_outcomes_is_written_now_and_then(rig, timers, clock):
    """It only shortens a restart, so it costs few flushes."""
    rig.point = Point(Mark(6, 60))
    rig.flusher.moved()
    timers.advance(FLUSH_S)
    assert not rig.works
    clock.move_to(clock.monotonic_s() + CURSOR_S)
    rig.flusher.moved()
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.calls == [("flush", Batch(Mark(6, 60), backfilling={}))]


def test_a_backfill_is_written_as_it_stands_at_the_flush(rig, timers):
    """Not as it began: it may have moved, or joined, before its first flush."""
    joined = BACKFILL._replace(from_offset=9, to_offset=9)
    rig.flusher.put_backfill(BACKFILL)
    rig.point = Point(Mark(9, 90), (joined,))
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.changes.backfills == {BACKFILL.name: joined}


def test_a_backfill_that_ended_is_deleted(rig, timers):
    """Also when it was put in the same flush."""
    rig.flusher.put_backfill(BACKFILL)
    rig.flusher.end_backfill(BACKFILL.name)
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.changes.backfills == {BACKFILL.name: None}


def test_a_void_row_is_deleted_and_not_written(rig, timers):
    """It goes without having been done."""
    rig.flusher.put_row(row(8))
    rig.flusher.forget(DoneKey(8, 0, "r"))
    timers.advance(FLUSH_S)
    rig.medium()
    assert (rig.changes.rows, rig.changes.forget) == ({}, [DoneKey(8, 0, "r")])


def test_rows_that_the_durable_cursor_has_passed_are_forgotten(rig):
    """With the next flush, whatever causes it."""
    rig.forgettable = [DoneKey(3, 0, "r")]
    rig.flusher.flush()
    rig.medium()
    assert rig.changes.forget == [DoneKey(3, 0, "r")]


def test_a_kept_dead_letter_is_in_the_store_before_its_outcome_counts(rig, timers):
    """Both in one flush."""
    key = DoneKey(6, 0, "r")
    dead_letter = DeadLetter(key, 1, Failure("status-400", "http://s/"), b"", 0)
    rig.flusher.keep(dead_letter)
    rig.flusher.done(key, 1)
    timers.advance(FLUSH_S)
    rig.medium()
    assert (rig.batch.done, rig.changes.dead_letters) == ([(key, 1)], [dead_letter])


def test_a_flush_that_fails_stops_everything(rig, timers):
    """It is told once; no further flush is tried, and the cursor stays where it was."""
    rig.error = StoreError("no room")
    rig.flusher.put_row(row(8))
    rig.point = Point(Mark(9, 90))
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.failures == [rig.error]
    assert rig.calls == []
    rig.error = None
    rig.flusher.done(DoneKey(9, 0, "r"), 1)
    rig.flusher.flush()
    timers.advance(10.0)
    assert not rig.works
    assert rig.flusher.durable_mark == Mark(5, 50)


def test_a_drain_learns_when_all_is_durable(rig, timers):
    """A flush under way is not enough: what came meanwhile must follow it."""
    told = []
    rig.flusher.done(DoneKey(6, 0, "r"), 1)
    timers.advance(FLUSH_S)
    rig.flusher.done(DoneKey(7, 0, "r"), 1)
    rig.flusher.when_durable(lambda: told.append(True))
    rig.medium()
    assert not told
    rig.medium()
    assert told == [True]
    assert not rig.works


def test_a_drain_of_a_ledger_at_rest_is_told_at_once(rig):
    """There is nothing to wait for."""
    told = []
    rig.flusher.when_durable(lambda: told.append(True))
    assert told == [True]


def test_a_drain_of_a_dead_ledger_ends(rig, timers):
    """Before and after the failure: nobody waits for ever."""
    told = []
    rig.error = StoreError("no room")
    rig.flusher.put_row(row(8))
    timers.advance(FLUSH_S)
    rig.flusher.when_durable(lambda: told.append("before"))
    rig.medium()
    rig.flusher.when_durable(lambda: told.append("after"))
    assert told == ["before", "after"]


def test_a_row_that_changes_before_its_flush_keeps_its_event(rig, timers):
    """A reply that became a dead letter is in that flush or nowhere."""
    dead_letter = row(8)._replace(stage=Stage.DEAD_LETTER, event=b"reply")
    rig.flusher.put_row(dead_letter)
    rig.flusher.put_row(dead_letter._replace(attempt=3, event=IN_STORE))
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.changes.rows == {dead_letter.key: dead_letter._replace(attempt=3)}
    rig.flusher.put_row(dead_letter._replace(attempt=4, event=IN_STORE))
    rig.flusher.put_row(dead_letter._replace(done=True, event=None))
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.changes.rows == {dead_letter.key: dead_letter._replace(done=True, event=None)}


def test_the_event_of_a_row_is_on_its_way_until_its_flush_is_durable(rig, timers):
    """Also while the flush is under way, and while a later one changes the row alone."""
    dead_letter = row(8)._replace(stage=Stage.DEAD_LETTER, event=b"reply")
    assert not rig.flusher.brings_event(dead_letter.key)
    rig.flusher.put_row(dead_letter)
    assert rig.flusher.brings_event(dead_letter.key)
    timers.advance(FLUSH_S)
    rig.flusher.put_row(dead_letter._replace(attempt=3, event=IN_STORE))
    assert rig.flusher.brings_event(dead_letter.key)
    rig.medium()
    assert not rig.flusher.brings_event(dead_letter.key)


def test_a_tick_flushes_a_cursor_that_rests_and_sets_no_timer(rig, timers):
    """Only the cursor's interval after the last flush; without news nothing is written."""
    timers.advance(CURSOR_S)
    rig.flusher.tick()
    assert not rig.works
    rig.point = Point(Mark(6, 60))
    rig.flusher.tick()
    assert not rig.works
    timers.advance(CURSOR_S)
    rig.flusher.tick()
    rig.medium()
    assert rig.batch.mark == Mark(6, 60)


def test_rows_of_the_history_ride_in_a_flush(rig, timers):
    """They become durable with the outcomes, and are told so then."""
    rig.history.rows = 2, b"two"
    rig.flusher.done(DoneKey(6, 0, "r"), 66)
    timers.advance(FLUSH_S)
    assert rig.history.flushes == []
    rig.medium()
    assert rig.batch.history == (2, b"two")
    assert rig.history.flushes == [((2, b"two"), 0)]


def test_news_of_files_are_flushed_alone(rig, timers):
    """Also those that come while a flush is under way; said once, they are not said again."""
    rig.flusher.done(DoneKey(6, 0, "r"), 66)
    timers.advance(FLUSH_S)
    rig.history.filed = 4
    rig.flusher.ask()
    rig.medium()
    timers.advance(FLUSH_S)
    rig.medium()
    assert rig.batch.filed == 4
    assert rig.batch.done == []
    rig.flusher.ask()
    timers.advance(FLUSH_S)
    assert rig.works == []
