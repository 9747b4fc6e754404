"""Owners of a partition, one after the other in one process: nothing of a former one stays."""

import gc
import threading
import time
import tracemalloc
import weakref

import msgspec
import pytest
import sqlalchemy as sa

from distributary.core.clock import SystemClock
from distributary.core.errors import StoreError
from distributary.core.event import Event, record
from distributary.core.flow import RecordKind
from distributary.core.lease import is_held
from distributary.core.log import Appender
from distributary.datadir import (
    DataDir,
    LiveFile,
    LiveSettings,
    MappedStatusPage,
    Phase,
    StatusField,
)
from distributary.partitions import PartitionSession, SessionSettings
from distributary.spark import _delivery_task
from distributary.spark._custody import CUSTODY
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


def test_nothing_of_a_former_owner_stays(settings, monkeypatch):
    """Twenty rollovers in one worker cost no memory, and no owner outlives its session."""
    owners = []

    class Noted(PartitionSession):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            owners.append(weakref.ref(self.consumer))

    monkeypatch.setattr(_delivery_task, "PartitionSession", Noted)
    monkeypatch.setattr(_delivery_task, "ROW_S", 0.0)
    words = msgspec.json.encode(settings).decode()
    status_page = MappedStatusPage(DataDir.of(settings.data_dir).status_page(0))

    def own(epoch):
        for _ in _delivery_task.rows(words, 0, epoch):
            if status_page[StatusField.PHASE] == Phase.RUNNING:
                status_page[StatusField.END_EPOCH] = epoch

    for epoch in range(1, 4):  # what is made once
        own(epoch)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for epoch in range(4, 4 + OWNERS):
            own(epoch)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [consumer() for consumer in owners if consumer() is not None] == []
    assert after - before < GROWTH_BYTES_MAX


class Worker:
    """A worker process, which is ours: it keeps its session between two tasks."""

    def __init__(self, settings):
        self.paths = DataDir.of(settings.data_dir)
        self.words = msgspec.json.encode(settings).decode()
        self.status_page = MappedStatusPage(self.paths.status_page(0))
        self.sessions = []

    def serve(self, epoch, looks=1):
        """One task, which ends after so many *looks* at a partition that it serves."""
        for _ in _delivery_task.rows(self.words, 0, epoch):
            page = self.status_page
            if (page[StatusField.PHASE], page[StatusField.EPOCH]) == (Phase.RUNNING, epoch):
                looks -= 1
                if looks <= 0:
                    page[StatusField.END_EPOCH] = epoch

    def reload(self, number):
        LiveFile(self.paths.live).write(
            LiveSettings(
                number=number,
                log_level="error",
                session=msgspec.Raw(self.words.encode()),
                ingest=msgspec.Raw(b"{}"),
            )
        )


@pytest.fixture
def worker(settings, monkeypatch):
    """A worker of Spark that gets one task after the other."""
    made = Worker(settings)

    class Noted(PartitionSession):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.sessions.append(self)

    monkeypatch.setattr(_delivery_task, "PartitionSession", Noted)
    monkeypatch.setattr(_delivery_task, "ROW_S", 0.0)
    monkeypatch.setattr(CUSTODY, "possible", True)
    yield made
    made.status_page[StatusField.STOP] = 1
    owner = CUSTODY.take()
    if owner is not None:
        owner.close(orderly=True)
    made.status_page.close()


def test_the_tasks_of_a_worker_have_one_session(worker):
    """It runs on between them, and the lock is never let go."""
    for epoch in range(1, 6):
        worker.serve(epoch)
        assert CUSTODY.keeps
        assert worker.status_page[StatusField.EPOCH] == epoch
    assert len(worker.sessions) == 1


def test_a_session_that_fails_between_two_tasks_fails_the_next_one(worker):
    """Readiness says why at once; the task after it has another session."""
    worker.serve(1)
    worker.sessions[0].consumer.fail(StoreError("the store is gone"))
    until_s = time.monotonic() + MEND_S_MAX
    while not worker.status_page[StatusField.FAILURES] and time.monotonic() < until_s:
        time.sleep(0.01)
    assert "the store is gone" in worker.paths.sick(0).read_text()
    with pytest.raises(StoreError, match="gone"):
        worker.serve(2)
    worker.status_page[StatusField.RETRY_AT_MS] = 0
    worker.serve(2)
    assert len(worker.sessions) == 2


