"""Retention deletes nothing that the named archive does not hold."""

from types import SimpleNamespace

import pytest

from distributary.core.errors import SettingsError
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.datadir.archived import write_archived
from distributary.server.processes.pipeline.archive_job import check_place
from distributary.server.processes.receiver import route_snapshot
from distributary.server.processes.receiver.retention import Retention, RetentionLimits
from distributary.testing.virtual import VirtualClock

GAUGE = 'archive_late{partition="0"}'


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A log of several segments that everybody is past, and what cuts it."""
    paths = DataDir(tmp_path / "data")
    paths.run.mkdir(parents=True)
    open_folder(paths.log, 1)
    clock = VirtualClock()
    appender = Appender.open(paths.log, 0, clock=clock, segment_bytes=64 * 1024)
    for _ in range(100):
        appender.append([(RecordKind.EVENTS, b"x" * 4096)])
    page = MappedStatusPage(paths.status_page(0))
    page[StatusField.KEEP_FROM] = 100
    monkeypatch.setattr(route_snapshot, "snapshot_at", lambda *_: b"")
    meter, warned = Meter(), []
    log = SimpleNamespace(warning=lambda event, **_fields: warned.append(event))

    def retention(archive):
        limits = RetentionLimits(0, 3600.0, archive)
        return Retention(paths, [0], limits, clock=clock, meter=meter, log=log)

    yield SimpleNamespace(paths=paths, retention=retention, meter=meter, warned=warned)
    appender.close()


def test_retention_waits_for_the_archive_and_tells_of_it(made):
    """Nothing archived, some of it, all of it; and what lies in another folder does not count."""
    retention = made.retention("/archive")
    assert retention.retain_partition(0).segment_count == 0
    assert retention.retain_partition(0).start == 0
    assert made.meter.gauges[GAUGE] == 1
    assert made.warned == ["archive-late"]
    write_archived(made.paths.archived, "/elsewhere", {0: 100})
    assert retention.retain_partition(0).segment_count == 0
    write_archived(made.paths.archived, "/archive", {0: 40})
    cut = retention.retain_partition(0)
    assert cut.segment_count > 0
    assert 0 < cut.start <= 40
    assert made.meter.gauges[GAUGE] == 1
    write_archived(made.paths.archived, "/archive", {0: 100})
    assert retention.retain_partition(0).start > 40
    assert made.meter.gauges[GAUGE] == 0
    made.paths.archived.write_bytes(b"{")
    assert retention.retain_partition(0).segment_count == 0


def test_without_the_setting_nothing_waits(made):
    """As ever."""
    assert made.retention("").retain_partition(0).start > 40
    assert GAUGE not in made.meter.gauges


def test_an_archive_lies_elsewhere_than_the_log(tmp_path):
    """It would go with the disk of the log, or with its folder."""
    paths = DataDir(tmp_path / "data")
    check_place(str(tmp_path / "archive"), paths)
    check_place("s3a://bucket/archive", paths)
    for place in (tmp_path / "data" / "archive", f"file://{tmp_path}/data/archive"):
        with pytest.raises(SettingsError, match="lies in the data directory"):
            check_place(str(place), paths)
    with pytest.raises(SettingsError, match="absolute path"):
        check_place("archive", paths)
