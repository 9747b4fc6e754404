"""Files of the history: their rows, their days, and what kills leave."""

import datetime as dt
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from distributary.core.errors import StoreError
from distributary.core.event import Event
from distributary.core.flow import Attempt, DoneKey, Ending, Origin, Position, Stage, Task
from distributary.core.journal_frames import HistoryBlock
from distributary.core.policy import DELIVERED, Reply
from distributary.history.columns import SCHEMA
from distributary.history.names import parse
from distributary.history.place import MARK_NAME, mark
from distributary.history.rows import Recorder, RouteNames
from distributary.history.writer import HIDDEN, PART, HistoryWriter, write_table

NOON_MS = 1_795_348_800_000
"""2026-11-22, 12:00 UTC."""


def blocks(*times_ms, first=0, drop=False):
    """One block for each time, with one row; the last one a drop without an attempt."""
    recorder = Recorder(3, {"u": RouteNames("shop", "orders", 4)}.get)
    found = []
    for number, now_ms in enumerate(times_ms, first):
        event = Event({"specversion": "1.0", "id": f"e{number}", "source": "/s", "type": "t"}, b"")
        task = Task(Position(3, number, 0), 1, "u", event, Stage.PRIMARY, 1, 0, Origin.LIVE)
        key = DoneKey(number, 0, "u")
        if drop and number == first + len(times_ms) - 1:
            recorder.ended(key, Ending.DROPPED, "retention", now_ms, None)
        else:
            recorder.attempted(Attempt(task, Reply(204, None, None, b""), 0.25), DELIVERED, now_ms)
            recorder.ended(key, Ending.DELIVERED, None, now_ms, task)
        count, rows = recorder.take()
        found.append(HistoryBlock(number, count, rows))
    return found


def history(folder: Path):
    """Numbers of all published rows, by file."""
    found = {}
    for path in sorted(folder.glob("date=*/*.parquet")):
        file = parse(str(path.relative_to(folder)))
        numbers = pq.read_table(path, partitioning=None).column("number").to_pylist()
        assert numbers == list(range(file.first, file.end))
        found[file] = numbers
    return [number for numbers in found.values() for number in numbers]


def test_a_row_says_what_became_of_a_match(tmp_path):
    """All columns, with the types that readers rely on."""
    writer = HistoryWriter(tmp_path, 3)
    files = writer.write(blocks(NOON_MS, NOON_MS + 1, first=40, drop=True))
    assert history(tmp_path) == []
    writer.publish(files)
    (path,) = tmp_path.glob("date=2026-11-22/p0003-*.parquet")
    table = pq.read_table(path, partitioning=None)
    assert table.schema.equals(SCHEMA)
    delivered, dropped = table.to_pylist()
    assert delivered == {
        "number": 40,
        "time": dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC),
        "partition": 3,
        "offset": 40,
        "index": 0,
        "event_id": "e40",
        "event_source": "/s",
        "event_type": "t",
        "namespace": "shop",
        "subscription": "orders",
        "uid": "u",
        "revision": 4,
        "stage": "event",
        "attempt": 1,
        "duration": 0.25,
        "status": 204,
        "decision": "delivered",
        "reason": None,
        "outcome": "delivered",
        "answer": None,
    }
    assert dropped == delivered | {
        "number": 41,
        "time": dt.datetime(2026, 11, 22, 12, 0, 0, 1000, tzinfo=dt.UTC),
        "offset": 41,
        "event_id": None,
        "event_source": None,
        "event_type": None,
        "stage": None,
        "attempt": None,
        "duration": None,
        "status": None,
        "decision": None,
        "reason": "retention",
        "outcome": "dropped",
    }


def test_rows_lie_in_their_own_day(tmp_path):
    """Also those of a clock that was put back."""
    midnight = NOON_MS + 12 * 3_600_000
    writer = HistoryWriter(tmp_path, 3)
    writer.publish(writer.write(blocks(midnight - 1, midnight, midnight - 1, midnight)))
    days = [path.parent.name for path in sorted(tmp_path.glob("date=*/*.parquet"))]
    assert days == ["date=2026-11-22"] * 2 + ["date=2026-11-23"] * 2
    assert sorted(history(tmp_path)) == [0, 1, 2, 3]


def test_a_file_spans_no_leap_between_numbers(tmp_path):
    """Rows of an owner and of its predecessor: what stands between them is in no file's range."""
    writer = HistoryWriter(tmp_path, 3)
    left, own = blocks(NOON_MS, NOON_MS, first=5), blocks(NOON_MS, NOON_MS, first=1000)
    files = writer.write([*left, *own])
    assert [(file.first, file.end) for file in files] == [(5, 7), (1000, 1002)]
    writer.publish(files)
    assert history(tmp_path) == [5, 6, 1000, 1001]


@pytest.mark.parametrize("noted", [False, True])
def test_a_kill_before_the_rename_loses_no_row_and_doubles_none(tmp_path, noted):
    """What the journal has noted is published by the next owner; the rest is written again."""
    writer = HistoryWriter(tmp_path, 3)
    rows = blocks(NOON_MS, NOON_MS)
    writer.write(rows)
    HistoryWriter(tmp_path, 2).recover(100)  # another partition's owner leaves it alone
    assert history(tmp_path) == []
    writer = HistoryWriter(tmp_path, 3)
    writer.recover(2 if noted else 0)
    if not noted:
        writer.publish(writer.write(rows))
    assert history(tmp_path) == [0, 1]
    assert not list((tmp_path / HIDDEN).iterdir())


