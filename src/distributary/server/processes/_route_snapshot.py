"""Snapshot of a partition's route table at an offset, for retention."""

from distributary.core.log import Reader
from distributary.core.route import BlindMatcher
from distributary.datadir import DataDir
from distributary.partitions import DirectoryTargets
from distributary.partitions.routes import follow_from


def snapshot_at(paths: DataDir, partition: int, cut: int) -> bytes:
    """Returns the routes in force before the record at *cut*, as bytes.

    Raises:
        DistributaryError: The log or the resource store cannot be read.
    """
    targets = DirectoryTargets(paths.state_db)
    records = Reader(paths.log, partition)
    try:
        return follow_from(
            paths.routes(partition), records, targets, cut, BlindMatcher
        ).table.snapshot()
    finally:
        records.close()
        targets.close()
