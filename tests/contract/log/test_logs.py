"""Every log passes the shipped contract suite, the memory one included."""

import pytest

from distributary.core.log import Appender, Reader, SystemDisk, open_folder
from distributary.testing import check_log
from distributary.testing.memory_log import MemoryLog
from distributary.testing.simulated_disk import SimulatedDisk
from distributary.testing.small_log import LOG_DIR


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
        for name in ("start", "durable_end", "read", "read_chunk", "kinds", "offset_at"):
            setattr(self, name, getattr(self._reader, name))

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
        return lambda clock: EmbeddedLog(tmp_path / "log", SystemDisk(), clock, 1 << 20)
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
