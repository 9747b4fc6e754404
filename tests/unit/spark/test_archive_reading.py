"""Which records of a range come from the archive, and which from the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import LogDamagedError, SettingsError
from distributary.spark._ranges import OffsetRange
from distributary.spark.archive.manifest import ArchivedFile, ArchivedRange
from distributary.spark.archive.reading import ArchivedSpan, ArchiveReader, divide


def _range(first, last):
    return ArchivedRange(
        partition=0,
        from_offset=first,
        to_offset=last,
        events=last - first,
        check=0,
        from_ms=1,
        to_ms=2,
        last_checksum=0,
        name=f"{first}",
        files=(ArchivedFile(f"{first}.parquet", 1, last - first),),
    )


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=6),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_each_record_is_read_once_and_from_the_archive_where_it_is_there(steps, first, length):
    """For all archives and ranges."""
    ranges, at = [], 0
    for gap, size in steps:
        ranges.append(_range(at + gap, at + gap + size))
        at += gap + size
    archived = {offset for each in ranges for offset in range(each.from_offset, each.to_offset)}
    read, from_archive = [], set()
    for part in divide(OffsetRange(0, first, first + length), ranges):
        span = part.span if isinstance(part, ArchivedSpan) else part
        offsets = range(span.from_offset, span.to_offset)
        assert offsets
        read += offsets
        if isinstance(part, ArchivedSpan):
            from_archive.update(offsets)
    assert read == list(range(first, first + length))
    assert from_archive == archived & set(read)


def test_no_archive_is_an_error_that_names_the_place(tmp_path):
    """A path that is none, a manifest that is none, and a file system that Arrow has not."""
    with pytest.raises(SettingsError, match="there is none at"):
        ArchiveReader(str(tmp_path)).contents()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "00000001.json").write_bytes(b"{")
    with pytest.raises(LogDamagedError, match="no manifest"):
        ArchiveReader(f"file://{tmp_path}").contents()
    with pytest.raises(SettingsError, match=r"spark\.read\.parquet"):
        ArchiveReader("nosuch://place/archive").contents()
