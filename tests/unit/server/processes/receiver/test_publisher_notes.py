"""Notes of who published an event go when the log has the event no more."""

import asyncio
from types import SimpleNamespace

import pytest

from distributary.core.flow import Received, RecordKind
from distributary.core.log import Appender, open_folder
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField, publishers
from distributary.datadir.publishers import PublisherBook, Publishers, list_firsts
from distributary.server.processes.receiver import route_snapshot
from distributary.server.processes.receiver.file_log import FileLog
from distributary.server.processes.receiver.retention import Retention, RetentionLimits
from distributary.testing.virtual import VirtualClock

RECORDS = 100


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A log of several segments that everybody is past, and a file of notes for each record."""
    monkeypatch.setattr(publishers, "FILE_BYTES", 1)
    monkeypatch.setattr(route_snapshot, "snapshot_at", lambda *_: b"")
    paths = DataDir(tmp_path / "data")
    paths.run.mkdir(parents=True)
    open_folder(paths.log, 1)
    clock = VirtualClock()
    appender = Appender.open(paths.log, 0, clock=clock, segment_bytes=64 * 1024)
    book = PublisherBook({0: paths.publishers(0)})
    for offset in range(RECORDS):
        appender.append([(RecordKind.EVENTS, b"x" * 4096)])
        book.note(0, offset, [f"key:{offset}"])
        book.flush()
    MappedStatusPage(paths.status_page(0))[StatusField.KEEP_FROM] = RECORDS
    retention = Retention(
        paths,
        [0],
        RetentionLimits(0, 3600.0),
        clock=clock,
        meter=Meter(),
        log=SimpleNamespace(warning=print),
    )
    yield SimpleNamespace(folder=paths.publishers(0), retention=retention)
    appender.close()


def test_the_notes_of_deleted_records_are_deleted_with_them(made):
    """Those of the records that stay are read as before."""
    start = made.retention.retain_partition(0).start
    assert 0 < start < RECORDS
    assert list_firsts(made.folder) == list(range(start, RECORDS))
    assert Publishers(made.folder).of(start) == f"key:{start}"


def test_a_receiver_says_that_it_cannot_note_who_published(tmp_path):
    """Once, with the reason; the event is taken."""
    paths = DataDir(tmp_path / "data")
    paths.run.mkdir(parents=True)
    open_folder(paths.log, 1)
    paths.publishers(0).parent.mkdir(parents=True)
    paths.publishers(0).write_text("a file where a folder should be")
    lines = []

    async def publish():
        log = FileLog(
            paths,
            0,
            receivers=1,
            partitions=1,
            retention=RetentionLimits(0, 3600.0),
            clock=VirtualClock(),
            meter=Meter(),
            log=SimpleNamespace(warning=lambda name, **fields: lines.append((name, fields))),
            look_again=lambda: None,
            on_inline=lambda _under_way: None,
        )
        log.allow(allowed=True)
        received = Received(b"x", 1, None, by="key:till")
        taken = asyncio.get_running_loop().create_future()
        log.appends.submit(received, taken.set_result)
        assert await taken == 0
        log.look()
        log.look()
        await log.close(0.0)

    asyncio.run(publish())
    ((name, fields),) = lines
    assert name == "publishers-not-noted"
    assert "Not a directory" in fields["reason"] or "File exists" in fields["reason"]


def test_notes_that_an_earlier_run_left_go_although_no_segment_does(made):
    """A directory that has gathered them shrinks at the next run."""
    start = made.retention.retain_partition(0).start
    left = made.folder / f"{3:020d}.who"
    left.write_bytes(b"DSTRWHO1")
    assert made.retention.retain_partition(0).segment_count == 0
    assert not left.exists()
    assert list_firsts(made.folder)[0] == start
