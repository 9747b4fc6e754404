"""Faults on the owner's thread: each stops it in good order, or costs nothing, and never hangs."""

from types import SimpleNamespace

import pytest

from distributary.core.errors import (
    DistributaryError,
    LogDamagedError,
    LogUnavailableError,
    StoreError,
)
from distributary.core.flow import RecordKind, RouteRecord, encode_route
from distributary.datadir import Phase, StatusField
from distributary.partitions import PartitionSession
from distributary.partitions import _progress as standing_module
from distributary.partitions._holding import wait_for_log
from distributary.partitions.consumer import TICK_S
from distributary.partitions.routes import follow_from
from distributary.testing.memory_log import MemoryLog
from kit.simulation.partition import Partition, answers, hangs
from kit.simulation.ports import TargetsView

SINK = "http://sink.example/"


@pytest.fixture
def partition(tmp_path):
    """A partition with one route, and an owner."""
    made = Partition(tmp_path)
    made.put_route("r", SINK)
    made.start()
    yield made
    made.close()


def test_a_full_disk_keeps_the_status_page_written(partition, monkeypatch):
    """The route table is a cache: where it cannot be kept, retention still learns its floor."""

    def full(*_arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(standing_module, "save_table", full)
    for _ in range(30):
        partition.publish("a")
        partition.advance(1.0)
    assert partition.status_page[StatusField.HEARTBEAT_MS] == pytest.approx(
        partition.clock.wall_ms(), abs=200
    )
    assert partition.status_page[StatusField.KEEP_FROM] > 25
    assert "routes-not-kept" in [event for event, _ in partition.warnings]


@pytest.mark.parametrize("status", [503, 400], ids=["retry", "final"])
def test_a_store_that_cannot_be_read_loses_no_answer(partition, monkeypatch, status):
    """An answer that cannot be judged stops the owner; the match is the next owner's."""
    partition.sinks[SINK] = answers(status, after_s=0.5)
    partition.publish("a")
    partition.advance(0.2)

    def broken(*_arguments):
        raise StoreError("the store is locked")

    with monkeypatch.context() as patched:
        patched.setattr(TargetsView, "get", broken)
        partition.advance(1.0)
    assert isinstance(partition.failure, StoreError)
    partition.rest()


def test_a_store_that_cannot_be_read_loses_no_retry(partition, monkeypatch):
    """A due row that cannot be handed out stops the owner instead of being forgotten."""
    partition.sinks[SINK] = answers(503)
    partition.publish("a")
    partition.advance(0.1)
    assert partition.store.kept_rows

    def broken(*_arguments):
        raise StoreError("the store is locked")

    with monkeypatch.context() as patched:
        patched.setattr(TargetsView, "get", broken)
        partition.advance(5.0)
    assert isinstance(partition.failure, StoreError)
    partition.rest()


def test_however_many_ask_backfills_advance_in_one_chain_of_turns(partition, monkeypatch):
    """Each answer and each tick asks; a chain of turns for each would take the whole loop."""
    consumer = partition.consumer
    monkeypatch.setattr(type(consumer._backfills), "__len__", lambda _self: 1)
    monkeypatch.setattr(consumer._engine, "advance", lambda: True)
    before = len(partition.timers._waiting)
    for _ in range(20):
        consumer._on_drained(SINK)
    assert len(partition.timers._waiting) == before + 1
    monkeypatch.setattr(consumer._engine, "advance", lambda: False)


def test_a_drained_owner_lets_the_logs_files_go(partition, monkeypatch):
    """Worker processes are reused: what an owner opens it must close."""
    closed = []
    monkeypatch.setattr(partition.log, "close", lambda: closed.append(1))
    partition.rollover()
    assert closed


@pytest.mark.parametrize("ends", ["joins", "deleted"])
def test_the_last_backfill_that_ends_lets_the_logs_files_go(partition, monkeypatch, ends):
    """However it ends: nothing holds segments that retention has deleted."""
    looks = 2  # where it begins is looked up, and again when retention knows: readers of their own
    closed = []
    monkeypatch.setattr(partition.log, "close", lambda: closed.append(1))
    slow = "http://slow.example/"
    if ends == "deleted":
        partition.sinks[slow] = hangs
    for _ in range(20):
        partition.publish("a")
        partition.advance(0.1)
    partition.put_route("past", slow, begin_ms=0)
    partition.advance(0.3)
    if ends == "deleted":
        assert len(closed) == looks
        partition.delete_route("past")
    partition.advance(5.0)
    assert len(closed) == looks + 1
    partition.rest()


class _DamagedSnapshot(MemoryLog):
    def route_snapshot(self):
        raise LogDamagedError("the snapshot is not what was written")


class _History:
    def __init__(self, records):
        self.records = records

    def last_seq(self):
        return self.records[-1].seq

    def newest_seq(self):
        return self.last_seq()

    def between(self, after_seq, before_seq):
        return [record for record in self.records if after_seq < record.seq < before_seq]


def test_a_damaged_route_snapshot_is_restored_from_the_store(clock, tmp_path):
    """What retention wrote is lost: the store still knows every change (DESIGN rule 4)."""
    log = _DamagedSnapshot(clock)
    changes = [RouteRecord(seq=n, op="put", uid=f"r{n}", revision=1) for n in (1, 2, 3)]
    log.append([(RecordKind.ROUTE, encode_route(change)) for change in changes])
    log.drop(2)
    follower = follow_from(tmp_path / "routes", log, _History(changes), 3)
    assert [record.uid for record in follower.table.records()] == ["r1", "r2", "r3"]


class _End:
    def __init__(self, *ends):
        self.ends = list(ends)

    def durable_end(self):
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]


