"""Reads the history of a data directory, and checks that each row is there once."""

from collections import defaultdict
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from distributary.datadir import DataDir
from distributary.history.names import HistoryFile, parse, superseded

LEAP = 1_000
"""An owner begins at the time of its clock, in microseconds, which reads milliseconds: at such a
multiple. A file that is missing leaves a gap that hardly ever ends at one."""

HistoryRow: TypeAlias = dict[str, Any]
"""A row by the names of its columns."""


def history_rows(data_dir: Path) -> list[HistoryRow]:
    """Returns all rows of the history, by partition and number.

    Raises:
        AssertionError: A number of an owner is missing, or one is there twice.
    """
    folder = DataDir(data_dir).history
    names = {parse(str(path.relative_to(folder))): path for path in folder.glob("date=*/*.parquet")}
    files = {file: path for file, path in names.items() if file is not None}
    for file in superseded(files):
        del files[file]
    by_partition: dict[int, list[HistoryFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: (file.partition, file.first)):
        by_partition[file.partition].append(file)
    rows: list[HistoryRow] = []
    for partition, held in by_partition.items():
        numbers = held[0].first
        for file in held:
            leaps = file.first > numbers and file.first % LEAP == 0
            assert leaps or file.first == numbers, f"partition {partition}: {file} after {numbers}"
            found = pq.read_table(files[file], partitioning=None).to_pylist()
            assert len(found) == file.end - file.first
            rows += found
            numbers = file.end
    return rows
