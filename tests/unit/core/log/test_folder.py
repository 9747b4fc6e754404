"""The folder: made once, kept as it is, refused when it is newer, damaged or owned."""

import contextlib
import errno
import json
from pathlib import Path

import pytest

from distributary.core.errors import (
    LogDamagedError,
    LogFormatError,
    LogLockedError,
    LogUnavailableError,
)
from distributary.core.log import Appender, open_folder, partition_dir, read_folder
from distributary.testing.simulated_disk import SimulatedDisk
from distributary.testing.small_log import LOG_DIR, SmallLog
from distributary.testing.virtual import VirtualClock


def written(text):
    """A disk whose FORMAT file reads *text*."""
    disk = SimulatedDisk()
    open_folder(LOG_DIR, 2, disk=disk)
    disk.content(LOG_DIR / "FORMAT")[:] = text
    return disk


def test_a_new_folder_has_what_was_asked_for():
    """Partitions are made, and found again."""
    disk = SimulatedDisk()
    assert open_folder(LOG_DIR, 3, disk=disk) == 3
    assert read_folder(LOG_DIR, disk=disk) == 3
    assert sorted(disk.listdir(LOG_DIR)) == ["FORMAT", "p0000", "p0001", "p0002"]


def test_the_number_of_partitions_is_kept():
    """Another number is not used."""
    disk = SimulatedDisk()
    open_folder(LOG_DIR, 2, disk=disk)
    assert open_folder(LOG_DIR, 5, disk=disk) == 2


def test_a_newer_format_is_refused():
    """A log of a newer version is left alone."""
    disk = written(b'{"format": 4, "partitions": 2, "more": []}')
    with pytest.raises(LogFormatError, match="upgrade"):
        open_folder(LOG_DIR, 2, disk=disk)
    with pytest.raises(LogFormatError):
        read_folder(LOG_DIR, disk=disk)


OLD = b'{"format": 1, "partitions": 2}'


def test_an_older_format_is_raised_before_anything_is_written():
    """What that version wrote is kept; it refuses the folder from then on."""
    disk = written(OLD)
    assert read_folder(LOG_DIR, disk=disk) == 2  # looking changes nothing
    assert disk.content(LOG_DIR / "FORMAT") == OLD
    assert open_folder(LOG_DIR, 5, disk=disk) == 2
    assert json.loads(disk.content(LOG_DIR / "FORMAT")) == {"format": 3, "partitions": 2}


@pytest.mark.parametrize("call", range(1, 20))
def test_a_folder_whose_format_could_not_be_raised_is_what_it_was(call):
    """At whatever call the disk fails: either version stands there whole."""
    disk = written(OLD)
    disk.fail(call, errno.EIO)
    for _ in range(4):  # the call that fails is one of these
        with contextlib.suppress(LogUnavailableError):
            open_folder(LOG_DIR, 2, disk=disk)
        assert json.loads(disk.content(LOG_DIR / "FORMAT"))["format"] in {1, 3}
    assert open_folder(LOG_DIR, 2, disk=disk) == 2
    assert json.loads(disk.content(LOG_DIR / "FORMAT"))["format"] == 3


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"{}", b'{"format": "1", "partitions": 2}', b'{"format": 1}', b"\xff\xfe",
     b'{"format": 1, "partitions": 0}', b'{"format": 1, "partitions": "2"}', b'{"format": 0}'],
)  # fmt: skip
def test_a_damaged_format_file_is_refused(text):
    """Whatever stands there instead, the error shows what should."""
    with pytest.raises(LogDamagedError, match="partitions"):
        open_folder(LOG_DIR, 2, disk=written(text))


def test_a_missing_log_is_named():
    """Looking at a folder without a log says so."""
    with pytest.raises(LogUnavailableError, match="data directory"):
        read_folder(LOG_DIR, disk=SimulatedDisk())


def test_a_missing_partition_is_named():
    """An appender does not make the folder."""
    disk = SimulatedDisk()
    open_folder(LOG_DIR, 1, disk=disk)
    with pytest.raises(LogUnavailableError, match="p0001"):
        Appender.open(LOG_DIR, 1, clock=VirtualClock(), disk=disk)


def test_a_folder_that_cannot_be_made_is_named():
    """A read-only disk is told apart from other troubles."""
    disk = SimulatedDisk()
    disk.fail(1, errno.EROFS)
    with pytest.raises(LogUnavailableError, match="read-only") as caught:
        open_folder(LOG_DIR, 1, disk=disk)
    assert str(LOG_DIR) in str(caught.value)


def test_a_partition_has_one_appender():
    """A second appender is refused until the first is closed."""
    log = SmallLog()
    first = log.open()
    with pytest.raises(LogLockedError):
        log.open()
    first.close()
    first.close()
    log.open()


def test_partition_folders_sort():
    """Names have four digits."""
    assert partition_dir(Path("log"), 12) == Path("log/p0012")
