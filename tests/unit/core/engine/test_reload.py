"""Rows whose task is read again, beside the loop."""

from types import SimpleNamespace

import pytest

from distributary.core.engine._reload import READ_MAX, NoTask, Reload
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Kind, Leg
from distributary.core.journal import DoneKey
from distributary.core.outcome import IN_STORE, RetryRow
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock

ATTRIBUTES = {"specversion": "1.0", "source": "/s", "type": "t"}


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
    later, told, freed, stored = Later(), [], [], {}
    log = MemoryLog(VirtualClock())
    around = SimpleNamespace(
        partition=0,
        make_records=lambda: log,
        store=SimpleNamespace(row_event=stored.get),
        reading=later,
    )
    reload = Reload(
        around, take=lambda row, found: told.append((row, found)), free=freed.append, fail=print
    )
    return SimpleNamespace(
        reload=reload, later=later, told=told, freed=freed, log=log, stored=stored
    )


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


@pytest.mark.parametrize("records", [0, 1])
def test_a_row_with_an_event_of_its_own_needs_no_record(reading, records):
    """Retention took the record, or the medium lost it and another has its position by now."""
    another, kept = (Event(ATTRIBUTES | {"id": name}, b"") for name in ("another", "kept"))
    reading.log.append([(Kind.EVENTS, event_record.encode([another]))] * records)
    mine = row(0)._replace(event=IN_STORE)
    reading.stored[mine.key] = event_record.encode([kept])
    reading.reload.ask(mine)
    reading.later.go()
    ((_, task),) = reading.told
    assert task.event == kept
    assert task.route == mine.key.route
