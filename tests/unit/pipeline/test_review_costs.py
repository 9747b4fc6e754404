"""What many lags, many matches and many rows cost."""

import pytest

from distributary.event import Event
from distributary.event import record as event_record
from distributary.flow import Kind, RouteRecord, encode_route
from distributary.outcome import DoneKey, LagRow, Mark, RetryRow
from distributary.pipeline._catch_up import SLICE_RECORDS, CatchUp, Lag
from distributary.pipeline._standing import ROWS_FEW
from distributary.pipeline._tracker import LISTED_MAX, Tracker
from distributary.testing.memory_log import MemoryLog

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")


class _Log(MemoryLog):
    closed = 0

    def close(self):
        self.closed += 1


class _Offers:
    def __init__(self):
        self.tasks = []

    def offer_catch_up(self, task):
        self.tasks.append(task)
        return True

    def is_done(self, _task):
        return False


@pytest.fixture
def log(clock):
    """A thousand records of one event."""
    made = _Log(clock)
    made.append([(Kind.EVENTS, event_record.encode([EVENT]))] * 1000)
    return made


@pytest.fixture
def ended():
    """Names of the lags that have ended."""
    return []


@pytest.fixture
def catch_up(log, ended):
    """Lags of a live reader that stands at the end."""
    return CatchUp(live=log.durable_end, comfortable=lambda _route: True, ended=ended.append)


def _lag(log, route, offers, *, types=("other",)):
    record = RouteRecord(seq=1, op="put", uid=route, revision=1, types=types)
    return Lag(0, LagRow(route, 0, 0, 0, None, encode_route(record)), log, offers)


def test_all_lags_share_one_slice_of_a_turn(log, catch_up, ended):
    """Live events wait for one slice, not one a route; and every lag has its turn."""
    lags = [_lag(log, f"r{number}", _Offers()) for number in range(10)]
    for lag in lags:
        catch_up.add(lag)
    turns = 0
    more = True
    while more:
        before = sum(lag.next_offset for lag in lags)
        more = catch_up.advance()
        assert sum(lag.next_offset for lag in lags) - before <= SLICE_RECORDS
        turns += 1
    assert turns >= 10 * 1000 // SLICE_RECORDS
    assert len(ended) == 10


def test_a_lag_that_ends_closes_its_reader(log, catch_up):
    """Lags come and go as sinks do: each must give its file back."""
    catch_up.add(_lag(log, "r", _Offers()))
    while catch_up.advance():
        pass
    assert not len(catch_up)
    assert log.closed == 1


def test_lags_that_are_dropped_or_left_close_their_readers(log, catch_up):
    """A deleted route, and an owner that goes."""
    catch_up.add(_lag(log, "r", _Offers()))
    catch_up.add(_lag(log, "q", _Offers()))
    catch_up.drop("r")
    catch_up.close()
    assert log.closed == 2


def test_a_task_is_finished_in_the_lag_that_brought_it(log, catch_up, ended):
    """Only then does the lag end."""
    offers = _Offers()
    catch_up.add(_lag(log, "r", offers, types=()))
    catch_up.add(_lag(log, "q", _Offers()))
    while catch_up.advance():
        pass
    assert catch_up.floors() == {"r": 0}
    for task in offers.tasks:
        catch_up.finish(task)
    catch_up.advance()
    assert set(ended) == {("r", 0), ("q", 0)}


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


def test_finished_rows_are_looked_through_once_a_second(tmp_path):
    """A flush comes every 10 ms, and a stuck match may keep 100,000 of them."""
    from distributary.testing.simulation import Partition  # noqa: PLC0415 - heavy, for one test

    partition = Partition(tmp_path)
    partition.start()
    settle = partition.owner._settle
    asked = []

    def needed(route, _offset):
        asked.append(route)
        return True

    key = DoneKey(0, 0, "r")
    settle._waiting.finished[key] = RetryRow(key, 1, 1, 1, 0, None, done=True)
    partition.advance(2.0)
    settle._waiting.finished[key] = RetryRow(key, 1, 1, 1, 0, None, done=True)
    for _ in range(5):
        settle.forgettable(1, needed)
    assert len(asked) <= 1
    partition.close()


def test_what_rows_need_is_looked_for_once_a_second(tmp_path, monkeypatch):
    """There may be 100,000 rows, and the board is written ten times a second."""
    from distributary.pipeline import Word  # noqa: PLC0415 - as below
    from distributary.testing.simulation import Partition  # noqa: PLC0415 - heavy, for one test

    partition = Partition(tmp_path)
    partition.put_route("r", "http://sink.example/")
    partition.start()
    asked = []
    settle = partition.owner._settle
    monkeypatch.setattr(settle, "lowest_offset", lambda: asked.append(1))
    monkeypatch.setattr(type(settle), "waiting_count", ROWS_FEW + 1)
    for _ in range(50):
        partition.publish("a")
        partition.advance(0.1)
    assert 3 <= len(asked) <= 6
    assert partition.board[Word.KEEP_FROM] > 25
    partition.close()
