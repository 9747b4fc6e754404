"""Names of history files."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.history.names import HistoryFile, parse, superseded

FILE = HistoryFile("2026-11-23", 1, 12, 40)


def test_a_name_is_a_path_that_spark_takes_the_day_from():
    """The day is a partition of the dataset."""
    assert FILE.path == ("date=2026-11-23/p0001-00000000000000000012-00000000000000000040.parquet")


@given(
    st.dates().map(str),
    st.integers(0, 10**9),
    st.integers(0, 10**15),
    st.integers(1, 10**6),
)
def test_a_path_reads_as_the_name_it_was_made_of(date, partition, first, count):
    """What is written is read."""
    file = HistoryFile(date, partition, first, first + count)
    assert parse(file.path) == file


def test_other_files_are_no_history():
    """Files under way and files of others are passed over."""
    for path in ("", FILE.path + ".tmp", "." + FILE.path, FILE.path.replace("12-", "50-"), "x/y"):
        assert parse(path) is None


def test_a_merged_file_supersedes_the_files_within_its_range():
    """By its range alone."""
    small = [HistoryFile("2026-11-23", 1, first, first + 10) for first in (0, 10, 20)]
    merged = HistoryFile("2026-11-23", 1, 0, 20)
    other = HistoryFile("2026-11-23", 2, 0, 10)
    assert superseded([*small, merged, other]) == small[:2]
    assert superseded([*small, other]) == []
