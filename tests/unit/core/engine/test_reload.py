"""Rows that are read again, with an event of their own."""

from types import SimpleNamespace

import pytest

from distributary.core.engine.reads import NoTask
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import DoneKey, RecordKind, Stage
from distributary.core.outcome import IN_STORE, RetryRow
from distributary.partitions._reload import Reload
from distributary.partitions.recalls import LogAlone
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock

ATTRIBUTES = {"specversion": "1.0", "source": "/s", "type": "t"}


class AtOnce:
    """Runs reads at once."""

    def run(self, read, then):
        read()
        then()


@pytest.mark.parametrize("records", [0, 1])
def test_a_row_with_an_event_of_its_own_needs_no_record(records):
    """Retention took the record, or the medium lost it and another has its position by now."""
    another, kept = (Event(ATTRIBUTES | {"id": name}, b"") for name in ("another", "kept"))
    log, told = MemoryLog(VirtualClock()), []
    log.append([(RecordKind.EVENTS, event_record.encode([another]))] * records)
    row = RetryRow(DoneKey(0, 0, "r"), 1, Stage.PRIMARY, 1, 0, None, done=False, event=IN_STORE)
    stored = {row.key: event_record.encode([kept])}
    context = SimpleNamespace(
        partition=0,
        kept=lambda: LogAlone(log),
        ownership=SimpleNamespace(store=SimpleNamespace(row_event=stored.get)),
    )
    Reload(context, AtOnce(), lambda _key: False).read([row], told.extend)
    ((_, task),) = told
    assert task.event == kept
    assert task.route == row.key.route


def test_a_row_whose_newer_event_is_on_its_way_to_the_store_waits_for_it():
    """The store still has the one before: a redriven dead letter, not the one that it became."""
    older = Event(ATTRIBUTES | {"id": "older"}, b"")
    row = RetryRow(DoneKey(0, 0, "r"), 1, Stage.PRIMARY, 1, 0, None, done=False, event=IN_STORE)
    store = SimpleNamespace(row_event={row.key: event_record.encode([older])}.get)
    context = SimpleNamespace(
        partition=0,
        kept=lambda: LogAlone(MemoryLog(VirtualClock())),
        ownership=SimpleNamespace(store=store),
    )
    told, coming = [], {row.key}
    reload = Reload(context, AtOnce(), coming.__contains__)
    reload.read([row], told.extend)
    coming.clear()
    reload.read([row], told.extend)
    (_, first), (_, then) = told
    assert (first, then.event) == (NoTask.LATER, older)


class Arriving:
    """Records of an archive that arrive when somebody has asked for them."""

    def __init__(self, log):
        self._log = log
        self._here = False

    def archived_to(self):
        return 100

    def readable_to(self, from_offset, to_offset):
        here, self._here = self._here, True
        return to_offset if here else from_offset

    def read(self, from_offset, to_offset):
        here, self._here = self._here, True
        return self._log.read(from_offset, to_offset) if here else iter(())


def test_a_row_waits_for_what_arrives_while_it_is_read():
    """It is no row whose record is gone, which would be deleted."""
    event = Event(ATTRIBUTES | {"id": "1"}, b"")
    log, told = MemoryLog(VirtualClock()), []
    log.append([(RecordKind.EVENTS, event_record.encode([event]))])
    row = RetryRow(DoneKey(0, 0, "r"), 1, Stage.PRIMARY, 1, 0, None, done=False)
    records = Arriving(log)
    context = SimpleNamespace(
        partition=0,
        kept=lambda: records,
        ownership=SimpleNamespace(store=None),
    )
    reload = Reload(context, AtOnce(), lambda _key: False)
    reload.read([row], told.extend)
    reload.read([row], told.extend)
    assert [task if isinstance(task, NoTask) else task.event for _, task in told] == [
        NoTask.RECALLED,
        event,
    ]


class Moving:
    """A record that is in the archive alone by the time at which it is read."""

    def __init__(self):
        self._starts = iter((0, 100, 100))

    def archived_to(self):
        return next(self._starts)

    def readable_to(self, from_offset, _to_offset):
        return from_offset

    def read(self, _from_offset, _to_offset):
        return iter(())


def test_a_row_waits_for_what_retention_takes_while_it_is_read():
    """Its record has gone to the archive, and is to come from there."""
    row, told = RetryRow(DoneKey(0, 0, "r"), 1, Stage.PRIMARY, 1, 0, None, done=False), []
    context = SimpleNamespace(partition=0, kept=Moving, ownership=SimpleNamespace(store=None))
    Reload(context, AtOnce(), lambda _key: False).read([row], told.extend)
    assert [task for _, task in told] == [NoTask.RECALLED]
