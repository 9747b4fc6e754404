"""The file of tallies: what is torn, foreign or full."""

import errno
import os
from pathlib import Path

import pytest

from distributary.core.errors import StoreError
from distributary.core.outcome import Tally, TallyFile, TallyFileReader, sum_of
from distributary.core.outcome._tally_file import PAGE, SLOTS

ONE = Tally(delivered=1, failing_since_ms=5, failing_last_ms=6, failing_count=1)


@pytest.fixture
def path(tmp_path):
    """Where the file is to be."""
    return tmp_path / "tallies"


@pytest.fixture
def store(path):
    """An empty store."""
    made = TallyFile(path)
    yield made
    made.close()


def test_a_torn_slot_is_not_believed(path, store):
    """A power cut tore it: its route begins again, and the others go on."""
    store.put({"torn": ONE, "whole": ONE})
    place = path.read_bytes().index(b"torn")
    with path.open("r+b") as file:
        file.seek(place + 70)
        file.write(b"\xff" * 8)
    again = TallyFile(path)
    assert again.routes() == ["whole"]
    again.put({"new": ONE})
    again.close()
    assert TallyFileReader(path).changes() == {"whole": ONE, "new": ONE}


@pytest.mark.parametrize(
    "tally",
    [
        Tally(delivered=2**40, dead_lettered=1, dropped=1, failed=1, success_ms=1),
        Tally(answer_ms=1, answer_status=500, failing_last_ms=1, failing_count=1),
        Tally(failing_reason="x" * 40),
        *(
            Tally(**{name: 1})
            for name in ("in_flight", "waiting", "backfilling", "parked", "failing_since_ms")
        ),
    ],
    ids=str,
)
def test_the_next_owner_learns_what_is_not_at_rest(path, store, tally):
    """Each number by itself, and nothing of a route that is at rest."""
    store.put({"a": tally, "b": Tally()})
    again = TallyFile(path)
    assert set(again.standing()) == ({"a"} if not tally.at_rest else set())
    assert sorted(again.routes()) == ["a", "b"]
    again.close()


def test_a_slot_that_is_being_written_is_looked_at_again(path, store):
    """The reader comes while half of it is there."""
    store.put({"r": ONE})
    reader = TallyFileReader(path)
    whole = path.read_bytes()
    place = whole.index(b"r\0\0\0") + 110
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff")
    assert reader.changes() == {}
    path.open("r+b").close()
    with path.open("r+b") as file:
        file.seek(place)
        file.write(whole[place : place + 1])
    assert reader.changes() == {"r": ONE}


@pytest.mark.parametrize(
    "content", [b"", b"something else entirely" * 1000], ids=["empty", "foreign"]
)
def test_a_file_of_something_else_is_replaced(path, content):
    """Counting begins at 0; who has the old file mapped sees the new one."""
    path.write_bytes(content)
    store = TallyFile(path)
    store.put({"r": ONE})
    store.close()
    assert TallyFileReader(path).changes() == {"r": ONE}


def test_a_reader_follows_to_another_file(path, store):
    """What only the old one had is gone."""
    store.put({"old": ONE, "both": ONE})
    reader = TallyFileReader(path)
    reader.changes()
    path.unlink()
    other = TallyFile(path)
    other.put({"both": ONE})
    other.close()
    assert reader.changes() == {"old": None, "both": ONE}


def test_a_full_disk_is_told_and_put_again_later(path, store, monkeypatch):
    """The tallies are whole afterwards."""

    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(StoreError, match="No space"):
            store.put({"r": ONE})
    store.put({"r": ONE})
    assert TallyFileReader(path).changes() == {"r": ONE}


def test_the_file_grows_by_extents_and_not_with_the_writes(path, store):
    """One more route than an extent has slots needs a second one."""
    many = {f"r{number}": ONE for number in range(SLOTS)}
    for _ in range(3):
        store.put(many)
    size = path.stat().st_size
    store.put({"one more": ONE})
    assert path.stat().st_size - size == size - PAGE
    assert len(TallyFileReader(path).changes()) == SLOTS + 1


def test_a_uid_that_is_too_long_has_no_tally(store):
    """No uid of ours is; it must not cut another's."""
    store.put({"u" * 65: ONE, "u" * 64: ONE})
    assert store.routes() == ["u" * 64]


def test_the_sum_has_the_newest_answer_and_failure():
    """Of two partitions."""
    other = Tally(
        delivered=2,
        answer_ms=9,
        answer_status=503,
        success_ms=4,
        failing_since_ms=3,
        failing_last_ms=8,
        failing_count=2,
        failing_reason="timeout",
    )
    assert sum_of([ONE, other]) == Tally(
        delivered=3,
        answer_ms=9,
        answer_status=503,
        success_ms=4,
        failing_since_ms=3,
        failing_last_ms=8,
        failing_count=3,
        failing_reason="timeout",
    )
    assert sum_of([]) == Tally()


def test_a_disk_without_room_for_the_file_keeps_no_descriptor(store, monkeypatch):
    """It is tried again every second, for as long as the disk is full."""

    def full(_fd, _content, _at):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        before = len([*Path("/proc/self/fd").iterdir()])
        for _ in range(3):
            with pytest.raises(StoreError, match="No space"):
                store.put({"a": ONE})
        assert len([*Path("/proc/self/fd").iterdir()]) == before
    store.put({"a": ONE})
    assert store.get("a") == ONE


def test_a_tally_that_cannot_be_read_begins_again(store, monkeypatch):
    """The partition asks on its loop, which an error would end."""

    def unreadable(_fd, _length, _at):
        raise OSError(errno.EIO, "Input/output error")

    store.put({"a": ONE})
    monkeypatch.setattr(os, "pread", unreadable)
    assert store.get("a") is None
