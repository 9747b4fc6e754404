"""What an owner recalls of the archive: requests, a bounded cache, and reads beside the log."""

import errno
from pathlib import Path

import msgspec
import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import RecordKind
from distributary.core.log import iter_frames
from distributary.core.log.recalled import ABSENT, RecalledName, RecalledWriter, list_recalled
from distributary.datadir.archived import (
    ARCHIVES_MAX,
    ArchivedStretch,
    StretchesFile,
    read_archived,
    write_archived,
)
from distributary.partitions.recall_requests import RequestsFile, read_requests
from distributary.partitions.recalls import (
    ASKED_S,
    LOOK_S,
    REPEATED_S,
    UNUSED_S,
    KeptRecords,
    Recalls,
)
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock

STRETCHES = [
    ArchivedStretch(0, 10, 1_000, 1_900),
    ArchivedStretch(10, 20, 2_000, 2_900),
    ArchivedStretch(20, 30, 3_000, 3_900),
]


class World:
    """An owner's recalls, and the job that brings what it asks for."""

    def __init__(self, folder, bytes_max=1 << 20):
        self.clock = VirtualClock()
        self.folder, self.requests = folder / "recalled", folder / "recalled.json"
        self.stretches = list(STRETCHES)
        self.recalls = Recalls(
            self.folder,
            RequestsFile(self.requests),
            lambda: self.stretches,
            self.clock,
            bytes_max=bytes_max,
        )

    def asked(self):
        """What is asked for."""
        return [first for first, _ in read_requests(self.requests)]

    def bring(self, *firsts, size=100):
        """Bring stretches."""
        self.folder.mkdir(exist_ok=True)
        for stretch in self.stretches:
            if stretch.from_offset in firsts:
                writer = RecalledWriter(self.folder, RecalledName(*stretch[:2]))
                for offset in range(*stretch[:2]):
                    if offset not in {5, 15}:
                        writer.add(offset, stretch.from_ms, RecordKind.EVENTS, b"x" * size)
                writer.finish()
        self.wait(LOOK_S)

    def wait(self, seconds):
        """Let time pass."""
        self.clock.move_to(self.clock.monotonic_s() + seconds)
        self.recalls.tick()


@pytest.fixture
def world(tmp_path):
    """Three stretches, none of them there."""
    return World(tmp_path)


def test_what_is_not_there_is_asked_for_with_the_next_one(world):
    """And no more than that; the request is withdrawn when it is there."""
    assert world.recalls.find(12) is None
    assert world.asked() == [10, 20]
    world.bring(10, 20)
    assert world.recalls.find(12).name == (10, 20)
    assert world.asked() == []


def test_a_request_that_nobody_repeats_ends(world):
    """Its run was cancelled, or its route deleted."""
    world.recalls.find(3)
    world.wait(ASKED_S - 1)
    assert world.asked() == [0, 10]
    world.wait(2.0)
    assert world.asked() == []


def test_who_has_waited_longest_is_next(world):
    """However many others ask for older records; but one that may have ended waits for all."""
    world.recalls.find(22)
    world.wait(LOOK_S)
    world.recalls.find(2)
    world.recalls.find(22)
    assert world.asked() == [20, 0, 10]
    world.wait(REPEATED_S)
    world.recalls.find(2)
    assert world.asked() == [0, 10, 20]


def test_a_file_that_nobody_reads_goes(world):
    """What is read meanwhile stays."""
    world.recalls.find(3)
    world.bring(0, 10)
    world.wait(UNUSED_S - 1)
    world.recalls.find(3)
    world.wait(2.0)
    assert [name.from_offset for name in list_recalled(world.folder)] == [0]


def test_the_files_are_bounded(tmp_path):
    """The one that was read least lately goes, and the last one never."""
    world = World(tmp_path, bytes_max=3_000)
    world.recalls.find(3)
    world.bring(0, 10)
    world.recalls.find(12)
    world.bring(20)
    world.recalls.find(12)
    world.wait(LOOK_S)
    assert 10 in [name.from_offset for name in list_recalled(world.folder)]
    assert len(list_recalled(world.folder)) == 2


