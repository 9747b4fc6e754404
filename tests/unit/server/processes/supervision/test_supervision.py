"""Processes and their numbers when the disk is full, or the system refuses something."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from distributary.core.errors import LogUnavailableError, SettingsError, StoreError
from distributary.core.log import Retained
from distributary.core.meter import Meter
from distributary.datadir import (
    SOCKET_PATH_BYTES_MAX,
    DataDir,
    MappedStatusPage,
    Phase,
    StatusField,
)
from distributary.server.processes import ingest_process as ingest_module
from distributary.server.processes.base.ground import check_socket_path
from distributary.server.processes.base.logging import Lines
from distributary.server.processes.ingest_process import IngestProcess
from distributary.server.processes.receiver import retention as retention_module
from distributary.server.processes.receiver.file_log import FileLog
from distributary.server.processes.receiver.retention import Retention, RetentionLimits
from distributary.server.processes.supervision import children as children_module
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.health import STALE_MS, Health
from distributary.testing.virtual import VirtualClock


class _Full(io.StringIO):
    def flush(self):
        raise OSError("no space left on device")


def test_numbers_that_cannot_be_written_stop_nobody(tmp_path):
    """Heartbeats and readiness hang on the loop that also writes the numbers."""
    (tmp_path / "file").write_bytes(b"")
    meter = Meter(tmp_path / "file" / "role.json")
    meter.save()
    assert meter.counters == {"snapshots_left_out_total": 1}


@pytest.mark.parametrize("line", ['{"event": "started"}\n', "java.lang.Error\n"])
def test_a_line_that_cannot_be_written_is_lost_and_counted(line):
    """The thread that brings it keeps a child alive."""
    lines = Lines(_Full(), "json", _Full())
    lines.write(line)
    assert lines.lost_count == 1


def test_a_line_that_nobody_takes_does_not_cost_its_process(monkeypatch):
    """A child ends with the thread that reads its lines."""
    ended = threading.Event()

    def refuse(_line):
        raise ValueError("not this line")

    program = [sys.executable, "-c", "print('a'); print('b'); raise SystemExit(7)"]
    codes = []
    child = Child(
        "role", program, line=refuse, ended=lambda code: (codes.append(code), ended.set())
    )
    monkeypatch.setattr(children_module, "RESTART_WAIT_S", (60.0,))
    child.start()
    assert ended.wait(20)
    child.stop(5.0)
    assert codes == [7]
    assert child.lines_lost == 2


def test_what_a_killed_process_leaves_behind_does_not_delay_the_next_one(monkeypatch):
    """The JVM outlives the driver for a while, and holds the pipe of its lines."""
    up, ended = threading.Event(), threading.Event()
    inner = "import time; time.sleep(600)"
    program = [
        sys.executable,
        "-c",
        (
            f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}]);"
            f" print('up', flush=True); {inner}"
        ),
    ]
    child = Child("role", program, line=lambda _: up.set(), ended=lambda _code: ended.set() or True)
    monkeypatch.setattr(children_module, "RESTART_WAIT_S", (60.0,))
    child.start()
    assert up.wait(60)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    assert ended.wait(60)
    child.stop(5.0)


def test_a_process_that_worked_starts_again_at_once_however_often_it_is_killed(monkeypatch):
    """Waits are for what ends by itself: the front door is closed meanwhile."""
    up, asked = threading.Semaphore(0), []
    program = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
    child = Child(
        "role",
        program,
        line=lambda _: up.release(),
        worked=lambda pid, code: asked.append((pid, code)) or True,
    )
    monkeypatch.setattr(children_module, "RESTART_WAIT_S", (600.0,))
    child.start()
    killed = []
    for _ in range(3):
        assert up.acquire(timeout=60)
        killed.append((child.pid, -signal.SIGKILL))
        os.kill(child.pid, signal.SIGKILL)
    assert up.acquire(timeout=60)
    child.stop(5.0)
    assert asked[:3] == killed


def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch):
    """No memory or no descriptors just now; starting the others must not wait for it."""
    tried = threading.Semaphore(0)

    def refuse(*_arguments, **_named):
        tried.release()
        raise OSError("cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(children_module, "RESTART_WAIT_S", (0.0,))
    child = Child("role", ["program"], line=print)
    child.start()
    for _ in range(3):
        assert tried.acquire(timeout=20)
    child.stop(5.0)
    assert child.restarts >= 2


def test_retention_goes_on_after_any_failure_and_tells_of_it(monkeypatch, tmp_path):
    """It gives the space back that the failure may have been about; a bug is no exception."""
    faults = [StoreError("locked"), OSError("too many open files"), AssertionError()]
    calls = []

    class Failing(Retention):
        def retain_partition(self, partition):
            calls.append(partition)
            if faults:
                raise faults.pop()
            return Retained(0, 0, 0)

    warnings = []
    meter = Meter()
    retention = Failing(
        DataDir(tmp_path),
        [0],
        RetentionLimits(0, 0.0),
        clock=VirtualClock(),
        meter=meter,
        log=SimpleNamespace(warning=lambda event, **fields: warnings.append((event, fields))),
    )
    monkeypatch.setattr(retention_module, "RETAIN_S", 0.0)
    name = 'retention_failing{partition="0"}'

    async def run():
        retaining = asyncio.create_task(retention.run())
        while len(calls) < 3:  # noqa: ASYNC110 - a list, no event
            await asyncio.sleep(0)
        assert meter.gauges[name] == 1.0
        while len(calls) < 5:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        retaining.cancel()

    asyncio.run(run())
    assert {event for event, _ in warnings} == {"retention-failed"}
    assert [fields["error"] for _, fields in warnings] == [
        "AssertionError()",
        "too many open files",
        "locked",
    ]
    assert meter.counters['retention_failures_total{partition="0"}'] == 3
    assert meter.gauges[name] == 0.0


def test_a_committer_that_met_a_bug_ends_the_process(tmp_path):
    """Nothing can be appended there any more: a new process recovers the partition."""
    stop = asyncio.Event()
    ends = []
    allowed = []
    around = SimpleNamespace(
        _start=SimpleNamespace(data_dir=tmp_path, disk_free_bytes_min=0),
        _kept=SimpleNamespace(
            look=lambda: None,
            why_dead=LogUnavailableError("appending failed"),
            allow=allowed.append,
        ),
        _addresses=None,
        _stop=stop,
        _log=SimpleNamespace(error=lambda event, **_fields: ends.append(event)),
    )
    IngestProcess._look_once(around)
    assert stop.is_set()
    assert (ends, around._code, allowed) == (["log-dead"], 72, [False])


def test_a_committer_that_met_a_bug_makes_the_log_dead():
    """Its appender does not know of it."""
    broken = LogUnavailableError("appending failed")
    around = SimpleNamespace(
        _appenders=[SimpleNamespace(dead=None)],
        _committers={0: SimpleNamespace(broken=None), 1: SimpleNamespace(broken=broken)},
    )
    assert FileLog.why_dead.fget(around) is broken


def test_the_ingest_process_goes_on_looking_after_a_failure(monkeypatch):
    """It must see that the disk has space again."""
    looks = []

    def look():
        looks.append(1)
        raise OSError("input/output error")

    around = SimpleNamespace(_look_once=look, _log=SimpleNamespace(error=lambda *_a, **_k: None))
    monkeypatch.setattr(ingest_module, "LOOK_S", 0.001)

    async def run():
        looking = asyncio.create_task(IngestProcess._look(around))
        while len(looks) < 3:  # noqa: ASYNC110 - a list, no event
            await asyncio.sleep(0)
        looking.cancel()

    asyncio.run(run())


def test_a_clock_set_back_does_not_make_the_dead_look_alive(tmp_path):
    """A sign of life from the future is no sign of life."""
    clock = VirtualClock()
    paths = DataDir(tmp_path)
    health = Health(paths, 1, clock, behind=lambda: None, restarts=dict)
    ingest, status_page = (
        MappedStatusPage(paths.ingest_page(0)),
        MappedStatusPage(paths.status_page(0)),
    )
    ingest[StatusField.PHASE] = Phase.RUNNING
    status_page[StatusField.READY] = 1
    for each in (ingest, status_page):
        each[StatusField.HEARTBEAT_MS] = clock.wall_ms()
    assert health.ready() == (True, [])
    clock.jump(-STALE_MS * 10)
    assert len(health.ready()[1]) == 2


def test_an_owner_whose_clock_is_wrong_is_alive_while_its_heartbeat_changes(tmp_path):
    """It runs on another machine, whose time it writes."""
    clock = VirtualClock()
    paths = DataDir(tmp_path)
    health = Health(paths, 1, clock, behind=lambda: None, restarts=dict)
    ingest, owner = MappedStatusPage(paths.ingest_page(0)), MappedStatusPage(paths.status_page(0))
    ingest[StatusField.PHASE] = Phase.RUNNING
    owner[StatusField.READY] = 1

    def turn(*, owner_lives: bool) -> tuple[bool, list[str]]:
        clock.move_to(clock.monotonic_s() + 1.0)
        ingest[StatusField.HEARTBEAT_MS] = clock.wall_ms()
        if owner_lives:
            owner[StatusField.HEARTBEAT_MS] = clock.wall_ms() + 20 * STALE_MS
        health.turned()
        return health.ready()

    silent = (False, ["partition 0: no sign of life of its owner"])
    owner[StatusField.HEARTBEAT_MS] = clock.wall_ms() + 20 * STALE_MS  # of one that has ended
    assert turn(owner_lives=False) == silent
    assert [turn(owner_lives=True) for _ in range(5)] == [(True, [])] * 5
    assert [turn(owner_lives=False) for _ in range(4)] == [(True, [])] * 3 + [silent]


def test_a_folder_too_deep_for_sockets_is_refused_before_anything_starts(tmp_path):
    """The message says what to do."""
    name = "d" * (SOCKET_PATH_BYTES_MAX - len(str(tmp_path)) - 1)
    check_socket_path(tmp_path / name)
    with pytest.raises(SettingsError, match="--data-dir"):
        check_socket_path(tmp_path / (name + "x"))
