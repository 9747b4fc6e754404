"""Attempts are held back while too much is not durable, and somebody learns of it."""

import pytest

from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import DeadLetter, Failure, RetryRow
from distributary.partitions._flusher import FLUSH_S
from distributary.partitions._unwritten import TELL_S, TOLD_S_MIN, UNWRITTEN_BYTES_MAX

SECONDS = "attempts_held_back_seconds_total"


@pytest.fixture
def rig(make_flusher_rig):
    """A flusher."""
    return make_flusher_rig()


def row(offset):
    """A row."""
    return RetryRow(DoneKey(offset, 0, "r"), 1, Stage.PRIMARY, 2, 0, None, done=False)


QUARTER = b"x" * (UNWRITTEN_BYTES_MAX // 4)


def letter(offset, event=QUARTER):
    """A dead letter."""
    return DeadLetter(DoneKey(offset, 0, "r"), 1, Failure("status-400", "http://s/"), event, 0)


def test_nothing_is_taken_on_while_too_much_is_not_durable(rig, timers):
    """What is being written counts until it is durable; then attempts start again."""
    for offset in range(3):
        rig.flusher.keep(letter(offset))
    timers.advance(FLUSH_S)
    rig.flusher.put_row(row(3))
    assert not rig.flusher.unwritten.crowded
    rig.flusher.put_row(row(4)._replace(event=QUARTER))
    assert (rig.flusher.unwritten.crowded, len(rig.holds)) == (True, 1)
    rig.flusher.keep(letter(5))
    rig.medium()
    assert (rig.flusher.unwritten.crowded, len(rig.holds)) == (False, 0)
    timers.advance(FLUSH_S)
    rig.medium()
    assert len(rig.changes.rows) == 2


def test_what_has_grown_during_a_flush_holds_on(rig, timers):
    """Another flush has to follow first."""
    rig.flusher.keep(letter(0))
    timers.advance(FLUSH_S)
    for offset in range(1, 5):
        rig.flusher.keep(letter(offset))
    rig.medium()
    assert rig.flusher.unwritten.crowded
    timers.advance(FLUSH_S)
    rig.medium()
    assert (rig.flusher.unwritten.crowded, len(rig.holds)) == (False, 0)


def held(rig, timers, seconds):
    """Let the disk take so long for what crowds the memory."""
    for offset in range(4):
        rig.flusher.keep(letter(offset))
    timers.advance(FLUSH_S)
    timers.advance(seconds)
    rig.medium()


def test_the_time_of_a_hold_is_counted_while_it_lasts(rig, timers):
    """Not only once the disk answers: it may never do so."""
    assert rig.meter.counters[SECONDS] == 0
    for offset in range(4):
        rig.flusher.keep(letter(offset))
    timers.advance(5.0)
    rig.flusher.tick()
    assert rig.meter.counters[SECONDS] == pytest.approx(5.0)
    timers.advance(2.0)
    rig.medium()
    timers.advance(10.0)
    rig.flusher.tick()
    assert rig.meter.counters[SECONDS] == pytest.approx(7.0)


def test_long_holds_are_told_once_a_minute(rig, timers):
    """Many short ones as one long one."""
    for _ in range(4):
        held(rig, timers, TOLD_S_MIN / 3)
        rig.flusher.tick()
    assert rig.warnings == []
    timers.advance(TELL_S)
    rig.flusher.tick()
    rig.flusher.tick()
    ((event, fields),) = rig.warnings
    assert event == "attempts-held-back"
    assert fields["held_s"] == pytest.approx(4 / 3 * TOLD_S_MIN, abs=0.1)
    assert fields["of_s"] >= TELL_S


def test_short_holds_are_not_told(rig, timers):
    """A burst of dead letters is nothing to wake somebody for."""
    for _ in range(3):
        held(rig, timers, TOLD_S_MIN / 2)
        timers.advance(TELL_S)
        rig.flusher.tick()
    assert rig.warnings == []
