"""Rows that wait: by time, parked, finished, void."""

import tracemalloc

import pytest
from msgspec.structs import replace

from distributary.core.engine import EngineLimits
from distributary.core.engine.limits import ROW_TASK_BYTES
from distributary.core.engine.retry_rows import RetryRows
from distributary.core.event import Event
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import RetryRow

URI = "http://sink.example/"


def row(offset):
    """A row."""
    return RetryRow(DoneKey(offset, 0, "r"), 1, Stage.PRIMARY, 2, 0, None, done=False)


@pytest.fixture
def waiting():
    """Rows 1, 2 and 3, due at 30, 10 and 20 seconds."""
    waiting = RetryRows(EngineLimits())
    for offset, due_s in ((1, 30.0), (2, 10.0), (3, 20.0)):
        waiting.put(row(offset), due_s, None)
    return waiting


def test_rows_come_when_they_are_due_and_once(waiting):
    """In the order of their times."""
    assert waiting.next_due_s() == 10.0
    assert waiting.pop_due(9.9, 10) == []
    assert waiting.pop_due(20.0, 10) == [row(2), row(3)]
    assert waiting.pop_due(20.0, 10) == []
    assert waiting.next_due_s() == 30.0


def test_no_more_rows_come_than_were_asked_for(waiting):
    """A crowd that is due in one moment is taken in slices."""
    assert waiting.pop_due(99.0, 2) == [row(2), row(3)]
    assert waiting.pop_due(99.0, 2) == [row(1)]


def test_a_finished_row_never_becomes_due(waiting):
    """It stays until it is forgotten, and is marked done."""
    assert waiting.finish(DoneKey(2, 0, "r")).done
    assert waiting.finished[DoneKey(2, 0, "r")].done
    assert waiting.pop_due(99.0, 9) == [row(3), row(1)]
    assert waiting.finish(DoneKey(2, 0, "r")) is None


def test_a_row_that_is_put_again_is_due_at_its_new_time_alone(waiting):
    """An old time must not hand it out while its attempt is under way."""
    waiting.put(row(2)._replace(attempt=3), 40.0, None)
    assert waiting.pop_due(39.0, 9) == [row(3), row(1)]
    assert [found.attempt for found in waiting.pop_due(40.0, 9)] == [3]


def test_a_void_row_leaves_no_trace(waiting):
    """Neither its time nor its parking place hands out the row that takes its key later."""
    key = DoneKey(2, 0, "r")
    waiting.defer(key, URI)
    waiting.drop(key)
    waiting.put(row(2), 50.0, None)
    assert waiting.pop_deferred(URI) is None
    assert waiting.pop_due(49.0, 9) == [row(3), row(1)]


def test_parked_rows_leave_oldest_first_and_once(waiting):
    """Only those of the sink that has room."""
    for found in waiting.pop_due(99.0, 9):
        waiting.defer(found.key, URI if found.key.offset != 3 else "http://other.example/")
    assert waiting.deferred_uris(9) == [URI, "http://other.example/"]
    assert [waiting.pop_deferred(URI) for _ in range(3)] == [row(2), row(1), None]
    assert waiting.deferred_uris(9) == ["http://other.example/"]


def test_a_parked_row_that_is_finished_meanwhile_is_passed_over(waiting):
    """Its route may have been deleted while it was parked."""
    waiting.defer(DoneKey(1, 0, "r"), URI)
    waiting.defer(DoneKey(3, 0, "r"), URI)
    waiting.finish(DoneKey(1, 0, "r"))
    assert waiting.pop_deferred(URI) == row(3)
    assert waiting.deferred_uris(9) == []


def test_events_are_held_while_there_is_room(make_task):
    """Beyond that a row is read from the log again, so that memory stays bounded in bytes."""
    tasks = [make_task(offset) for offset in range(3)]
    size = ROW_TASK_BYTES + len(tasks[0].event.data or b"")
    waiting = RetryRows(EngineLimits(row_events_bytes_max=2 * size))
    for task in tasks:
        waiting.put(row(task.position.offset), 1.0, task)
    assert [waiting.held(DoneKey(n, 0, "r")) for n in range(3)] == [tasks[0], tasks[1], None]
    waiting.put(row(1), 2.0, tasks[1])  # one that is held already needs no new room
    assert waiting.held(DoneKey(1, 0, "r")) is tasks[1]
    waiting.finish(DoneKey(0, 0, "r"))
    waiting.put(row(2), 2.0, tasks[2])
    assert waiting.held(DoneKey(2, 0, "r")) is tasks[2]


