"""Retention of a data directory: not by a clock that leapt, nor while a backup copies the log."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from distributary.core.clock import TRUST_S, SystemClock
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, Retained, open_folder
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField, holding_retention
from distributary.server.processes.receiver import retention as retaining
from distributary.server.processes.receiver import route_snapshot
from distributary.server.processes.receiver.retention import (
    NOTHING_DELETED,
    Retention,
    RetentionLimits,
)
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


def test_retention_deletes_nothing_while_a_backup_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of that partition; once the backup has ended it deletes as before."""
    paths = DataDir(tmp_path / "data")
    deleted = Retained(1, 1, 4096)
    monkeypatch.setattr(retaining, "retain", lambda *_args, **_options: deleted)
    limits = RetentionLimits(bytes_max=4096, age_max_s=60.0)
    retention = Retention(paths, [0, 1], limits, clock=SystemClock(), meter=Meter(), log=None)
    for partition in (0, 1):
        paths.run.mkdir(parents=True, exist_ok=True)
        MappedStatusPage(paths.status_page(partition)).close()
    with holding_retention(paths.retention_hold(0)):
        assert retention.retain_partition(0) == NOTHING_DELETED
        assert retention.retain_partition(1) == deleted
    assert retention.retain_partition(0) == deleted
