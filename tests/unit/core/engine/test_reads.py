"""Rows whose task is read again: how many at a time."""

import pytest

from distributary.core.engine import EngineLimits
from distributary.core.engine.reads import Reads
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import RetryRow

URI = "http://a.example/"
MAX = EngineLimits().reads_max


@pytest.fixture
def batches():
    """What was read, in one go each."""
    return []


@pytest.fixture
def reads(batches):
    """Rows to read; each call for it is a batch that begins."""
    made = Reads(EngineLimits(), lambda: batches.append(made.take_batch()))
    return made


def row(offset):
    """A row whose event is the log's."""
    return RetryRow(DoneKey(offset, 0, "r"), 1, Stage.PRIMARY, 1, 0, None, done=False)


def test_rows_beyond_the_room_are_read_next(reads, batches):
    """Who asks all the same is served, and there is no room until then, nor less than none.

    A batch never holds more events than may be read at a time, whatever was granted.
    """
    rows = [row(offset) for offset in range(2 * MAX + 5)]
    for each in rows:
        reads.ask(each)
    assert reads.capacity() == 0
    for _ in range(3):
        reads.done()
        reads.go_on()
    ends = (1, MAX + 1, 2 * MAX + 1)
    assert batches == [rows[:1], *(rows[at : at + MAX] for at in ends)]
    assert reads.capacity() == MAX - len(batches[-1])
    reads.done()
    assert reads.go_on() == []
    assert reads.capacity() == MAX


def test_a_sink_that_takes_all_is_read_for_more_at_a_time(reads):
    """One row, two, four: so little is read for nothing while a sink takes none."""
    for count in (1, 2, 4):
        assert reads.may_ask(URI) == count
        reads.ask(row(count))
        reads.come_back(URI)
        reads.done()
        assert reads.go_on() == [URI]
    reads.over(URI)
    assert reads.may_ask(URI) == 1
