"""Owners of a partition, one after the other in one process: nothing of a former one stays."""

import gc
import threading
import time
import tracemalloc
import weakref
from contextlib import closing

import msgspec
import pyarrow as pa
import pytest
import sqlalchemy as sa

from distributary.core.clock import SystemClock
from distributary.core.event import Event, record
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, Reader
from distributary.datadir import ConsumerPhase, DataDir, MappedStatusPage, StatusField
from distributary.partitions import PartitionSession, SessionSettings
from distributary.spark import _delivery_task
from kit.filled_data import fill

pytestmark = pytest.mark.slow

ROUTES = 300
OWNERS = 20
GROWTH_BYTES_MAX = 400_000
"""Of all these owners together; the routes and targets of a single one are larger."""

MEND_S_MAX = 60.0
"""A partition that is not tried again within this never is."""


@pytest.fixture
def settings(tmp_path):
    """Of owners of a partition with many routes."""
    paths = DataDir(tmp_path / "data")
    fill(
        paths,
        ROUTES,
        1,
        lambda n: {
            "sink": f"http://127.0.0.1:9/{n}",
            "protocol": "HTTP",
            "filters": [{"exact": {"type": f"com.example.t{n}"}}],
        },
    )
    return SessionSettings(data_dir=str(paths.root), log_level="error")


def row(epoch):
    """What a reader sends first: where it reads, and nothing of it."""
    return pa.record_batch(
        [
            pa.array([0], pa.int32()),
            pa.array([epoch], pa.int64()),
            pa.array([1], pa.int64()),
            pa.array([0], pa.int64()),
            pa.array([b""], pa.binary()),
        ],
        names=["partition", "epoch", "reader", "to_offset", "chunk"],
    )


def test_nothing_of_a_former_owner_stays(settings, monkeypatch):
    """Twenty rollovers in one worker cost no memory, and no owner outlives its session."""
    owners = []

    class Noted(PartitionSession):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            owners.append(weakref.ref(self.consumer))

    monkeypatch.setattr(_delivery_task, "PartitionSession", Noted)
    words = msgspec.json.encode(settings).decode()

    def own(epoch):
        _delivery_task.run(iter([row(epoch)]), words)

    for epoch in range(3):  # what is made once
        own(epoch)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for epoch in range(OWNERS):
            own(epoch)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [consumer() for consumer in owners if consumer() is not None] == []
    assert after - before < GROWTH_BYTES_MAX


def test_a_partition_that_cannot_be_owned_waits_in_its_task(settings):
    """It is tried again until it can be; a task that fails instead ends all others."""
    paths = DataDir.of(settings.data_dir)
    status_page = MappedStatusPage(paths.status_page(0))
    damaged = paths.delivery_db(0)
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(b"this is no database" * 100)
    phases = []

    def rows():
        yield row(1)
        until_s = time.monotonic() + MEND_S_MAX
        while (
            status_page[StatusField.PHASE] != ConsumerPhase.RUNNING and time.monotonic() < until_s
        ):
            phases.append((status_page[StatusField.PHASE], status_page[StatusField.FAILURES]))
            if len(phases) == 10:
                damaged.unlink()
            time.sleep(0.05)
            yield row(1)
        phases.append((status_page[StatusField.PHASE], status_page[StatusField.FAILURES]))
        status_page[StatusField.END_EPOCH] = 1

    _delivery_task.run(rows(), msgspec.json.encode(settings).decode())
    assert phases[0] == (ConsumerPhase.ABSENT, 1)
    assert phases[-1][0] == ConsumerPhase.RUNNING
    assert status_page[StatusField.FAILURES] == 0


def test_no_statement_runs_on_the_loop_of_a_session(settings):
    """Whoever holds a store holds up no sink: statements run in threads beside the loop."""
    threads = set()

    def statement(*_arguments):
        threads.add(threading.current_thread().name)

    paths = DataDir.of(settings.data_dir)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "com.example.t0"}, b"x")
    appender = Appender.open(paths.log, 0, clock=SystemClock())
    begin = appender.append([(RecordKind.EVENTS, record.encode([event] * 5))])
    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    try:
        session = PartitionSession(0, 1, settings)
        with closing(Reader(paths.log, 0)) as reader:
            chunk, after = reader.read_chunk(begin, 1 << 20)
        session.feed(after, chunk)
        status_page = MappedStatusPage(paths.status_page(0))
        until_s = time.monotonic() + 60.0
        while status_page[StatusField.WAITING] < 5 and time.monotonic() < until_s:
            time.sleep(0.05)  # nobody listens at the sink: each match waits as a row
        assert status_page[StatusField.WAITING] == 5
        session.close(orderly=True)
        status_page.close()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", statement)
        appender.close()
    assert {"flush-p0_0", "reading-p0_0"} <= threads
    assert "owner-p0" not in threads
