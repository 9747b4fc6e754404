"""Files that are replaced as a whole."""

import os
import stat
from pathlib import Path

import pytest

from distributary.core.files import create_private, sync_folder, write_atomically


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_content_is_replaced_and_nothing_stays_beside(tmp_path: Path) -> None:
    """A file holds the newest content, alone in its folder."""
    path = tmp_path / "kept.json"
    for content in (b"first", b"second"):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_goes(tmp_path: Path) -> None:
    """Half a file beside, open to others, neither stops the next writer nor lends its mode."""
    left = tmp_path / "key.new"
    left.write_text("half")
    left.chmod(0o644)
    write_atomically(tmp_path / "key", b"whole", mode=0o600, durable=True)
    assert (tmp_path / "key").read_bytes() == b"whole"
    assert _mode(tmp_path / "key") == 0o600
    assert not left.exists()


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A medium that refuses the content costs the new content, not the old one."""

    def refuse(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "kept"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        write_atomically(path, b"new", durable=True)
    assert path.read_bytes() == b"old"


def test_processes_that_write_at_once_have_a_file_beside_each(tmp_path: Path) -> None:
    """What another process writes beside a contended file is not touched."""
    others = tmp_path / "java.1.new"
    others.write_text("half")
    write_atomically(tmp_path / "java", b"#!/bin/sh\n", mode=0o700, contended=True)
    assert others.read_text() == "half"
    assert _mode(tmp_path / "java") == 0o700


def test_a_private_file_is_made_once(tmp_path: Path) -> None:
    """A file that is there is left as it is, mode and content."""
    path = tmp_path / "state.db"
    assert create_private(path)
    assert _mode(path) == 0o600
    path.write_bytes(b"rows")
    path.chmod(0o640)
    assert not create_private(path)
    assert (path.read_bytes(), _mode(path)) == (b"rows", 0o640)


def test_a_folder_that_is_not_there_cannot_be_synced(tmp_path: Path) -> None:
    """The sync of a folder says when it could not be made."""
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "missing")
