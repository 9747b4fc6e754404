"""The route table of a partition at an offset, as bytes. Called by ``_retention``."""

from distributary.core.log import Reader
from distributary.core.route import BlindMatcher
from distributary.datadir import Places
from distributary.partitions import DirectoryTargets
from distributary.partitions.routes import follow_from


def snapshot_at(places: Places, partition: int, cut: int) -> bytes:
    """The routes that stand before the record at *cut*.

    Raises:
        DistributaryError: The log, or the store that knows the sinks, cannot be read.
    """
    targets = DirectoryTargets(places.state_db)
    records = Reader(places.log, partition)
    try:
        return follow_from(
            places.routes(partition), records, targets, cut, BlindMatcher
        ).table.snapshot()
    finally:
        records.close()
        targets.close()
