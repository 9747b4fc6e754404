"""Every log passes the shipped contract suite, the memory one included."""

import pytest

from distributary.core.flow import RecordKind
from distributary.core.log import (
    Appender,
    Reader,
    SystemDisk,
    open_folder,
    partition_dir,
    retain,
)
from distributary.partitions.ports import Records
from distributary.testing import check_log
from distributary.testing.memory_log import MemoryLog
from distributary.testing.simulated_disk import SimulatedDisk
from distributary.testing.small_log import LOG_DIR
from distributary.testing.virtual import VirtualClock


class EmbeddedLog:
    """Appender and reader of the embedded log as one object."""

    def __init__(self, log_dir, disk, clock, segment_bytes):
        self._arguments = (log_dir, disk, clock, segment_bytes)
        self._open()

    def _open(self):
        log_dir, disk, clock, segment_bytes = self._arguments
        open_folder(log_dir, 1, disk=disk)
        self._appender = Appender.open(
            log_dir, 0, clock=clock, disk=disk, segment_bytes=segment_bytes
        )
        self._reader = Reader(log_dir, 0, disk=disk)
        self.append = self._appender.append
        self.prepare = self._appender.prepare
        for name in dir(Records):
            if not name.startswith("_") and name != "close":
                setattr(self, name, getattr(self._reader, name))

    def retain(self, keep_from_offset, snapshot_at_cut):
        log_dir, disk, clock, _ = self._arguments
        retain(
            partition_dir(log_dir, 0),
            keep_from_offset,
            bytes_max=0,
            age_max_s=0.0,
            now_ms=clock.wall_ms(),
            snapshot_at_cut=snapshot_at_cut,
            disk=disk,
        )

    def damage(self, offset):
        log_dir, disk, *_ = self._arguments
        folder = partition_dir(log_dir, 0)
        frame, _ = self._reader.read_chunk(offset, 1)
        for name in disk.listdir(folder):
            if name.endswith(".seg"):
                handle = disk.open(folder / name, write=True)
                place = disk.pread(handle, disk.size(handle), 0).find(frame)
                if place >= 0:
                    disk.pwrite(handle, memoryview(bytes(len(frame))), place)
                disk.close(handle)

    def reopen(self):
        self.close()
        self._open()

    def close(self):
        self._reader.close()
        self._appender.close()


@pytest.fixture(params=["memory", "simulated", "simulated-small-segments", "system"])
def make(request, tmp_path):
    """A function that makes an empty log."""
    if request.param == "memory":
        return MemoryLog
    if request.param == "system":
        return lambda clock: EmbeddedLog(tmp_path / "log", SystemDisk(), clock, 12_000)
    size = 1 << 20 if request.param == "simulated" else 12_000
    return lambda clock: EmbeddedLog(LOG_DIR, SimulatedDisk(), clock, size)


@pytest.mark.parametrize("check", check_log.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, make):
    """The log keeps what the rooms above count on."""
    check_log.run_check(check, make)


def test_check_log_finds_a_log_that_forgets():
    """The suite itself fails a log that loses its last record when it is reopened."""

    class Forgetful(MemoryLog):
        def reopen(self):
            self._records.pop()
            self._frames.pop()

    with pytest.raises((AssertionError, IndexError)):
        check_log.check_log(Forgetful)


def test_check_log_passes_a_good_log():
    """The one-call form runs every check."""
    check_log.check_log(MemoryLog)


def test_retention_is_met(make, request):
    """The check of it says nothing where nothing is ever deleted."""
    log = make(VirtualClock())
    for _ in range(100):
        log.append([(RecordKind.EVENTS, bytes(300))])
    log.retain(log.durable_end(), lambda _cut: b"")
    one_segment = request.node.callspec.params["make"] == "simulated"
    assert (log.start() == 0) == one_segment
    log.close()


class Greedy(MemoryLog):
    """Deletes one record more than it may."""

    def retain(self, keep_from_offset, snapshot_at_cut):
        super().retain(keep_from_offset + 1, snapshot_at_cut)


class Blocked(MemoryLog):
    """Comes to no record behind a hole."""

    def read_chunk(self, from_offset, bytes_max):
        chunk, following = super().read_chunk(from_offset, bytes_max)
        return (chunk, following) if chunk else (b"", from_offset)


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (Greedy, check_log.check_retention_deletes_nothing_that_is_needed),
        (Blocked, check_log.check_a_hole_is_passed_over),
    ],
)
def test_check_log_finds_what_is_wrong(wrong, check):
    """The suite itself fails a log that breaks a promise."""
    with pytest.raises(AssertionError):
        check_log.run_check(check, wrong)
