"""Retention by age, where the wall clock is set."""

from types import SimpleNamespace

from distributary.core.clock import TRUST_S
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.server.processes.receiver import route_snapshot
from distributary.server.processes.receiver.retention import Retention, RetentionLimits
from distributary.testing.virtual import VirtualClock


def test_no_segment_is_too_old_by_a_clock_that_leapt(tmp_path, monkeypatch):
    """For an hour, in which it may be set right; what has its age anyway goes after that."""
    monkeypatch.setattr(route_snapshot, "snapshot_at", lambda *_: b"")
    paths, clock = DataDir(tmp_path / "data"), VirtualClock()
    paths.run.mkdir(parents=True)
    open_folder(paths.log, 1)
    appender = Appender.open(paths.log, 0, clock=clock, segment_bytes=64 * 1024)
    for _ in range(100):
        appender.append([(RecordKind.EVENTS, b"x" * 4096)])
    appender.close()
    MappedStatusPage(paths.status_page(0))[StatusField.KEEP_FROM] = 100
    limits, lines = RetentionLimits(1 << 40, 86_400.0), SimpleNamespace(info=lambda *_: None)
    retention = Retention(paths, [0], limits, clock=clock, meter=Meter(), log=lines)
    assert retention.retain_partition(0).segment_count == 0
    clock.jump(30 * 86_400_000)
    assert retention.retain_partition(0).segment_count == 0
    clock.jump(-30 * 86_400_000)
    clock.move_to(2 * TRUST_S)
    assert retention.retain_partition(0).segment_count == 0
    clock.move_to(3 * TRUST_S + 86_400.0)
    assert retention.retain_partition(0).segment_count > 0
