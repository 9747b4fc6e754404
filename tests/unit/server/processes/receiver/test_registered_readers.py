"""Retention holds the log for registered readers: so long, so much, and says what they lost."""

import os
from types import SimpleNamespace

import pytest

from distributary.core.clock import TRUST_S
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder
from distributary.core.log.reader_notes import READERS_MAX, UnreadNote
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.datadir.readers import ReaderFiles
from distributary.server.processes.receiver import route_snapshot as _route_snapshot
from distributary.server.processes.receiver.registered_readers import READERS_S_MAX
from distributary.server.processes.receiver.retention import (
    READERS_DISK_SHARE,
    Retention,
    RetentionLimits,
)
from distributary.testing.virtual import VirtualClock

SEGMENT = 64 * 1024


class World:
    """A log of several segments that everybody is past, and what cuts it."""

    def __init__(self, folder):
        self.paths = DataDir(folder)
        self.paths.run.mkdir(parents=True)
        open_folder(self.paths.log, 1)
        self.clock = VirtualClock()
        self.disk_bytes = 1 << 40
        self.told = []
        self._appender = Appender.open(self.paths.log, 0, clock=self.clock, segment_bytes=SEGMENT)
        for _ in range(100):
            self._appender.append([(RecordKind.EVENTS, b"x" * 4096)])
            self.clock.move_to(self.clock.monotonic_s() + 60.0)
        page = MappedStatusPage(self.paths.status_page(0))
        page[StatusField.KEEP_FROM] = 100
        log = SimpleNamespace(info=self._tell, warning=self._tell)
        self._retention = Retention(
            self.paths,
            [0],
            RetentionLimits(0, 3600.0 * 24 * 365),
            clock=self.clock,
            meter=Meter(),
            log=log,
            disk_bytes=lambda: self.disk_bytes,
        )

    def _tell(self, event, **fields):
        self.told.append((event, fields))

    def read_to(self, name, offset):
        """A reader says how far it is."""
        ReaderFiles(self.paths.readers).write(name, {0: offset}, self.clock.wall_ms())

    def wait(self, seconds):
        """Let time pass."""
        self.clock.move_to(self.clock.monotonic_s() + seconds)

    def cut(self):
        """Run retention; returns where the log begins."""
        return self._retention.retain_partition(0).start

    def close(self):
        """Close the log."""
        self._appender.close()


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A log of 100 records, one a minute."""
    monkeypatch.setattr(_route_snapshot, "snapshot_at", lambda *_: b"")
    made = World(tmp_path / "data")
    yield made
    made.close()


def test_the_log_is_held_for_the_slowest_reader(world):
    """It goes on as the reader does."""
    world.read_to("fast", 90)
    world.read_to("slow", 35)
    assert 0 < world.cut() <= 35
    world.read_to("slow", 80)
    assert 35 < world.cut() <= 80
    assert world.told == []


def test_a_reader_holds_a_share_of_the_disk_at_most_and_is_told(world):
    """Once for each cut, with what it lost."""
    world.disk_bytes = int(3 * SEGMENT / READERS_DISK_SHARE)
    world.read_to("slow", 5)
    start = world.cut()
    assert start > 5
    world.cut()
    lost = {"reader": "slow", "partition": 0, "first": 5, "last": start - 1}
    assert world.told == [("reader-lost", lost)]


def test_records_are_held_so_long_and_a_silent_reader_is_forgotten(world):
    """A reader that goes on reports, and holds only what is younger than that."""
    world.read_to("slow", 0)
    world.wait(READERS_S_MAX - 50 * 60.0)
    world.read_to("slow", 0)
    start = world.cut()
    assert 20 < start <= 50
    world.wait(READERS_S_MAX + 1.0)
    assert world.cut() > 50
    assert ("reader-forgotten", {"reader": "slow"}) in world.told
    assert ReaderFiles(world.paths.readers).read() == {}


def test_no_reader_is_silent_by_a_clock_that_leapt(world):
    """Nor is what it needs too old; for an hour, in which the clock may be set right."""
    world.read_to("slow", 35)
    assert world.cut() <= 35
    world.clock.jump(int(2 * READERS_S_MAX * 1000))
    assert world.cut() <= 35
    world.wait(TRUST_S - 1.0)
    assert world.cut() <= 35
    assert world.told == []
    world.wait(1.0)
    assert world.cut() > 50
    assert world.told == [("reader-forgotten", {"reader": "slow"})]


def test_a_partition_that_was_added_since_is_held_from_its_beginning(world):
    """The note does not have it: the reader has read nothing there."""
    before = ReaderFiles(world.paths.readers)
    before.write("before", {7: 95}, world.clock.wall_ms())
    assert world.cut() == 0
    assert world.told == []
    world.disk_bytes = int(3 * SEGMENT / READERS_DISK_SHARE)
    start = world.cut()
    assert start > 0
    lost = {"reader": "before", "partition": 0, "first": 0, "last": start - 1}
    assert world.told == [("reader-lost", lost)]
    before.write("before", {0: 95, 7: 95}, world.clock.wall_ms())
    assert start < world.cut() <= 95


def test_a_note_that_cannot_be_read_holds_what_a_reader_may(world):
    """Its reader may have read nothing: so much, for so long, and it is said once."""
    world.read_to("odd", 90)
    path = world.paths.readers / "odd.json"
    path.write_bytes(b"{")
    at_s = world.clock.wall_ms() / 1000
    os.utime(path, (at_s, at_s))
    assert world.cut() == 0
    assert world.cut() == 0
    ((event, fields),) = world.told
    assert (event, fields["reader"]) == ("reader-unread", "odd")
    world.wait(READERS_S_MAX + 1.0)
    assert world.cut() >= 90
    assert world.told[-1] == ("reader-forgotten", {"reader": "odd"})


def test_a_folder_that_cannot_be_read_holds_what_a_reader_may(world):
    """Nobody knows who reads."""
    world.paths.readers.write_bytes(b"no folder")
    assert world.cut() == 0
    ((event, fields),) = world.told
    assert (event, fields["reader"]) == ("reader-unread", "*")
    world.disk_bytes = int(3 * SEGMENT / READERS_DISK_SHARE)
    assert world.cut() > 0
    world.paths.readers.unlink()
    assert world.cut() >= 90


def test_a_note_that_cannot_be_deleted_holds_nothing_either(world, monkeypatch):
    """Its file belongs to the user of the query."""

    def forget(*_):
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(ReaderFiles, "forget", forget)
    world.read_to("slow", 0)
    world.wait(READERS_S_MAX + 1.0)
    assert world.cut() > 50
    world.cut()
    assert world.told == [("reader-forgotten", {"reader": "slow"})]


def test_so_many_readers_count_at_most(world):
    """What is no note says so."""
    folder = world.paths.readers
    assert ReaderFiles(folder).read() == {}
    for number in range(READERS_MAX + 5):
        world.read_to(f"r-{number:03d}", 3)
    assert len(ReaderFiles(folder).read()) == READERS_MAX
    (folder / "r-000.json").write_bytes(b"{")
    (folder / "r-001.json").write_bytes(b'{"positions": {"0": "x"}, "at_ms": 1}')
    (folder / "r-002.tmp").write_bytes(b"")
    found = ReaderFiles(folder).read()
    unread = [name for name, note in found.items() if isinstance(note, UnreadNote)]
    assert (len(found), unread) == (READERS_MAX, ["r-000", "r-001"])
