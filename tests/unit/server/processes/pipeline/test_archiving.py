"""When ``serve`` starts archive jobs, and with what."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from distributary.core.cluster import KafkaPlace, PostgresPlace, SharedPlaces, take_places
from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder
from distributary.datadir import DataDir
from distributary.datadir.archived import write_archived
from distributary.partitions.recall_requests import Asked
from distributary.server import settings
from distributary.server.processes.control.views import RECALLING, UNREADABLE, FileViews
from distributary.server.processes.pipeline import archiving
from distributary.server.processes.pipeline.archiving import (
    Shared,
    archive_child,
    has_work,
    is_recall_wanted,
    keep_archiving,
    keep_recalling,
)
from distributary.testing.virtual import VirtualClock


@pytest.fixture
def paths(tmp_path):
    """A log of one partition with several segments."""
    paths = DataDir(tmp_path / "data")
    paths.run.mkdir(parents=True)
    open_folder(paths.log, 1)
    appender = Appender.open(paths.log, 0, clock=VirtualClock(), segment_bytes=64 * 1024)
    for _ in range(100):
        appender.append([(RecordKind.EVENTS, b"x" * 4096)])
    appender.close()
    return paths


def test_there_is_work_while_a_full_segment_is_not_archived(paths):
    """What lies in another folder does not count, nor does the newest segment."""
    assert has_work(paths, 1, "/archive")
    write_archived(paths.archived, "/elsewhere", {0: 100})
    assert has_work(paths, 1, "/archive")
    write_archived(paths.archived, "/archive", {0: 10})
    assert has_work(paths, 1, "/archive")
    write_archived(paths.archived, "/archive", {0: 100})
    assert not has_work(paths, 1, "/archive")


class Job:
    """A job that runs until the test ends it."""

    def __init__(self, name):
        self.name = name
        self.pid = None
        self.stopped = False
        self.killed = 0

    def start(self):
        self.pid = 1

    def stop(self, _timeout_s):
        self.stopped = True

    def kill(self, pid):
        assert pid == self.pid
        self.killed += 1
        self.pid = None


@pytest.fixture
def world(monkeypatch):
    """``keep_archiving`` in virtual time: a pause moves the clock."""
    found = SimpleNamespace(
        clock=VirtualClock(),
        days=[],
        settings=SimpleNamespace(archive="/archive", archive_every_s=60.0),
        work=True,
        jobs=[],
    )

    def has_work(to):
        assert to == "/archive"
        if isinstance(found.work, Exception):
            raise found.work
        return found.work

    def make(chosen, now_ms=0):
        found.jobs.append(Job(chosen.archive))
        found.days.append(now_ms)
        return found.jobs[-1]

    turn = asyncio.sleep

    async def sleep(seconds):
        found.clock.move_to(found.clock.monotonic_s() + seconds)
        await turn(0)

    monkeypatch.setattr(archiving.asyncio, "sleep", sleep)

    async def run(until_s, keep):
        now_s = found.clock.monotonic_s
        jobs = {
            keep_archiving: (has_work, make, found.clock),
            keep_recalling: (lambda: bool(found.work), make, now_s),
        }
        task = asyncio.create_task(keep(lambda: found.settings, *jobs[keep]))
        while now_s() < until_s:
            await turn(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    found.run = lambda until_s, keep=keep_archiving: asyncio.run(run(until_s, keep))
    return found


def test_a_job_begins_when_it_is_due_and_none_beside_it(world):
    """The first one after the interval; the next one when that has ended."""
    world.run(59.0)
    assert not world.jobs
    world.run(400.0)
    assert len(world.jobs) == 1
    assert world.jobs[0].stopped


def test_a_job_that_never_ends_is_ended(world, monkeypatch):
    """A file system that is gone holds it up, and would hold up all others."""
    monkeypatch.setattr(archiving, "JOB_S_MAX", 300.0)
    world.run(800.0)
    first, second, *_ = world.jobs
    assert first.killed == 1
    assert second.pid or second.killed


def test_the_next_job_begins_after_the_one_before(world, monkeypatch):
    """Every interval one, where each ends before."""
    monkeypatch.setattr(Job, "start", lambda _self: None)
    world.run(200.0)
    assert len(world.jobs) == 3


def test_no_day_is_old_by_a_clock_that_may_be_wrong(world, monkeypatch):
    """What is deleted of the archive is gone: not in the first hour, nor in one after a leap."""

    def start(_job):
        if len(world.jobs) == 11:
            world.clock.jump(400 * 86_400_000)

    monkeypatch.setattr(Job, "start", start)
    world.settings.archive_every_s = 600.0
    begun_ms = world.clock.wall_ms()
    world.run(11_000.0)
    known = [bool(each) for each in world.days]
    assert known == [False] * 5 + [True] * 6 + [False] * 6 + [True]
    assert world.days[5] == begun_ms + 3_600_000


def test_days_are_old_by_the_time_that_a_job_is_given(tmp_path):
    """Whole days, by UTC; none where nobody asked for it, or the time is not known."""
    asked = {"data_dir": str(tmp_path), "archive": "/archive", "archive_every_s": "1h"}
    now_ms = 1_700_006_400_000  # 2023-11-15T00:00:00Z

    def deleted(age, now_ms):
        chosen = settings.load(asked | {"archive_age_max_s": age}, {}, None)
        child = archive_child(chosen, DataDir(tmp_path), lambda _line: None, now_ms=now_ms)
        return msgspec.json.decode(child._arguments[-1])["delete_before"]

    assert deleted("2d", now_ms) == "2023-11-13"
    assert deleted("2d", now_ms - 1) == "2023-11-12"
    assert deleted("2d", 0) == deleted("0", now_ms) == ""


@pytest.mark.parametrize("work", [False, LogUnavailableError("there is no log yet")])
def test_nothing_is_started_without_work(world, work):
    """A Spark would start to find out that there is nothing to do."""
    world.work = work
    world.run(200.0)
    assert not world.jobs


@pytest.mark.parametrize("change", [{"archive": ""}, {"archive_every_s": 0.0}])
def test_nothing_is_started_where_nobody_asked_for_it(world, change):
    """Without the folder, or without the interval."""
    vars(world.settings).update(change)
    world.run(200.0)
    assert not world.jobs


def test_a_job_gets_settings_of_file_systems_and_no_secret_in_its_arguments(tmp_path, monkeypatch):
    """Other Spark properties fit the pipeline; arguments can be read by everybody."""
    monkeypatch.setenv("DISTRIBUTARY_CREDENTIAL_KEY", "key")
    chosen = settings.load(
        {
            "data_dir": str(tmp_path),
            "archive": "s3a://bucket/archive",
            "archive_every_s": "1h",
            "spark_conf": "spark.hadoop.fs.s3a.secret.key=hush,spark.driver.memory=2g",
        },
        {},
        None,
    )
    paths = DataDir(Path(tmp_path))
    child = archive_child(chosen, paths, lambda _line: None)
    assert "hush" not in " ".join(child._arguments)
    given = str(child._environ)
    assert "hush" in given
    assert "spark.driver.memory" not in given
    assert "DISTRIBUTARY_CREDENTIAL_KEY" not in given
    assert take_places(dict(child._environ)) is None

    places = SharedPlaces(
        log=KafkaPlace(servers=("k:1",), prefix="p", password="psst"),
        store=PostgresPlace(url="postgresql://u@h:1/d", password="psst"),
    )
    child = archive_child(chosen, paths, lambda _line: None, recalls=True, shared=Shared(places, 3))
    assert "psst" not in " ".join(child._arguments)
    assert take_places(dict(child._environ)) == places


def test_an_interval_without_a_folder_is_refused():
    """Nobody would know where to."""
    with pytest.raises(SettingsError, match="archive_every_s: needs archive"):
        settings.load({"archive_every_s": "1h"}, {}, None)


def test_a_recall_is_wanted_while_an_owner_asks(paths):
    """Nothing is asked for in an empty file, nor in one that is damaged."""
    assert not is_recall_wanted(paths, 1)
    requests = paths.recall_requests(0)
    requests.parent.mkdir(parents=True)
    for content, wanted in ((Asked([]), False), (Asked([(7, 9)]), True)):
        requests.write_bytes(msgspec.json.encode(content))
        assert is_recall_wanted(paths, 1) == wanted
    requests.write_bytes(b"[")
    assert not is_recall_wanted(paths, 1)


def test_who_asks_next_is_not_told_of_an_earlier_failure(paths):
    """Why the last ones could not be had stands while somebody waits, and is forgotten then."""
    views = FileViews(paths, 1)
    requests = paths.recall_requests(0)
    requests.parent.mkdir(parents=True)
    requests.write_bytes(msgspec.json.encode(Asked([(7, 9)])))
    paths.recall_failed.write_text("no such bucket")
    assert is_recall_wanted(paths, 1)
    assert views.awaited(0, 7) == UNREADABLE
    requests.write_bytes(msgspec.json.encode(Asked([])))  # the run was cancelled
    assert not is_recall_wanted(paths, 1)
    requests.write_bytes(msgspec.json.encode(Asked([(7, 9)])))
    assert views.awaited(0, 7) == RECALLING


def test_recalls_begin_at_once_and_one_at_a_time(world):
    """Whether the server archives by itself does not matter; it ends with the server."""
    world.settings.archive_every_s = 0.0
    world.run(100.0, keep_recalling)
    (job,) = world.jobs
    assert job.stopped


def test_recalls_that_fail_at_once_begin_again_a_while_later(world, monkeypatch):
    """A file system that is gone costs a start of Spark now and then."""
    monkeypatch.setattr(Job, "start", lambda _self: None)
    world.run(100.0, keep_recalling)
    assert 5 <= len(world.jobs) <= 7


@pytest.mark.parametrize("change", [{"work": False}, {"archive": ""}])
def test_nothing_is_recalled_where_nobody_asks_or_there_is_no_archive(world, change):
    """The setting may be taken out while an owner still asks."""
    world.work = change.get("work", True)
    world.settings.archive = change.get("archive", "/archive")
    world.run(100.0, keep_recalling)
    assert not world.jobs
