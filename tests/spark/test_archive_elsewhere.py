"""An archive that is not there, and one of another log: a job begins nothing in their place."""

import json

import pytest

from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.log import partition_dir, retain
from distributary.datadir import DataDir
from distributary.spark.archive.job import archive
from kit import archives


def _wanted(log, to, *, newest):
    return archives.wanted(DataDir(log.data_dir), str(to), newest=newest)


@pytest.fixture
def session(spark):
    """A session of its own: a job changes settings."""
    return spark.newSession()


def _fill(log, event, count):
    """So many events in two partitions; returns how many."""
    for number in range(count):
        log.append(number % 2, event(f"id-{number}", b"x" * 900))
    return count


def test_an_archive_that_is_not_mounted_is_not_begun_anew(session, log, event, tmp_path):
    """What would be archived in its place were hidden later, and gone from the log by then."""
    made = _fill(log, event, 300)
    to, away = tmp_path / "an archive #1, 100%25", tmp_path / "away"
    before = archive(session, _wanted(log, to, newest=False))
    noted = DataDir(log.data_dir).archived.read_bytes()
    to.rename(away)
    with pytest.raises(LogUnavailableError, match="is it mounted"):
        archive(session, _wanted(log, to, newest=True))
    assert not to.exists()
    assert DataDir(log.data_dir).archived.read_bytes() == noted
    away.rename(to)
    assert before.events + archive(session, _wanted(log, to, newest=True)).events == made


def test_a_log_that_begins_behind_the_archive_of_another_one_is_refused(
    session, log, event, tmp_path
):
    """None of its records is one that is archived: nothing of both can be compared."""
    _fill(log, event, 20)
    to = tmp_path / "archive"
    archive(session, _wanted(log, to, newest=True))
    manifest = to / "manifests/00000001.json"
    (to / "manifests/.00000001.json.crc").unlink()
    content = json.loads(manifest.read_bytes())
    for each in content["ranges"]:
        each |= {"to_offset": each["from_offset"] + 1, "log": "another"}
    manifest.write_text(json.dumps(content))
    _fill(log, event, 300)
    for partition in (0, 1):
        cut = retain(
            partition_dir(log.log_dir, partition),
            1_000,
            bytes_max=0,
            age_max_s=0.0,
            now_ms=0,
            snapshot_at_cut=lambda _cut: b"",
        )
        assert cut.start > 1
    with pytest.raises(SettingsError, match="of another log: partition 0 there"):
        archive(session, _wanted(log, to, newest=True))
