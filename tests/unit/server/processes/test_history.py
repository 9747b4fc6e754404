"""Where history lies: in the data directory, at another path, at a URL, or nowhere."""

from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.processes.pipeline.history import place_of, written_into

PATHS = DataDir(Path("/srv/data"))


@pytest.mark.parametrize(
    ("chosen", "place", "into"),
    [
        ("", "/srv/data/history", "/srv/data/history"),
        ("/srv/data/history", "/srv/data/history", "/srv/data/history"),
        ("/mnt/history", "/mnt/history", "/srv/data/outbox"),
        ("file:///mnt/history", "/mnt/history", "/srv/data/outbox"),
        ("file:/mnt/history", "/mnt/history", "/srv/data/outbox"),
        ("s3a://bucket/history", "s3a://bucket/history", "/srv/data/outbox"),
        ("off", "", ""),
    ],
)
def test_owners_write_where_history_lies_or_into_the_outbox(
    chosen: str, place: str, into: str
) -> None:
    """Files for another place wait in the outbox; off writes none."""
    assert place_of(chosen, PATHS) == place
    assert written_into(place, PATHS) == into


def test_a_relative_path_is_below_the_working_folder() -> None:
    """As any other path of the settings."""
    assert place_of("mine", PATHS) == str(Path.cwd() / "mine")


@pytest.mark.parametrize("folder", ["", "outbox", "log", "history/deeper"])
def test_no_other_folder_of_the_data_directory_holds_history(tmp_path: Path, folder: str) -> None:
    """The outbox would be brought into itself; the log's folder is the log's. Links count."""
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with pytest.raises(SettingsError, match="lies in the data directory"):
        place_of(str(tmp_path / "link" / folder), DataDir(tmp_path / "data"))


def test_its_own_folder_by_another_name_is_its_own_folder(tmp_path: Path) -> None:
    """Owners write into it, and nothing is moved."""
    (tmp_path / "data" / "history").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data" / "history")
    paths = DataDir(tmp_path / "data")
    place = place_of(str(tmp_path / "link"), paths)
    assert written_into(place, paths) == str(paths.history)
