"""Where history lies: in the data directory, at another path, at a URL, or nowhere."""

from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.processes.pipeline.history import marked_by, place_of, written_into
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
    assert place_of(chosen, PATHS) == place
    assert written_into(place, PATHS, shared=False) == into


def test_owners_of_nodes_write_into_the_folder_that_all_machines_share() -> None:
    """The outbox of a node is on one machine; a URL is reached by the driver alone."""
    assert written_into("/mnt/history", PATHS, shared=True) == "/mnt/history"
    assert written_into("s3a://bucket/history", PATHS, shared=True) == "/srv/data/outbox"
    assert written_into("", PATHS, shared=True) == ""


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        ("/mnt/history", "shop"),
        ("s3a://bucket/history", "shop at node-1"),
        ("/srv/data/history", "shop at node-1"),
        ("", ""),
    ],
)
def test_a_folder_of_one_node_is_marked_by_its_name_too(place: str, mark: str) -> None:
    """Machines have folders of one name: what owners elsewhere wrote there, nobody would find."""
    nodes = Settings(log="kafka://k:9092/shop", node_name="node-1")
    assert marked_by(place, PATHS, nodes) == mark
    assert marked_by(place, PATHS, Settings()) == ""


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
    assert written_into(place, paths, shared=False) == str(paths.history)
    assert written_into(place, paths, shared=True) == str(paths.history)
