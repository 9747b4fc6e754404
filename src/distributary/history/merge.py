"""The program that merges history files: ``python -m distributary.history.merge``.

A process of its own, with the lowest priority, which ends after its work: pyarrow and its buffers
are nowhere else. It reads jobs from its standard input, as JSON, and answers each with a line.
Callers use ``merging``.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROWS_PER_GROUP: Final = 1 << 15
"""Rows of a row group, the unit that readers pass over by its statistics. Who looks for one event
reads a whole one, in 2 ms; four times as many took 7, for files that are 4 % smaller."""
GROUP_BYTES_MAX: Final = 32 << 20
"""Size of a row group in memory: bounds the memory of the process, however long the strings are."""
BATCH_ROWS: Final = 1 << 14
"""Rows decoded at once: half a row group, so a group is full after two."""


class _Damaged(Exception):  # noqa: N818 - of this module alone
    """An input is no Parquet file, or is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path


def merge(
    inputs: Sequence[Path], output: Path, alive: Callable[[], bool] = lambda: True
) -> list[Path]:
    """Write the rows of *inputs* to *output*, in order.

    Args:
        inputs: Parquet files. Columns that only some of them have are null in the others' rows.
        output: Is replaced.
        alive: Asked now and then; False ends the process.

    Returns:
        Those of *inputs* that were found to be no Parquet files, or damaged; *output* is worthless
        then.

    Raises:
        OSError: *output* cannot be written.
    """
    import pyarrow as pa  # noqa: PLC0415 - for this process alone
    import pyarrow.parquet as pq  # noqa: PLC0415

    schemas, damaged = [], []
    for path in inputs:
        try:
            schemas.append(pq.read_schema(path))
        except (OSError, pa.ArrowException):
            damaged.append(path)
    if damaged:
        return damaged
    schema = pa.unify_schemas(schemas).remove_metadata()
    rows = _batches(inputs, schema, alive)
    try:
        with pq.ParquetWriter(output, schema, compression="zstd") as writer:
            while group := _next_group(rows):
                writer.write_table(pa.Table.from_batches(group), row_group_size=ROWS_PER_GROUP)
    except _Damaged as found:
        return [found.path]
    return []


def _batches(inputs: Sequence[Path], schema: Any, alive: Callable[[], bool]) -> Iterator[Any]:
    """The rows of *inputs*, with the columns of *schema*."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    for path in inputs:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
                    if not alive():
                        os._exit(1)
                    yield _with_columns(batch, schema)
        except (OSError, pa.ArrowException) as error:
            raise _Damaged(path) from error


def _next_group(batches: Iterator[Any]) -> list[Any]:
    group, rows, size = [], 0, 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows + BATCH_ROWS > ROWS_PER_GROUP or size > GROUP_BYTES_MAX:
            break
    return group


def _with_columns(batch: Any, schema: Any) -> Any:
    """*batch* with the columns of *schema*: what it lacks is null."""
    import pyarrow as pa  # noqa: PLC0415

    names = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def main() -> int:
    """Do the jobs on standard input; returns the exit code."""
    parent = os.getppid()
    os.nice(19)
    import pyarrow as pa  # noqa: PLC0415

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for job in json.load(sys.stdin):
        inputs = [Path(path) for path in job["inputs"]]
        unreadable = merge(inputs, Path(job["output"]), lambda: os.getppid() == parent)
        print(json.dumps([str(path) for path in unreadable]), flush=True)  # noqa: T201 - the answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
