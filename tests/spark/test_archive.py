"""The archive: written from a log, read back byte for byte, and as one table with the log."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from distributary.core.errors import LogDamagedError, SettingsError
from distributary.core.event import Event, record
from distributary.core.event.binary import encode as encode_binary
from distributary.core.flow import RecordKind
from distributary.core.log import partition_dir, retain
from distributary.datadir import DataDir
from distributary.datadir.archived import StretchesFile, read_archived
from distributary.datadir.publishers import PublisherBook
from distributary.spark.archive import job as archive_job
from distributary.spark.archive import rows
from distributary.spark.archive.job import archive
from kit import archives, short_jvm

DAY_MS = 86_400_000


def _wanted(log, to, *, newest=True, skip_damaged=False, step=2):
    paths = DataDir(log.data_dir)
    return archives.wanted(paths, str(to), newest=newest, skip_damaged=skip_damaged, step=step)


@pytest.fixture
def session(spark):
    """A session of its own: a job changes settings."""
    return spark.newSession()


def _fill(log, event, count=300, size=900):
    """Events of several forms over three days; returns them by place."""
    made = {}
    for number in range(count):
        partition = number % 2
        log.clock.now_ms += 3 * DAY_MS // count
        attributes = {"subject": f"s-{number}", "time": "2026-11-24T10:00:00.123456Z"}
        data = bytes([number % 256]) * size
        match number % 6:
            case 0:
                first = event(f"id-{number}", data, n=number, on=number % 4 == 0, **attributes)
                events = [first, event(f"id-{number}-b")]
                offset = log.append(partition, *events)
            case 1:
                lines = [
                    b"ce-specversion: 1.0\r\n",
                    f"ce-id: id-{number}\r\n".encode(),
                    b"ce-source: /%C3%A9\r\nce-type: t\r\n",
                    b"content-type: text/plain\r\n",
                ]
                body = encode_binary(lines, data)
                events = record.decode(body)
                offset = log.append_body(partition, RecordKind.EVENTS, body)
            case 2:
                events = [event(f"id-{number}", b"", text="\u00fc\u0000 x")]
                offset = log.append_addressed(
                    partition, "broker-uid", *events, ttl=7, carried=b"traceparent: 00-1\r\n"
                )
            case 3:
                log.append_control(partition, b"{}")
                continue
            case 4:
                log.append_timer_event(partition, event("timer"))
                continue
            case _:
                events = [event(f"id-{number}", data, **attributes)]
                offset = log.append_addressed(partition, "", *events, ttl=3)
        made |= {(partition, offset, index): each for index, each in enumerate(events)}
    return made


def _tables(folder, *, exist=False):
    """All rows of all files that manifests name; *exist*: of those that are there."""
    found = []
    for path in sorted((folder / "manifests").glob("*.json")):
        for each in json.loads(path.read_bytes())["ranges"]:
            for file in each["files"]:
                if exist and not (folder / "events" / file["path"]).exists():
                    continue
                found += pq.ParquetFile(folder / "events" / file["path"]).read().to_pylist()
    return found


def _manifests_that_add(folder):
    """Paths of the manifests that name ranges."""
    found = sorted((folder / "manifests").glob("*.json"))
    return [path for path in found if json.loads(path.read_bytes())["ranges"]]


def _rows(folder, day):
    """Places of the events of a day."""
    files = (folder / "events" / f"day={day}").rglob("*.parquet")
    rows_ = [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]
    return {(row["partition"], row["offset"], row["index"]) for row in rows_}


def test_each_event_is_in_the_archive_byte_for_byte(session, log, event, tmp_path, monkeypatch):
    """All forms of events, with who published them, in folders by day; a second job has no work."""
    made = _fill(log, event)
    paths = DataDir(log.data_dir)
    first = next(place for place in made if place[0] == 0)
    book = PublisherBook({0: paths.publishers(0)})
    book.note(0, first[1], ["shop"])
    book.flush()
    to = tmp_path / "archive"
    steps, synced = [], set()

    def fsync(fd, sync=os.fsync):
        synced.add(Path(f"/proc/self/fd/{fd}").readlink())
        sync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    done = archive(session, _wanted(log, to), steps.append)
    files = {path for path in to.rglob("*") if path.is_file() and path.name != "_SUCCESS"}
    assert {path for path in files if path.parent.name != "events"} <= synced
    assert any(path.suffix == ".crc" for path in files)  # Hadoop's own, without which it reads none
    assert done.events == len(made)
    assert len(steps) > 1  # more than one manifest
    archived = _tables(to)
    assert {(each["partition"], each["offset"], each["index"]) for each in archived} == made.keys()
    assert len(archived) == len(made)
    for each in archived:
        place = each["partition"], each["offset"], each["index"]
        kept = rows.event_of(each["head"], each["data"])
        assert kept == made[place]
        assert [*kept.attributes] == [*made[place].attributes]
        assert [*map(type, kept.attributes.values())] == [
            *map(type, made[place].attributes.values())
        ]
        assert each["by"] == ("shop" if place[:2] == first[:2] else None)
    carried = [each for each in archived if each["address"] == "broker-uid"]
    assert {(each["ttl"], each["carried"]) for each in carried} == {(7, b"traceparent: 00-1\r\n")}
    days = {path.name for path in (to / "events").iterdir() if path.name.startswith("day=")}
    assert days == {f"day=2023-11-{day}" for day in (14, 15, 16, 17)}
    assert read_archived(paths.archived, str(to)) == done.positions
    assert read_archived(paths.archived, "/elsewhere") == {}

    again = archive(session, _wanted(log, to))
    assert (again.ranges, again.events, again.positions) == (0, 0, done.positions)


def test_only_whole_segments_unless_all_is_asked_for(session, log, event, tmp_path):
    """The newest segment stays where it is, and is archived by a later job."""
    made = _fill(log, event)
    to = tmp_path / "archive"
    done = archive(session, _wanted(log, to, newest=False))
    archived = _tables(to)
    assert 0 < len(archived) == done.events < len(made)
    rest = archive(session, _wanted(log, to, newest=True))
    assert done.events + rest.events == len(made) == len(_tables(to))


def test_what_no_manifest_names_is_deleted(session, log, event, tmp_path):
    """Folders of ranges and manifests half written go; what is not ours stays."""
    _fill(log, event)
    to = tmp_path / "archive"
    archive(session, _wanted(log, to, newest=False))
    stray = to / "events/day=2023-11-14/range=p0000-" / ""
    stray = Path(str(stray).rstrip("/") + f"{0:020d}-{9:020d}-{'a' * 16}")
    stray.mkdir()
    (stray / "part-0.parquet").write_bytes(b"half a file")
    other = to / "events/day=2023-11-14/mine"
    other.mkdir()
    half = to / "manifests/00000099.json.tmp"
    half.write_bytes(b"{")
    done = archive(session, _wanted(log, to))
    assert done.swept == (f"day=2023-11-14/{stray.name}",)
    assert not stray.exists()
    assert not half.exists()
    assert other.exists()


def test_old_days_are_deleted_and_reads_go_on_without_them(spark, session, log, event, tmp_path):
    """Whole days; what is left is read, with the log; nothing of them is archived again."""
    made = _fill(log, event)
    to = tmp_path / "archive"
    archive(session, _wanted(log, to))
    before = date(2023, 11, 16)
    wanted = replace(_wanted(log, to), delete_before=before)
    done = archive(session, wanted)
    assert done.days_deleted == ("2023-11-14", "2023-11-15")
    assert done.events == 0
    days = {path.name for path in (to / "events").iterdir() if path.name.startswith("day=")}
    assert days == {"day=2023-11-16", "day=2023-11-17"}
    left = {(each["partition"], each["offset"], each["index"]) for each in _tables(to, exist=True)}
    assert 0 < len(left) < len(made)
    table = spark.read.format("distributary").option("archive", str(to)).load(str(log.data_dir))
    rows = table.where("type != 'timer'").select("partition", "offset", "index").collect()
    assert {tuple(row) for row in rows} == left
    stretches = StretchesFile(DataDir(log.data_dir).archived, str(to), 0).read()
    assert stretches[0].from_ms >= 1_700_092_800_000
    assert archive(session, wanted).days_deleted == ()


def test_no_day_is_deleted_that_is_yet_to_come(session, log, event, tmp_path):
    """By a clock that was years ahead, or a slip of the pen: else nothing were archived again."""
    _fill(log, event, count=20)
    to = tmp_path / "archive"
    archive(session, _wanted(log, to))
    done = archive(session, replace(_wanted(log, to), delete_before=date(2123, 1, 1)))
    assert done.days_deleted
    assert not _tables(to, exist=True)
    log.clock.now_ms += DAY_MS
    log.append(0, event("tomorrow"))
    archive(session, _wanted(log, to))
    assert [each["id"] for each in _tables(to, exist=True)] == ["tomorrow"]


def test_days_that_are_archived_after_they_were_deleted_are_left_out(
    spark, session, log, event, tmp_path
):
    """A log may be archived late: what is swept then is named by no manifest."""
    _fill(log, event)
    to = tmp_path / "archive"
    archive(session, _wanted(log, to, newest=False))
    wanted = replace(_wanted(log, to), delete_before=date(2023, 11, 18))
    assert archive(session, wanted).events > 0  # of days before it
    assert archive(session, wanted).days_deleted == ()
    assert not _tables(to, exist=True)
    assert len(list((to / "manifests").glob("*.json"))) == len(_manifests_that_add(to)) + 1
    reader = spark.read.format("distributary").option("archive", str(to))
    assert reader.load(str(log.data_dir)).collect() == []
    last = log.append(0, event("newer"))
    rows = reader.load(str(log.data_dir)).select("partition", "offset", "index").collect()
    assert [tuple(row) for row in rows] == [(0, last, 0)]


def test_another_log_is_refused(session, log, event, tmp_path):
    """The newest archived record is compared with the log's."""
    _fill(log, event, count=20)
    to = tmp_path / "archive"
    archive(session, _wanted(log, to))
    manifest = to / "manifests/00000001.json"
    (to / "manifests/.00000001.json.crc").unlink()  # Hadoop's own, of local files
    content = json.loads(manifest.read_bytes())
    content["ranges"][0]["last_checksum"] += 1
    manifest.write_text(json.dumps(content))
    with pytest.raises(SettingsError, match="of another log: record"):
        archive(session, _wanted(log, to))
    content["ranges"][0]["to_offset"] += 1_000
    manifest.write_text(json.dumps(content))
    with pytest.raises(SettingsError, match="the log ends at"):
        archive(session, _wanted(log, to))


