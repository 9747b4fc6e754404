"""Snapshot of a partition's route table at an offset, for retention."""

import os
from pathlib import Path
from typing import Final

from distributary.core.database import sqlite_url
from distributary.core.log import Reader
from distributary.core.route import BlindMatcher
from distributary.datadir import DataDir
from distributary.partitions import DirectoryTargets
from distributary.partitions.ports import Records
from distributary.partitions.routes import RouteHistory, follow_from

NO_CACHE: Final = Path(os.devnull)
"""Where no owner on this machine has saved a table."""


def routes_at(
    records: Records, history: RouteHistory, cut: int, cache: Path = NO_CACHE
) -> tuple[int, bytes]:
    """Returns the number of the last change below *cut*, and the routes in force there, as bytes.

    Args:
        records: Reader of the partition.
        history: Restores changes that the log lost.
        cut: Offset of the first record that is to be kept.
        cache: Table that the owner has saved, which saves reading the log.

    Raises:
        DistributaryError: The log or the resource store cannot be read.
    """
    table = follow_from(cache, records, history, cut, BlindMatcher).table
    return table.last_seq, table.snapshot()


def snapshot_at(paths: DataDir, partition: int, cut: int) -> bytes:
    """Returns the routes in force before the record at *cut*, as bytes.

    Raises:
        DistributaryError: The log or the resource store cannot be read.
    """
    targets = DirectoryTargets(sqlite_url(paths.state_db))
    records = Reader(paths.log, partition)
    try:
        return routes_at(records, targets, cut, paths.routes(partition))[1]
    finally:
        records.close()
        targets.close()
