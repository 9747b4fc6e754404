"""Every kind of history folder passes the shipped contract suite; Hadoop's: tests/spark."""

import os

import pytest

from distributary.history.local_folder import LocalFolder
from distributary.history.names import HistoryFile
from distributary.testing import check_history_folder
from distributary.testing.memory_history import MemoryHistory

FILE = HistoryFile("2026-11-23", 1, 0, 3)


@pytest.fixture(params=["memory", "local"])
def folder(request, tmp_path):
    """An empty folder."""
    return MemoryHistory() if request.param == "memory" else LocalFolder(tmp_path / "history")


@pytest.fixture
def scratch(tmp_path):
    """For the suite's own files."""
    made = tmp_path / "scratch"
    made.mkdir()
    return made


@pytest.mark.parametrize("check", check_history_folder.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, folder, scratch):
    """Folders keep what mover and keeper count on."""
    check(folder, scratch)


def test_check_history_folder_finds_a_folder_that_takes_the_source(scratch):
    """The suite itself fails a folder that moves files in."""

    class Greedy(MemoryHistory):
        def put(self, source, file):
            super().put(source, file)
            source.unlink()

    with pytest.raises(FileNotFoundError):
        check_history_folder.check_a_source_stays(Greedy(), scratch)


def test_a_folder_without_links_takes_copies(tmp_path, scratch, monkeypatch):
    """Another file system has no links to ours."""

    def refuse(*_paths):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    for check in check_history_folder.CHECKS:
        check(LocalFolder(tmp_path / check.__name__), scratch)


def test_files_of_others_are_neither_listed_nor_deleted(tmp_path):
    """Names under way, links, folders and foreign files stay where they are."""
    day = tmp_path / "date=2026-11-23"
    day.mkdir()
    for name in ("_SUCCESS", "x.parquet", ".p0001.tmp", "p0001-1-2.parquet"):
        (day / name).touch()
    (tmp_path / FILE.path).symlink_to(day / "x.parquet")
    (tmp_path / FILE._replace(end=9).path).mkdir()
    (tmp_path / "notes").mkdir()
    folder = LocalFolder(tmp_path)
    assert folder.files() == []
    folder.sweep()
    folder.delete_empty_days("2027-01-01")
    assert len(list(day.iterdir())) == 6
    assert (tmp_path / "notes").is_dir()


def test_what_an_interrupted_put_left_is_swept(tmp_path, scratch):
    """Only a start deletes it: nobody lists it, and the same put would replace it."""
    folder = LocalFolder(tmp_path / "history")
    (scratch / "a").write_bytes(b"a")
    folder.put(scratch / "a", FILE)
    left = folder.path(FILE).with_name(f".{folder.path(FILE).name}.put")
    left.write_bytes(b"half")
    assert [stored.file for stored in folder.files()] == [FILE]
    folder.sweep()
    assert not left.exists()
    assert folder.path(FILE).read_bytes() == b"a"


def test_an_empty_day_goes_once_it_is_over(tmp_path, scratch):
    """The folder of the present day stays: owners may be writing into it."""
    folder = LocalFolder(tmp_path / "history")
    (scratch / "a").write_bytes(b"a")
    folder.put(scratch / "a", FILE)
    folder.delete(FILE)
    folder.delete_empty_days("2026-11-23")
    assert folder.path(FILE).parent.is_dir()
    folder.delete_empty_days("2026-11-24")
    assert not folder.path(FILE).parent.exists()
