"""Rows whose task is read again, beside the loop."""

from types import SimpleNamespace

import pytest

from distributary.flow import Leg
from distributary.journal import DoneKey
from distributary.outcome import RetryRow
from distributary.pipeline._reload import READ_MAX, NoTask, Reload
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock


class Later:
    """Runs work when a test says so."""

    def __init__(self):
        self.jobs = []

    def run(self, work, done):
        self.jobs.append((work, done))

    def go(self):
        work, done = self.jobs.pop(0)
        work()
        done(None)


@pytest.fixture
def reading():
    """A reload over an empty log: every row is void."""
    later, told, freed = Later(), [], []
    around = SimpleNamespace(
        partition=0, make_records=lambda: MemoryLog(VirtualClock()), store=None, reading=later
    )
    reload = Reload(
        around, take=lambda row, found: told.append((row, found)), free=freed.append, fail=print
    )
    return SimpleNamespace(reload=reload, later=later, told=told, freed=freed)


def row(offset):
    """A row whose event is the log's."""
    return RetryRow(DoneKey(offset, 0, "r"), 1, Leg.EVENT, 1, 0, None, done=False)


def test_rows_beyond_the_room_are_read_next(reading):
    """Who asks all the same is served, and there is no room until then, nor less than none."""
    rows = [row(offset) for offset in range(READ_MAX + 5)]
    for each in rows:
        reading.reload.ask(each)
    assert reading.reload.room() == 0
    reading.later.go()  # the first, which was asked for while nothing was read
    assert reading.reload.room() == 0
    reading.later.go()
    assert reading.told == [(each, NoTask.VOID) for each in rows]
    assert reading.reload.room() == READ_MAX


def test_a_sink_that_takes_all_is_read_for_more_at_a_time(reading):
    """One row, two, four: so little is read for nothing while a sink takes none."""
    for count in (1, 2, 4):
        assert reading.reload.may_ask("http://a.example/") == count
        reading.reload.ask(row(count))
        reading.reload.come_back("http://a.example/")
        reading.later.go()
    assert reading.freed == [["http://a.example/"]] * 3
    reading.reload.over("http://a.example/")
    assert reading.reload.may_ask("http://a.example/") == 1