def test_an_event_that_changes_while_it_is_held_leaves_no_trace(make_task):
    """It became a dead letter, perhaps another event of another size, before it waits again."""
    waiting = RetryRows(EngineLimits(row_events_bytes_max=ROW_TASK_BYTES + 1_000))
    for offset, before, after in ((0, 900, 1), (1, 900, 1), (2, 1, 900), (3, 1, 900)):
        task, key = make_task(offset), DoneKey(offset, 0, "r")
        task = replace(task, event=Event(task.event.attributes, b"x" * before))
        waiting.put(row(offset), 1.0, task)
        assert waiting.held(key) is task
        task = replace(task, event=Event(task.event.attributes, b"y" * after))
        waiting.put(row(offset), 2.0, task)
        assert waiting.held(key) is task
        waiting.finish(key)


def test_large_attributes_count(make_task):
    """A sink may reply with a megabyte of them, and no data."""
    waiting = RetryRows(EngineLimits(row_events_bytes_max=4 * ROW_TASK_BYTES))
    task = make_task(0)
    task = replace(task, event=Event({**task.event.attributes, "large": "x" * 60_000}, None))
    waiting.put(row(0), 1.0, task)
    assert waiting.held(DoneKey(0, 0, "r")) is None


def test_a_route_is_crowded_by_its_own_rows_alone():
    """Rows that are done or void make room again; putting one twice counts once."""
    waiting = RetryRows(EngineLimits(rows_per_route_max=4))
    for offset in (0, 1, 2, 2):
        waiting.put(row(offset), 1.0, None)
    assert not waiting.saturated("r")
    waiting.put(row(3), 1.0, None)
    assert waiting.saturated("r")
    assert not waiting.saturated("other")
    waiting.finish(DoneKey(0, 0, "r"))
    assert not waiting.saturated("r")
    assert waiting.saturated("r", 0.5)
    for offset in (1, 2):
        waiting.drop(DoneKey(offset, 0, "r"))
    assert not waiting.saturated("r", 0.5)


def test_the_lowest_record_that_a_row_needs(waiting):
    """What is done needs its record no more."""
    assert waiting.lowest_offset() == 1
    waiting.finish(DoneKey(1, 0, "r"))
    assert waiting.lowest_offset() == 2
    assert RetryRows(EngineLimits()).lowest_offset() is None


def test_nothing_is_remembered_of_rows_that_came_and_went_above_one_that_stays(waiting):
    """A parked row may wait for weeks, and a million rows a day come and go above it."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for offset in range(10, 30_000):
        waiting.add(row(offset))
        waiting.finish(DoneKey(offset, 0, "r"))
        waiting.finished.clear()
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now - before < 500_000
    assert waiting.lowest_offset() == 1
    waiting.finish(DoneKey(1, 0, "r"))
    assert waiting.lowest_offset() == 2


def test_hastened_rows_are_due_now_and_wait_for_nothing_else(waiting):
    """Room at the sink must not hand one out again while its event is read or sent."""
    assert waiting.pop_due(20.0, 9) == [row(2), row(3)]
    waiting.defer(row(2).key, URI)
    waiting.defer(row(3).key, URI)
    waiting.hasten([row(1), row(3)], 20.0)
    assert waiting.pop_due(20.0, 9) == [row(1), row(3)]
    assert waiting.pop_deferred(URI) == row(2)
    assert waiting.pop_deferred(URI) is None
    assert waiting.idle() == set()


def test_nothing_is_remembered_of_a_time_that_a_row_had_before(waiting):
    """A row that waits for a day may be made due, and fail again, many times a second."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(20_000):
        waiting.put(row(1), 86_400.0, None)
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now - before < 500_000
    assert waiting.pop_due(86_400.0, 9) == [row(2), row(3), row(1)]
    assert waiting.next_due_s() is None


def test_the_rows_of_a_route_that_have_a_time(waiting):
    """Neither those of a route whose name holds this one, nor those under way."""
    waiting.put(row(4)._replace(key=DoneKey(4, 0, "r2")), 5.0, None)
    waiting.pop_due(10.0, 9)
    assert waiting.waiting(["r"]) == [row(1), row(3)]
    assert waiting.waiting(["r2", "s"]) == []
