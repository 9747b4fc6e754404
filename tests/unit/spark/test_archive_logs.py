"""The log of a data directory, as a job of the archive sees it."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Uuid, admin

from distributary.core.cluster import KafkaPlace
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder, partition_dir, retain
from distributary.datadir import DataDir
from distributary.spark.archive.logs import FolderLog, TopicLog
from distributary.spark.archive.manifest import (
    FORMAT,
    ArchivedRange,
    Manifest,
    contents_of,
    encode,
    range_name,
)
from distributary.testing.virtual import VirtualClock

ONE_RANGE = Manifest(
    format=FORMAT,
    number=1,
    ranges=(
        ArchivedRange(
            partition=0,
            from_offset=0,
            to_offset=9,
            events=9,
            check=1,
            from_ms=1,
            to_ms=2,
            last_checksum=1,
            name=range_name(0, 0, 9, "0" * 16),
            files=(),
        ),
    ),
)


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
    log.note("/archive", contents_of([(1, encode(ONE_RANGE))]))
    assert (log.noted("/archive"), log.noted("/elsewhere")) == ({0: 9}, {})
    log.note("/elsewhere", contents_of([]))
    assert (log.noted("/archive"), log.noted("/elsewhere")) == ({0: 9}, {})


def test_what_was_noted_and_cannot_be_read_is_not_nothing(made, monkeypatch):
    """Else an archive that is not mounted would be begun anew in its place."""
    log = FolderLog(made("one"))
    log.note("/archive", contents_of([]))

    def refused(_path):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(OSError, match="Too many"):
        log.noted("/archive")


def test_a_topic_without_an_id_is_none_that_can_be_told_from_others(monkeypatch):
    """Once its cluster gives ids, the archive of it would be refused as that of another log."""
    place = KafkaPlace(servers=("nowhere.invalid:1",), prefix="p")

    def logs(topic_id):
        class Admin:
            def __init__(self, _settings):
                """Nobody is dialled."""

            def list_topics(self, topic, **_timeout):
                found = SimpleNamespace(error=None, partitions=[0, 1])
                return SimpleNamespace(topics={topic: found})

            def describe_topics(self, _asked, **_timeout):
                found = SimpleNamespace(topic_id=topic_id)
                return {"p.events": SimpleNamespace(result=lambda: found)}

        monkeypatch.setattr(admin, "AdminClient", Admin)
        return TopicLog(place, 0).logs()

    assert logs(Uuid(0, 0)) == {0: "", 1: ""}
    assert logs(Uuid(5, 6)) == dict.fromkeys((0, 1), f"{5:016x}{6:016x}")
