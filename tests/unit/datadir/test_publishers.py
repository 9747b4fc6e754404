"""Who published what: notes that a crash may lose, and that never name anybody else."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.datadir import publishers
from distributary.datadir.publishers import PublisherBook, Publishers, forget_below

NAMES = st.sampled_from(["key:till", "key:shop", "token:https://issuer/ä", "x" * 2000])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("note"), NAMES, st.integers(0, 2)),
        st.tuples(st.just("flush"), st.just(""), st.just(0)),
        st.tuples(st.just("restart"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@example(steps=[("note", "key:till", 0), ("note", "key:shop", 0), ("flush", "", 0)], cut=2)
@example(steps=[("note", "key:till", 0), ("note", "key:shop", 0), ("flush", "", 0)], cut=5)
@given(steps=STEPS, cut=st.integers(0, 200))
def test_what_is_told_is_what_was_noted(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]], cut: int
) -> None:
    """After restarts, with gaps, and with a file that a crash has cut: a name, or nothing."""
    folder = tmp_path_factory.mktemp("notes")
    book = PublisherBook({0: folder})
    offset, noted, written = 0, {}, {}
    for name, by, gap in steps:
        if name == "note":
            offset += gap
            book.note(0, offset, [by])
            noted[offset] = by[: publishers.NAME_BYTES_MAX]
            offset += 1
        elif name == "flush":
            book.flush()
            written = dict(noted)
        else:
            book = PublisherBook({0: folder})  # what was not flushed is lost
            noted = dict(written)
    reader = Publishers(folder)
    for of in (reader.of, reader.noted()):
        assert {each: of(each) for each in range(offset)} == {
            each: written.get(each) for each in range(offset)
        }
    files = sorted(folder.glob("*.who"))
    if files:
        content = files[-1].read_bytes()
        files[-1].write_bytes(content[: max(len(content) - cut, 0)] + bytes(cut % 50))
        after = Publishers(folder)
        assert all(after.of(each) in (None, written.get(each)) for each in range(offset))


def test_who_asks_of_all_records_holds_the_notes_of_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads each file a few times: of two publishers that take turns each record is noted."""
    monkeypatch.setattr(publishers, "FILE_BYTES", 400)
    monkeypatch.setattr(publishers, "NOTED_RECORDS_MAX", 50)
    book = PublisherBook({0: tmp_path})
    by = ["key:a" if offset % 2 else "key:b" for offset in range(1_000)]
    for offset, each in enumerate(by):
        book.note(0, offset, [each])
        book.flush()
    files = len(list(tmp_path.iterdir()))
    assert files > 40
    read: list[int] = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(1), whole(path))[1])
    of = Publishers(tmp_path).noted()
    assert of(500) == by[500]
    assert len(read) <= 6
    assert [of(offset) for offset in range(1_000)] == by
    assert len(read) < 4 * files


def test_a_commit_has_events_of_several_publishers(tmp_path: Path) -> None:
    """And of nobody, in between."""
    book = PublisherBook({0: tmp_path})
    book.note(0, 0, ["key:a", "key:a", "key:b"])
    book.note(0, 3, ["key:b", "key:b"])
    book.note(0, 5, ["", "key:a", ""])
    book.flush()
    reader = Publishers(tmp_path)
    names = ["key:a", "key:a", "key:b", "key:b", "key:b", None, "key:a", None]
    assert [reader.of(offset) for offset in range(8)] == names


def test_files_go_with_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose records are all deleted is deleted; the newest stays."""
    monkeypatch.setattr(publishers, "FILE_BYTES", 1)
    book = PublisherBook({0: tmp_path})
    for offset in range(4):
        book.note(0, offset, [f"key:{offset}"])
        book.flush()
    forget_below(tmp_path, 2)
    reader = Publishers(tmp_path)
    assert [reader.of(offset) for offset in range(4)] == [None, None, "key:2", "key:3"]
    forget_below(tmp_path, 9)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_takes_nothing_is_told_once_and_bounds_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes wait for a while; whoever publishes does not notice."""
    monkeypatch.setattr(publishers, "HELD_BYTES_MAX", 100)
    folder = tmp_path / "notes"
    folder.write_text("a file where a folder should be")
    told: list[str] = []
    book = PublisherBook({0: folder}, told.append)
    book.note(0, 0, ["key:a"])
    book.flush()
    book.flush()
    assert len(told) == 1
    for offset in range(1, 50):
        book.note(0, offset, [f"key:{offset}"])
    book.flush()
    folder.unlink()
    book.note(0, 50, ["key:b"])
    book.flush()
    reader = Publishers(folder)
    assert (reader.of(0), reader.of(49), reader.of(50)) == (None, None, "key:b")


def test_the_file_after_one_that_failed_has_all_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishers that an earlier file named are known after a moment without a disk."""
    book = PublisherBook({0: tmp_path})
    book.note(0, 0, ["key:a"])
    book.note(0, 1, ["key:b"])
    book.flush()
    with monkeypatch.context() as full:
        full.setattr(publishers.os, "open", _refuses)
        for offset in range(2, 5):
            book.note(0, offset, ["key:a"])
            book.flush()
    book.note(0, 5, ["key:c"])
    book.note(0, 6, ["key:b"])
    book.flush()
    found = [Publishers(tmp_path).of(offset) for offset in range(7)]
    assert found == ["key:a", "key:b", "key:a", "key:a", "key:a", "key:c", "key:b"]
    assert len(list(tmp_path.iterdir())) == 2


def test_more_names_than_a_file_has_room_for_are_noted_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that come before the flush have no known publisher: to note them never fails."""
    monkeypatch.setattr(publishers, "NAMES_MAX", 3)
    book = PublisherBook({0: tmp_path})
    for offset in range(6):
        book.note(0, offset, [f"key:{offset % 5}"])
    book.flush()
    for offset in range(6, 8):
        book.note(0, offset, [f"key:{offset}"])
    book.flush()
    found = [Publishers(tmp_path).of(offset) for offset in range(8)]
    assert found == ["key:0", "key:1", "key:2", None, None, "key:0", "key:6", "key:7"]
    assert len(list(tmp_path.iterdir())) == 2


def _refuses(*_args: object) -> int:
    raise OSError(28, "No space left on device")