def test_a_session_makes_way_between_two_tasks(worker):
    """Another worker may have the partition then, and this one looks for another."""
    worker.serve(1)
    lock = worker.paths.owner_lock(0)
    worker.status_page[StatusField.SUCCESSOR] = 1
    until_s = time.monotonic() + MEND_S_MAX
    while is_held(lock) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not is_held(lock)
    worker.serve(2)
    assert len(worker.sessions) == 2


def test_newer_settings_come_within_a_task(worker):
    """Each in a session of its own, in the same process and epoch, under the same lock."""
    worker.serve(1)
    owner = worker.paths.owner_lock(0).read_bytes()
    for number in (1, 2, 3):
        worker.reload(number)
        began = len(worker.sessions)
        for looks, _ in enumerate(_delivery_task.rows(worker.words, 0, number + 1)):
            assert looks < 10_000
            page = worker.status_page
            if len(worker.sessions) > began and page[StatusField.PHASE] == Phase.RUNNING:
                page[StatusField.END_EPOCH] = number + 1
    assert len(worker.sessions) == 4
    assert worker.paths.owner_lock(0).read_bytes() == owner


def test_a_session_that_cannot_begin_with_newer_settings_frees_the_partition(worker, monkeypatch):
    """Readiness says why, and the same task tries again."""
    worker.serve(1)
    noted = _delivery_task.PartitionSession
    failures = iter([StoreError("the store is gone")])

    def fails_once(*arguments):
        for failure in failures:
            arguments[-1].close()
            raise failure
        return noted(*arguments)

    monkeypatch.setattr(_delivery_task, "PartitionSession", fails_once)
    worker.reload(1)
    seen = []
    until_s = time.monotonic() + MEND_S_MAX
    for _ in _delivery_task.rows(worker.words, 0, 2):
        page = worker.status_page
        seen.append(page[StatusField.FAILURES])
        page[StatusField.RETRY_AT_MS] = 0
        running = page[StatusField.PHASE] == Phase.RUNNING
        if (len(worker.sessions) > 1 and running) or time.monotonic() > until_s:
            page[StatusField.END_EPOCH] = 2
    assert 1 in seen
    assert len(worker.sessions) == 2
    assert worker.status_page[StatusField.SETTINGS] == 1


def test_a_partition_that_cannot_be_owned_waits_in_its_task(settings, monkeypatch):
    """It is tried again until it can be; a task that fails instead ends all others."""
    paths = DataDir.of(settings.data_dir)
    status_page = MappedStatusPage(paths.status_page(0))
    damaged = paths.delivery_db(0)
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(b"this is no database" * 100)
    monkeypatch.setattr(_delivery_task, "ROW_S", 0.0)
    phases = []
    until_s = time.monotonic() + MEND_S_MAX
    for _ in _delivery_task.rows(msgspec.json.encode(settings).decode(), 0, 1):
        phases.append((status_page[StatusField.PHASE], status_page[StatusField.FAILURES]))
        if len(phases) == 10:
            damaged.unlink()
        if phases[-1][0] == Phase.RUNNING or time.monotonic() > until_s:
            status_page[StatusField.END_EPOCH] = 1
    assert (Phase.ABSENT, 1) in phases
    assert phases[-1][0] == Phase.RUNNING
    assert status_page[StatusField.FAILURES] == 0


def test_no_statement_runs_on_the_loop_of_a_session(settings):
    """Whoever holds a store holds up no sink: statements run in threads beside the loop."""
    threads = set()

    def statement(*_arguments):
        threads.add(threading.current_thread().name)

    paths = DataDir.of(settings.data_dir)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "com.example.t0"}, b"x")
    appender = Appender.open(paths.log, 0, clock=SystemClock())
    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    try:
        appender.append([(RecordKind.EVENTS, record.encode([event] * 5))])
        session = PartitionSession(0, 1, settings)
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