def test_an_event_is_made_again_of_head_and_data():
    """Data that are empty, and data that are not there."""
    event = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t"}, b"data")
    head = rows.head_of(event)
    assert rows.event_of(head, b"data") == event
    assert rows.event_of(head, None).data is None


def test_a_file_that_reads_back_otherwise_does_not_count(
    session, log, event, tmp_path, monkeypatch
):
    """The file system gives other bytes than it took: rows are compared one by one and in sum."""
    _fill(log, event, count=20)
    to = tmp_path / "archive"
    kept = archive_job._with_files
    changed = {
        "the column subject is not": "overlay(subject PLACING 'X' FROM 1)",
        "sum of checksums": "subject",
    }
    for said, subject in changed.items():

        def other(frame, subject=subject):
            made = kept(frame).selectExpr("* except (subject)", f"{subject} AS subject")
            return made if "overlay" in subject else made.where("offset != 1 OR partition != 0")

        monkeypatch.setattr(archive_job, "_with_files", other)
        with pytest.raises(LogDamagedError, match=said):
            archive(session, _wanted(log, to))
        assert not list(to.glob("manifests/*"))
    monkeypatch.undo()
    assert archive(session, _wanted(log, to)).events == len(_tables(to))


def test_damaged_records_end_the_job_unless_they_are_given_up(session, log, event, tmp_path):
    """Nothing counts as archived; with the option the others do."""
    made = _fill(log, event, count=20)
    segment = next((log.log_dir / "p0000").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    place = content.index(b"id-14")
    content[place] ^= 1
    segment.write_bytes(content)
    to = tmp_path / "archive"
    with pytest.raises(PySparkException, match="--skip-damaged"):
        archive(session, _wanted(log, to))
    assert read_archived(DataDir(log.data_dir).archived, str(to)) == {}
    done = archive(session, _wanted(log, to, skip_damaged=True))
    assert done.events == len(made) - 1


KILLED = """\
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from distributary.datadir import DataDir
from distributary.spark.archive import job, place
from distributary.spark.archive.logs import FolderLog

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)


def wait(*_):
    print("here", flush=True)
    sys.stdin.read()


synced = []
sync = place.Place.sync


def second(self, paths):
    synced.append(paths)
    if len(synced) == 2:
        wait()
    sync(self, paths)


place.Place.sync = second
log = FolderLog(DataDir(Path(sys.argv[1])))
wanted = job.Wanted(log, sys.argv[2], True, False, 2)
job.archive(spark, wanted)
"""


def test_a_job_that_is_killed_loses_and_doubles_nothing(session, log, event, tmp_path):
    """Killed after a manifest, and once more before the next: another job does the rest."""
    made = _fill(log, event)
    to = tmp_path / "archive"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(log.data_dir), str(to)],
        env=short_jvm.environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == b"here\n"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert [path.name for path in to.glob("manifests/*.json")] == ["00000001.json"]
    done = archive(session, _wanted(log, to))
    assert done.swept
    archived = [(each["partition"], each["offset"], each["index"]) for each in _tables(to)]
    assert sorted(archived) == sorted(made)
    paths = list((to / "events").rglob("*.parquet"))
    assert len(paths) == len(
        [
            file
            for path in (to / "manifests").glob("*.json")
            for each in json.loads(path.read_bytes())["ranges"]
            for file in each["files"]
        ]
    )