@pytest.fixture
def kept(world):
    """A log that begins at 25, before which there is an archive."""
    log = MemoryLog(world.clock, first_offset=25)
    for _ in range(10):
        log.append([(RecordKind.EVENTS, b"log")])
    return KeptRecords(log, world.recalls)


def test_reads_end_where_something_is_on_its_way(world, kept):
    """And go on in the log."""
    assert kept.readable_to(0, 100) == 0
    assert list(kept.read(0, 100)) == []
    assert kept.read_chunk(0, 1_000) == (b"", 0)
    world.bring(0)
    assert kept.readable_to(0, 100) == 10
    assert [each.offset for each in kept.read(0, 100)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    world.bring(10, 20)
    found = list(kept.read(8, 100))
    assert [each.offset for each in found] == [n for n in range(8, 35) if n != 15]
    assert [each.body for each in found if each.offset >= 25] == [b"log"] * 10


def test_chunks_have_a_frame_for_each_offset(world, kept):
    """As those of the log have."""
    world.recalls.find(0)
    world.bring(0, 10, 20)
    at, offsets = 0, []
    while at < 35:
        chunk, at = kept.read_chunk(at, 300)
        offsets += [(each.offset, each.kind == ABSENT) for each in iter_frames(chunk)]
    assert [offset for offset, _ in offsets] == list(range(35))
    assert [offset for offset, absent in offsets if absent] == [5, 15]


def test_what_nobody_has_is_passed(world, kept):
    """A stretch that was deleted, between others or before the log."""
    world.stretches = [STRETCHES[1]]
    assert kept.readable_to(0, 100) == 10
    assert kept.read_chunk(0, 100) == (b"", 10)
    assert kept.readable_to(20, 100) == 25
    assert [each.offset for each in kept.read(20, 27)] == [25, 26]


def test_what_is_missing_in_the_middle_is_known(world, kept):
    """Between stretches, before the log, and in a stretch; not what the oldest record tells of."""
    world.stretches = [STRETCHES[1]]
    assert kept.lost(0, 100) == [(20, 25)]
    world.stretches = [STRETCHES[0], STRETCHES[2]]
    world.wait(LOOK_S)
    world.recalls.stretches()
    assert kept.lost(0, 12) == [(10, 12)]
    assert kept.lost(22, 100) == []
    world.folder.mkdir()
    writer = RecalledWriter(world.folder, RecalledName(*STRETCHES[0][:2]))
    writer.lose(4, 7)
    writer.finish()
    world.wait(LOOK_S)
    assert kept.lost(0, 100) == [(4, 7), (10, 20)]
    assert kept.lost(5, 6) == [(5, 6)]
    assert kept.read_chunk(4, 100) == (b"", 7)


def test_a_file_is_read_to_its_end_though_the_archive_is_gone(world, kept):
    """And no further: what is missing behind it is not taken for read."""
    world.recalls.find(0)
    world.bring(0)
    world.stretches = []
    world.wait(LOOK_S)
    assert kept.readable_to(0, 100) == 10
    assert [each.offset for each in kept.read(0, 10)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert kept.readable_to(10, 100) == 25


def test_what_was_found_readable_is_read_though_its_file_goes(world, kept):
    """A reader that has looked passes all of it."""
    world.bring(0)
    end = kept.readable_to(0, 100)
    world.recalls.forget(world.recalls.find(0))
    assert [each.offset for each in kept.read(0, end)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_times_lead_to_stretches_where_the_log_begins_later(kept):
    """From the beginning of the first one that has such an event, to the end of the last one."""
    assert (kept.start(), kept.archived_to(), kept.oldest_ms()) == (0, 25, 1_000)
    assert (kept.before(0), kept.before(1_950), kept.before(2_500)) == (0, 10, 10)
    assert (kept.after(1_000), kept.after(2_500), kept.after(3_000)) == (0, 20, 20)


def test_stretches_whose_times_overlap_are_not_passed_over(world, kept):
    """The clock of a new leader was behind: what follows is older than some of what was before."""
    world.stretches = [
        ArchivedStretch(0, 10, 1_000, 5_000),
        ArchivedStretch(10, 20, 2_000, 6_000),
        ArchivedStretch(20, 25, 7_000, world.clock.wall_ms() + 5_000),
    ]
    assert (kept.before(4_000), kept.before(5_500)) == (0, 10)
    assert (kept.after(500), kept.after(1_500), kept.after(3_000)) == (0, 10, 20)
    now_ms = world.clock.wall_ms()
    assert kept.after(now_ms) == 25
    assert kept.before(now_ms + 3_000) == 20  # no record of the log is as late
    assert kept.before(now_ms + 6_000) == kept.durable_end()


def test_a_cut_within_a_stretch_bounds_what_is_as_late(kept):
    """The log is at 25 by now, in the middle of the last stretch: none of it is earlier."""
    assert kept.archived_to() == 25
    assert kept.after(3_500) == 25


def test_the_file_of_stretches_is_read_again_when_it_changes(tmp_path):
    """What another archive has does not count, nor does it make this one unknown."""
    path = tmp_path / "archived.json"
    stretches = StretchesFile(path, "/archive", 0)
    assert stretches.read() == []
    write_archived(path, "/archive", {0: 10}, {0: STRETCHES[:1]})
    assert stretches.read() == STRETCHES[:1]
    write_archived(path, "/archive", {0: 30}, {0: STRETCHES})
    assert stretches.read() == STRETCHES
    write_archived(path, "/elsewhere", {0: 10}, {0: STRETCHES[:1]})
    assert stretches.read() == STRETCHES
    assert StretchesFile(path, "/elsewhere", 0).read() == STRETCHES[:1]
    assert StretchesFile(path, "/nowhere", 0).read() == []
    for number in range(ARCHIVES_MAX - 1):
        assert stretches.read() == STRETCHES
        write_archived(path, f"/copy-{number}", {}, {})
    assert stretches.read() == []  # so many are remembered


def test_a_file_that_cannot_be_read_now_makes_nothing_unknown(tmp_path, monkeypatch):
    """Else whoever reads the archive takes all that it has for lost, until it changes again."""
    path, whole = tmp_path / "archived.json", Path.read_bytes
    stretches = StretchesFile(path, "/archive", 0)
    write_archived(path, "/archive", {0: 10}, {0: STRETCHES[:1]})
    assert stretches.read() == STRETCHES[:1]
    write_archived(path, "/archive", {0: 30}, {0: STRETCHES})

    def refused(_path):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert stretches.read() == STRETCHES[:1]
    assert read_archived(path, "/archive") == {}
    with pytest.raises(OSError, match="Too many"):
        write_archived(path, "/elsewhere", {0: 10})
    monkeypatch.setattr(Path, "read_bytes", whole)
    assert stretches.read() == STRETCHES
    path.unlink()
    assert stretches.read() == []


def test_a_file_that_cannot_be_read_at_first_is_no_archive_without_records(tmp_path, monkeypatch):
    """Whoever asks is told to come again: a run would take all that the archive has for missing."""
    path = tmp_path / "archived.json"
    write_archived(path, "/archive", {0: 10}, {0: STRETCHES[:1]})
    stretches = StretchesFile(path, "/archive", 0)

    def refused(_path):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refused)
        for _ in range(2):
            with pytest.raises(StoreError, match="Too many"):
                stretches.read()
    assert stretches.read() == STRETCHES[:1]


def test_what_an_earlier_version_noted_of_an_archive_counts(tmp_path):
    """It knew of one; and it reads that of which the newest job was."""
    path = tmp_path / "archived.json"
    path.write_bytes(b'{"to":"/archive","partitions":{"0":10},"stretches":{"0":[[0,10,1,2]]}}')
    assert StretchesFile(path, "/archive", 0).read() == [(0, 10, 1, 2)]
    write_archived(path, "/elsewhere", {0: 5})
    assert StretchesFile(path, "/archive", 0).read() == [(0, 10, 1, 2)]
    found = msgspec.json.decode(path.read_bytes())
    assert (found["to"], found["partitions"]) == ("/elsewhere", {"0": 5})
