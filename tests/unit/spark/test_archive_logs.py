"""The log of a data directory, as a job of the archive sees it."""

import pytest

from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder, partition_dir, retain
from distributary.datadir import DataDir
from distributary.spark.archive.logs import FolderLog
from distributary.spark.archive.manifest import contents_of
from distributary.testing.virtual import VirtualClock


@pytest.fixture
def made(tmp_path):
    """Returns what makes the log of a data directory: two partitions, of which one has records."""

    def make(name):
        paths = DataDir(tmp_path / name)
        open_folder(paths.log, 2)
        for partition in (0, 1):
            appender = Appender.open(
                paths.log, partition, clock=VirtualClock(), segment_bytes=64 * 1024
            )
            for _ in range(0 if partition else 100):
                appender.append([(RecordKind.EVENTS, b"x" * 4096)])
            appender.close()
        return paths

    return make


def test_a_log_is_told_from_any_other_also_once_its_oldest_records_are_gone(made):
    """So no archive gets the records of two; a partition without records is like any other."""
    paths = made("one")
    one, other = FolderLog(paths).logs(), FolderLog(made("other")).logs()
    assert one[0]
    assert one[0] != other[0]
    assert one[1] == other[1] == ""
    cut = retain(
        partition_dir(paths.log, 0),
        100,
        bytes_max=0,
        age_max_s=0.0,
        now_ms=0,
        snapshot_at_cut=lambda _cut: b"",
    )
    later = FolderLog(paths).known({})[0]
    assert (later.start, later.log) == (cut.start, one[0])
    assert cut.segment_count


def test_what_was_noted_of_an_archive_is_known_to_the_next_job(made):
    """Of this one, and of no other."""
    log = FolderLog(made("one"))
    assert log.noted("/archive") == {}
    log.note("/archive", contents_of([]))
    assert log.noted("/archive") == {}
