"""Settings of the history, as the driver has them."""

from pathlib import Path

from distributary.history.place import HistorySettings


def test_only_a_path_has_a_folder_of_this_machine() -> None:
    """A URL is the business of Spark's file systems."""
    assert HistorySettings(place="/mnt/history").local == Path("/mnt/history")
    assert HistorySettings(place="hdfs://name/history").local is None
    assert HistorySettings().local is None
