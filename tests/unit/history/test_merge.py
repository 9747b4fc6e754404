"""The program that merges files: rows, order, columns, damage."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distributary.history import merge as program
from distributary.history.merge import merge

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("event_id", pa.string()),
        ("attempt", pa.int32()),
        ("duration", pa.float64()),
    ]
)


def _table(first: int, count: int) -> pa.Table:
    chance = random.Random(first)
    return pa.table(
        {
            "number": range(first, first + count),
            "time": [chance.randrange(2**50) for _ in range(count)],
            "event_id": [chance.choice(["", "é", "id" * 50, None]) for _ in range(count)],
            "attempt": [chance.choice([None, 1, 2]) for _ in range(count)],
            "duration": [chance.choice([None, 0.1, 1e-9]) for _ in range(count)],
        },
        SCHEMA,
    )


def _write(folder: Path, table: pa.Table) -> Path:
    path = folder / f"{table['number'][0].as_py() if len(table) else 'none'}.parquet"
    pq.write_table(table, path, compression="zstd")
    return path


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(counts=st.lists(st.integers(1, 400), min_size=1, max_size=6), rows=st.integers(1, 200))
def test_the_merged_file_holds_the_same_rows_in_the_same_order(tmp_path, monkeypatch, counts, rows):
    """Whatever the sizes of files, batches and row groups, every value is the same."""
    monkeypatch.setattr(program, "BATCH_ROWS", rows)
    monkeypatch.setattr(program, "ROWS_PER_GROUP", rows * 3)
    tables, first = [], 0
    for count in counts:
        tables.append(_table(first, count))
        first += count
    inputs = [_write(tmp_path, table) for table in tables]
    output = tmp_path / "merged"
    assert merge(inputs, output) == []
    with pq.ParquetFile(output) as merged:
        assert merged.read().equals(pa.concat_tables(tables))
        assert merged.num_row_groups <= -(-sum(counts) // (2 * rows)) + 1


def test_a_column_that_came_later_is_null_in_older_rows(tmp_path):
    """Files of two versions of the server are merged."""
    old = _table(0, 2).drop_columns(["duration"])
    inputs = [_write(tmp_path, old), _write(tmp_path, _table(2, 2))]
    assert merge(inputs, tmp_path / "merged") == []
    table = pq.read_table(tmp_path / "merged")
    assert table["number"].to_pylist() == [0, 1, 2, 3]
    assert table["duration"].to_pylist()[:2] == [None, None]
    assert table.slice(2).select(SCHEMA.names).equals(_table(2, 2))


@pytest.mark.parametrize("harm", ["truncated", "empty", "absent", "damaged inside"])
def test_a_damaged_input_is_named(tmp_path, harm):
    """The caller leaves it alone; the rest can be merged without it."""
    inputs = [_write(tmp_path, _table(first, 300)) for first in (0, 300, 600)]
    content = inputs[1].read_bytes()
    if harm == "absent":
        inputs[1].unlink()
    elif harm == "damaged inside":
        inputs[1].write_bytes(content[:4] + bytes(400) + content[404:])
    else:
        inputs[1].write_bytes(content[: len(content) // 2 if harm == "truncated" else 0])
    assert merge(inputs, tmp_path / "merged") == [inputs[1]]


def test_an_output_that_cannot_be_written_is_an_error(tmp_path):
    """No input is blamed for a missing folder or a full disk."""
    with pytest.raises(OSError, match="absent"):
        merge([_write(tmp_path, _table(0, 2))], tmp_path / "absent" / "merged")


def test_row_groups_of_long_strings_are_bounded(tmp_path, monkeypatch):
    """Memory is: a group ends at its size, however few rows it has."""
    monkeypatch.setattr(program, "GROUP_BYTES_MAX", 20_000)
    monkeypatch.setattr(program, "BATCH_ROWS", 10)
    table = pa.table({"number": range(100), "event_id": ["x" * 1024] * 100})
    assert merge([_write(tmp_path, table)], tmp_path / "merged") == []
    with pq.ParquetFile(tmp_path / "merged") as merged:
        assert merged.num_row_groups == 5
