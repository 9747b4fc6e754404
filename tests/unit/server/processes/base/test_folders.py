"""Whose the folders of a server are."""

import os
import stat

import pytest

from distributary.server.processes import serve
from distributary.server.processes.base.ground import make_folder, make_private
from distributary.server.settings import Settings


@pytest.fixture
def umask():
    """The mask of this process, as it was before the test."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path) -> int:
    """The permissions of *path*."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_all_that_a_server_makes_is_its_users_alone(tmp_path):
    """Also what others make on its behalf: Spark, SQLite, its children."""
    readable = tmp_path / "keys"
    readable.touch(0o644)
    chosen = Settings(data_dir=tmp_path / "new" / "data", credential_key_file=readable)
    assert serve(chosen) == 1  # others may read the keys; but it had begun to make things
    made = [path for path in (tmp_path / "new").rglob("*") if not path.is_symlink()]
    assert len(made) > 5
    assert {mode(path) & 0o077 for path in (tmp_path / "new", *made)} == {0}


@pytest.mark.usefixtures("umask")
def test_a_data_directory_that_is_there_keeps_its_mode(tmp_path):
    """An operator may have let a group in."""
    tmp_path.chmod(0o750)
    make_folder(tmp_path)
    assert mode(tmp_path) == 0o750


@pytest.mark.usefixtures("umask")
def test_the_folder_of_sockets_is_closed_to_others(tmp_path):
    """Whoever reaches one of them commands the server."""
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)
    make_private(folder)
    assert mode(folder) == 0o700
    make_private(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o700