def _cut(log):
    """Delete all old segments of the log, as retention does."""
    for partition in range(2):
        retain(
            partition_dir(log.log_dir, partition),
            1 << 60,
            bytes_max=0,
            age_max_s=0.0,
            now_ms=log.clock.now_ms,
            snapshot_at_cut=lambda _cut: b"",
        )


def _read(spark, log, to=None, **options):
    reader = spark.read.format("distributary").options(**options)
    reader = reader if to is None else reader.option("archive", str(to))
    return reader.load(str(log.data_dir))


def test_archive_and_log_are_one_table(spark, log, event, tmp_path):
    """All rows once and in every way as without: before retention cuts, and after."""
    made = _fill(log, event)
    to = tmp_path / "archive"
    archive(spark.newSession(), _wanted(log, to, newest=False))
    place = ["partition", "offset", "index"]
    bare = _read(spark, log).orderBy(place).collect()
    middle = bare[len(bare) // 3]["logged_at"]
    conditions = [
        "type = 't' AND subject LIKE 's-1%'",
        "id IN ('id-6', 'id-7')",
        "subject IS NOT NULL AND partition = 1",
        "offset BETWEEN 20 AND 90",
        f"logged_at >= '{middle}' AND logged_at < '{middle}' + INTERVAL 1 DAY",
    ]
    chosen = [_read(spark, log).where(each).orderBy(place).collect() for each in conditions]
    assert all(0 < len(each) < len(made) for each in chosen)
    stamp = str(int(middle.timestamp() * 1000))
    since = _read(spark, log, startingTimestamp=stamp).orderBy(place).collect()
    assert _read(spark, log, to).orderBy(place).collect() == bare
    _cut(log)
    both = _read(spark, log, to)
    assert both.orderBy(place).collect() == bare
    for condition, rows_ in zip(conditions, chosen, strict=True):
        assert both.where(condition).orderBy(place).collect() == rows_
    assert _read(spark, log, to, startingTimestamp=stamp).orderBy(place).collect() == since
    few = spark.read.format("distributary").schema("id STRING, data BINARY")
    assert few.option("archive", str(to)).load(str(log.data_dir)).count() == len(made)
    assert 0 < _read(spark, log).count() < len(made)
    query = (
        spark.readStream.format("distributary")
        .option("archive", str(to))
        .option("maxRecordsPerTrigger", 100)
        .load(str(log.data_dir))
        .writeStream.format("memory")
        .queryName("archived")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("archived").orderBy(place).collect() == bare
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "archive.md"
    (block,) = re.findall(r"```python run-spark\n(.*?)```", guide.read_text(), re.DOTALL)
    exec(block, {"spark": spark, "archive": str(to), "data_dir": str(log.data_dir)})
    assert spark.sql("SELECT count(*) FROM distributary.events").first()[0] == len(made)
    plain = spark.read.parquet(str(to / "events")).where("day = '2023-11-15'")
    assert plain.count() == sum(str(row["logged_at"])[:10] == "2023-11-15" for row in bare)


def test_what_is_between_archive_and_log_is_lost_and_said(spark, log, event, tmp_path):
    """Retention has deleted records that no archive has."""
    _fill(log, event, count=60)
    to = tmp_path / "archive"
    archive(spark.newSession(), _wanted(log, to))
    _fill(log, event)
    _cut(log)
    with pytest.raises(PySparkException, match=r"are deleted \(retention\)"):
        _read(spark, log, to).collect()
    assert _read(spark, log, to, failOnDataLoss="false").count() > 0
    done = archive(spark.newSession(), _wanted(log, to))
    assert [each.partition for each in done.lost] == [0, 1]
    with pytest.raises(PySparkException, match="there is none at"):
        _read(spark, log, tmp_path / "elsewhere").collect()


def test_files_that_are_gone_from_the_archive_are_told(spark, log, event, tmp_path):
    """A day that somebody deleted: a read of it fails, or says what it leaves out."""
    made = _fill(log, event)
    to = tmp_path / "archive"
    archive(spark.newSession(), _wanted(log, to))
    gone = _rows(to, "2023-11-15")
    assert 0 < len(gone) < len(made)
    shutil.rmtree(to / "events/day=2023-11-15")
    for asked in (_read(spark, log, to), _read(spark, log, to).where("id = 'id-0'")):
        with pytest.raises(PySparkException, match=r"RecordsMissingError.* day=2023-11-15/range="):
            asked.collect()
    left = _read(spark, log, to, failOnDataLoss="false").select("partition", "offset", "index")
    found = [tuple(row) for row in left.collect()]
    assert len(found) == len(set(found)) == len(made) - len(gone)
    assert not gone & set(found)
    for condition, day in (("< '2023-11-15'", "2023-11-14"), (">= '2023-11-16'", "2023-11-16")):
        wanted = _read(spark, log, to).where(
            f"logged_at {condition}"
        )  # Nothing of the day between.
        assert wanted.count() >= len(_rows(to, day)) > 0
    (to / "manifests").rename(to / "elsewhere")
    with pytest.raises(PySparkException, match="there is none at"):
        _read(spark, log, to, failOnDataLoss="false").collect()