def test_an_owner_waits_for_a_log_that_is_not_recovered(clock):
    """An end below the cursor is an old one: nothing is concluded from it."""

    def sleep(seconds):
        clock.move_to(clock.monotonic_s() + seconds)

    wait_for_log(_End(0, 0, 7), 7, clock, sleep)
    with pytest.raises(LogUnavailableError, match="has not recovered"):
        wait_for_log(_End(0), 7, clock, sleep)


@pytest.mark.parametrize(
    ("context", "stops"),
    [
        pytest.param({"handle": object()}, True, id="a-callback"),
        pytest.param({"transport": object(), "protocol": object()}, False, id="a-connection"),
    ],
)
def test_a_bug_in_a_callback_stops_the_owner(context, stops):
    """A record that was half taken must not be passed; a connection's bug costs that alone."""
    failures = []
    surroundings = SimpleNamespace(
        _log=SimpleNamespace(error=lambda *_a, **_k: None),
        _closing=False,
        consumer=SimpleNamespace(fail=failures.append),
    )
    PartitionSession._on_loop_error(
        surroundings, None, {"exception": ValueError("x"), "message": "m", **context}
    )
    assert [type(failure) for failure in failures] == [DistributaryError] * stops


def test_requests_on_the_status_page_end_a_wait_of_the_task(clock):
    """Each once, within a tick; nothing else does, so an idle task sleeps."""
    nudges, beats = [], []
    requests = StatusField.STOP, StatusField.END_EPOCH, StatusField.SUCCESSOR
    page = dict.fromkeys(requests, 0)
    page |= {StatusField.EPOCH: 3, StatusField.PHASE: Phase.RUNNING}
    surroundings = SimpleNamespace(
        _status_page=page,
        _epoch=3,
        _words=(0, 0, 0),
        _recalls=None,
        _once=None,
        _clock=clock,
        _beat_s=0.0,
        nudge=lambda: nudges.append(1),
    )
    surroundings._beat = lambda: PartitionSession._beat(surroundings)
    surroundings._guardians = SimpleNamespace(alive=lambda: beats.append(1) or True)
    surroundings._holding = SimpleNamespace(lease=SimpleNamespace(lapsing=False))
    surroundings._held = False
    surroundings._saved_s = float("inf")
    surroundings._tail = SimpleNamespace(look=lambda: None, end=lambda: 0)
    surroundings.consumer = SimpleNamespace(live_offset=0)
    for tick in range(1, 5):
        clock.move_to(clock.monotonic_s() + TICK_S)
        PartitionSession._on_tick(surroundings)
        assert len(beats) == tick // 2
    assert nudges == []
    for count, word in enumerate(requests, start=1):
        page[word] = 7
        PartitionSession._on_tick(surroundings)
        PartitionSession._on_tick(surroundings)
        assert len(nudges) == count
    for epoch, phase in ((3, Phase.RUNNING), (0, Phase.ABSENT)):
        # Late words of the owner before are corrected; those of a driver that counts on others are
        # not.
        page |= {StatusField.EPOCH: epoch, StatusField.PHASE: Phase.ABSENT}
        clock.move_to(clock.monotonic_s() + 2 * TICK_S)
        PartitionSession._on_tick(surroundings)
        assert page[StatusField.PHASE] == phase


def test_an_owner_that_has_failed_goes_on_looking_after_its_parents():
    """Its task may hang, and closes it then only late or never."""
    beats, later = [], []
    surroundings = SimpleNamespace(
        _closing=False,
        _beat=lambda: beats.append(1),
        _loop=SimpleNamespace(call_later=lambda _s, work: later.append(work)),
    )
    surroundings._beat_alone = lambda: PartitionSession._beat_alone(surroundings)
    surroundings._beat_alone()
    later.pop()()
    assert len(beats) == 2
    surroundings._closing = True
    later.pop()()
    assert (len(beats), later) == (2, [])
