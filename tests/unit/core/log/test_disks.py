"""The simulated disk answers as the real one does."""

from pathlib import Path

import pytest

from distributary.core.errors import LogLockedError
from distributary.core.log import SystemDisk
from distributary.testing.simulated_disk import SimulatedDisk


@pytest.fixture(params=["system", "simulated"])
def place(request, tmp_path):
    """A disk and an empty folder on it."""
    disk = SystemDisk() if request.param == "system" else SimulatedDisk()
    folder = tmp_path / "one" / "two" if request.param == "system" else Path("/one/two")
    disk.mkdir(folder)
    disk.mkdir(folder)
    return disk, folder


def test_bytes_are_read_where_they_were_written(place):
    """Writes extend, gaps are zero, reads stop at the end."""
    disk, folder = place
    handle = disk.open(folder / "a", write=True, create=True)
    assert disk.pwrite(handle, memoryview(b"abc"), 4) == 3
    assert disk.pread(handle, 100, 0) == b"\0\0\0\0abc"
    assert disk.pread(handle, 2, 5) == b"bc"
    assert disk.pread(handle, 2, 50) == b""
    disk.fallocate(handle, 20)
    disk.fallocate(handle, 5)
    assert disk.size(handle) == 20
    disk.truncate(handle, 6)
    assert disk.pread(handle, 100, 0) == b"\0\0\0\0ab"
    disk.fdatasync(handle)
    disk.fsync_dir(folder)
    disk.close(handle)


def test_names_can_be_changed_and_removed(place):
    """Renaming replaces; a file without a name can be read while it is open."""
    disk, folder = place
    for name, text in (("a", b"first"), ("b", b"second")):
        handle = disk.open(folder / name, write=True, create=True)
        disk.pwrite(handle, memoryview(text), 0)
        disk.close(handle)
    disk.rename(folder / "a", folder / "b")
    assert list(disk.listdir(folder)) == ["b"]
    handle = disk.open(folder / "b")
    disk.unlink(folder / "b")
    assert disk.pread(handle, 100, 0) == b"first"
    disk.close(handle)
    assert list(disk.listdir(folder)) == []


def test_what_is_missing_is_reported(place):
    """Opening, removing and listing what is not there."""
    disk, folder = place
    for attempt in (
        lambda: disk.open(folder / "a"),
        lambda: disk.unlink(folder / "a"),
        lambda: disk.listdir(folder / "a"),
        lambda: disk.map_words(folder / "a"),
    ):
        with pytest.raises(FileNotFoundError):
            attempt()


def test_words_are_shared(place):
    """What one side stores the other sees, and a later mapping too."""
    disk, folder = place
    writer = disk.map_words(folder / "end", write=True)
    reader = disk.map_words(folder / "end")
    assert reader[0] == reader[1] == 0
    writer[0] = 2**63 + 5
    assert reader[0] == 2**63 + 5
    writer.close()
    again = disk.map_words(folder / "end", write=True)
    assert again[0] == 2**63 + 5
    again.close()
    reader.close()


def test_a_short_file_of_words_is_not_mapped(tmp_path):
    """A reader that comes before the file is complete gets an error, not a dead process."""
    (tmp_path / "end").write_bytes(b"x")
    with pytest.raises(OSError, match="shorter"):
        SystemDisk().map_words(tmp_path / "end")


def test_a_lock_is_exclusive(place):
    """One holder at a time."""
    disk, folder = place
    held = disk.lock(folder / "lock")
    with pytest.raises(LogLockedError):
        disk.lock(folder / "lock")
    held.release()
    disk.lock(folder / "lock").release()


def test_a_power_cut_takes_what_was_not_synced():
    """Bytes without fdatasync and names without fsync are gone."""
    disk = SimulatedDisk()
    disk.mkdir(Path("/d"))
    for name in ("synced", "unnamed"):
        handle = disk.open(Path("/d") / name, write=True, create=True)
        disk.pwrite(handle, memoryview(b"one"), 0)
        disk.fdatasync(handle)
        if name == "synced":
            disk.fsync_dir(Path("/d"))
            disk.pwrite(handle, memoryview(b"two"), 0)
    after = disk.power_cut()
    assert list(after.listdir(Path("/d"))) == ["synced"]
    assert after.content(Path("/d/synced")) == b"one"
