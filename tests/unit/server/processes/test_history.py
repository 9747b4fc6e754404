"""Where history lies: in the data directory, at another path, at a URL, or nowhere."""

from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.processes._history import history_settings, written_into
from distributary.server.settings import Settings

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
    history = history_settings(Settings(history=chosen), PATHS)
    assert history.place == place
    assert written_into(history, PATHS) == into


def test_a_relative_path_is_below_the_working_folder() -> None:
    """As any other path of the settings."""
    assert history_settings(Settings(history="mine"), PATHS).place == str(Path.cwd() / "mine")


@pytest.mark.parametrize("folder", ["", "outbox", "log", "history/deeper"])
def test_no_other_folder_of_the_data_directory_holds_history(tmp_path: Path, folder: str) -> None:
    """The outbox would be brought into itself; the log's folder is the log's. Links count."""
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    settings = Settings(history=str(tmp_path / "link" / folder))
    with pytest.raises(SettingsError, match="lies in the data directory"):
        history_settings(settings, DataDir(tmp_path / "data"))


def test_its_own_folder_by_another_name_is_its_own_folder(tmp_path: Path) -> None:
    """Owners write into it, and nothing is moved."""
    (tmp_path / "data" / "history").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data" / "history")
    paths = DataDir(tmp_path / "data")
    history = history_settings(Settings(history=str(tmp_path / "link")), paths)
    assert written_into(history, paths) == str(paths.history)


def test_limits_go_along() -> None:
    """The driver deletes by them."""
    settings = Settings(history_age_max_s=7200.0, history_bytes_max=5)
    history = history_settings(settings, PATHS)
    assert (history.age_max_s, history.bytes_max) == (7200.0, 5)


def test_only_a_path_has_a_folder_of_this_machine() -> None:
    """A URL is the business of Spark's file systems."""
    local = history_settings(Settings(history="/mnt/history"), PATHS).local
    assert local == Path("/mnt/history")
    assert history_settings(Settings(history="hdfs://name/history"), PATHS).local is None
    assert history_settings(Settings(history="off"), PATHS).local is None
