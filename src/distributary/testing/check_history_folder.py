"""Contract suite of ``history.folder.HistoryFolder``."""

from collections.abc import Callable
from pathlib import Path

from distributary.history.folder import HistoryFolder
from distributary.history.names import HistoryFile

FIRST = HistoryFile("2026-11-22", 0, 0, 10)
SECOND = HistoryFile("2026-11-23", 1, 0, 3)


def _put(folder: HistoryFolder, scratch: Path, file: HistoryFile, content: bytes) -> None:
    source = scratch / "source"
    source.unlink(missing_ok=True)  # never changed in place: a folder may link it
    source.write_bytes(content)
    folder.put(source, file)


def _content(folder: HistoryFolder, scratch: Path, file: HistoryFile) -> bytes:
    return folder.fetch(file, scratch / "copy").read_bytes()


def check_what_was_put_is_listed_and_fetched(folder: HistoryFolder, scratch: Path) -> None:
    """A file has its name, size and content; a folder without any is empty."""
    folder.sweep()
    assert folder.files() == []
    _put(folder, scratch, FIRST, b"ten bytes!")
    _put(folder, scratch, SECOND, b"three")
    listed = {stored.file: stored.bytes for stored in folder.files()}
    assert listed == {FIRST: 10, SECOND: 5}
    assert _content(folder, scratch, FIRST) == b"ten bytes!"
    assert _content(folder, scratch, SECOND) == b"three"


def check_a_source_stays(folder: HistoryFolder, scratch: Path) -> None:
    """Who puts a file deletes it: neither side's deletion touches the other."""
    _put(folder, scratch, FIRST, b"content")
    assert (scratch / "source").read_bytes() == b"content"
    (scratch / "source").unlink()
    assert _content(folder, scratch, FIRST) == b"content"


def check_putting_again_changes_nothing(folder: HistoryFolder, scratch: Path) -> None:
    """A name tells the content, so the second time has no effect."""
    _put(folder, scratch, FIRST, b"content")
    first = folder.files()
    folder.put(scratch / "source", FIRST)
    assert folder.files() == first
    assert _content(folder, scratch, FIRST) == b"content"


def check_a_missing_source_leaves_nothing(folder: HistoryFolder, scratch: Path) -> None:
    """A failed put raises OSError, and no reader sees a file."""
    failed = False
    try:
        folder.put(scratch / "absent", FIRST)
    except OSError:
        failed = True
    assert failed
    assert folder.files() == []


def check_a_missing_file_cannot_be_fetched(folder: HistoryFolder, scratch: Path) -> None:
    """OSError comes out of the fetch or of reading what it names."""
    failed = False
    try:
        _content(folder, scratch, FIRST)
    except OSError:
        failed = True
    assert failed


def check_deleted_files_are_gone(folder: HistoryFolder, scratch: Path) -> None:
    """Deleting twice is no error, and other files stay."""
    _put(folder, scratch, FIRST, b"1")
    _put(folder, scratch, SECOND, b"2")
    folder.delete(FIRST)
    folder.delete(FIRST)
    assert [stored.file for stored in folder.files()] == [SECOND]


def check_days_with_files_stay(folder: HistoryFolder, scratch: Path) -> None:
    """Deleting empty days never deletes a file, and a deleted day can be filled again."""
    _put(folder, scratch, FIRST, b"1")
    _put(folder, scratch, SECOND, b"2")
    folder.delete_empty_days("2027-01-01")
    assert len(folder.files()) == 2
    folder.delete(FIRST)
    folder.delete_empty_days("2027-01-01")
    assert [stored.file for stored in folder.files()] == [SECOND]
    _put(folder, scratch, FIRST, b"1")
    assert len(folder.files()) == 2


CHECKS: tuple[Callable[[HistoryFolder, Path], None], ...] = (
    check_what_was_put_is_listed_and_fetched,
    check_a_source_stays,
    check_putting_again_changes_nothing,
    check_a_missing_source_leaves_nothing,
    check_a_missing_file_cannot_be_fetched,
    check_deleted_files_are_gone,
    check_days_with_files_stay,
)
"""Every check; each needs a new folder, and another for its own local files."""