def test_publishing_again_changes_nothing(tmp_path):
    """A kill between two renames repeats the first one."""
    writer = HistoryWriter(tmp_path, 3)
    files = writer.write(blocks(NOON_MS))
    assert writer.publish(files) == 0
    assert writer.publish(files) == 0
    assert history(tmp_path) == [0]


def test_a_folder_that_vanishes_costs_what_was_hidden_and_no_more(tmp_path):
    """The rows of the hidden file are told as lost, once; the next ones are written."""
    writer = HistoryWriter(tmp_path / "history", 3)
    files = writer.write(blocks(NOON_MS, NOON_MS))
    shutil.rmtree(tmp_path / "history")
    assert writer.publish(files) == 2
    assert writer.publish(writer.write(blocks(NOON_MS, first=2))) == 0
    assert history(tmp_path / "history") == [2]


def test_what_was_published_is_not_lost_when_it_is_moved_before_a_retry(tmp_path, monkeypatch):
    """The outbox is emptied meanwhile: only what this writer never renamed counts."""
    midnight = NOON_MS + 12 * 3_600_000
    writer = HistoryWriter(tmp_path, 3)
    files = writer.write(blocks(midnight - 1, midnight))

    def refuse(_folder):
        raise OSError("the disk is away")

    with monkeypatch.context() as patched:
        (tmp_path / f"date={files[0].date}").mkdir()
        patched.setattr("distributary.history.writer.sync_folder", refuse)
        with pytest.raises(StoreError, match="publish"):
            writer.publish(files)
    (tmp_path / files[0].path).unlink()
    assert writer.publish(files) == 0
    assert history(tmp_path) == [1]


def test_a_medium_that_refuses_is_one_known_error(tmp_path):
    """A file lies where the folder should be."""
    (tmp_path / "file").write_bytes(b"")
    writer = HistoryWriter(tmp_path / "file", 3)
    with pytest.raises(StoreError, match="folder"):
        writer.write(blocks(NOON_MS))
    with pytest.raises(StoreError, match="folder"):
        writer.recover(0)


def test_nothing_was_left(tmp_path):
    """The folder does not exist yet."""
    HistoryWriter(tmp_path / "none", 3).recover(0)


def test_a_folder_without_its_mark_is_refused_until_it_is_mounted(tmp_path):
    """Rows would lie on a disk of this machine, where nobody looks: their owner keeps them."""
    folder = tmp_path / "share"
    writer = HistoryWriter(folder, 3, "shop")
    rows = blocks(NOON_MS)
    calls = [lambda: writer.write(rows), lambda: writer.recover(1), lambda: writer.publish([])]
    for call in calls:
        with pytest.raises(StoreError, match="is not the folder of this server"):
            call()
    assert not folder.exists()
    mark(folder, "orders", replace=False)
    for call in calls:
        with pytest.raises(StoreError, match="is not the folder of this server"):
            call()
    (folder / MARK_NAME).write_text("shop")
    writer.recover(0)
    writer.publish(writer.write(rows))
    assert history(folder) == [0]


def test_a_file_that_could_not_be_written_leaves_nothing_that_would_be_shown(tmp_path, monkeypatch):
    """A full disk: the owner may give its rows up, and the next one shows whole files alone."""

    def full(_rows, path):
        path.write_bytes(b"PAR1 and no more")
        raise StoreError("no space left on device")

    writer = HistoryWriter(tmp_path, 3)
    with monkeypatch.context() as patched:
        patched.setattr("distributary.history.writer.write_table", full)
        with pytest.raises(StoreError, match="no space"):
            writer.write(blocks(NOON_MS))
    assert list((tmp_path / HIDDEN).iterdir()) == []
    HistoryWriter(tmp_path, 3).recover(1)
    assert history(tmp_path) == []


def test_what_a_kill_leaves_half_written_is_deleted(tmp_path):
    """Its name says that it is no whole file, however many rows the journal calls filed."""
    writer = HistoryWriter(tmp_path, 3)
    (file,) = writer.write(blocks(NOON_MS))
    (hidden,) = (tmp_path / HIDDEN).iterdir()
    half = hidden.with_name(f"{hidden.name}.0a1b{PART}")
    hidden.rename(half)
    HistoryWriter(tmp_path, 2).recover(file.end)
    assert half.exists()
    HistoryWriter(tmp_path, 3).recover(file.end)
    assert not half.exists()
    assert history(tmp_path) == []


def test_a_write_that_outlasts_its_owner_shows_nothing(tmp_path, monkeypatch):
    """A share that answers hours later: the next owner has written the same rows long since."""
    writer = HistoryWriter(tmp_path, 3)

    def late(rows, path):
        write_table(rows, path)
        writer.end()

    monkeypatch.setattr("distributary.history.writer.write_table", late)
    with pytest.raises(StoreError, match="has ended"):
        writer.write(blocks(NOON_MS))
    assert list((tmp_path / HIDDEN).iterdir()) == []
    for call in (lambda: writer.publish([]), lambda: writer.recover(9)):
        with pytest.raises(StoreError, match="has ended"):
            call()
