"""The route table of a partition at an offset, as bytes. Called by ``_retention``."""

from distributary.core.log import Reader
from distributary.core.route import BlindMatcher
from distributary.datadir import DataDir
from distributary.partitions import DirectoryTargets
from distributary.partitions.routes import follow_from


def snapshot_at(paths: DataDir, partition: int, cut: int) -> bytes:
    """The routes that stand before the record at *cut*.

    Raises:
        DistributaryError: The log, or the store that knows the sinks, cannot be read.
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
