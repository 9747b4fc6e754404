"""Which partition an append goes to. Pure; ``server`` calls it where it wires the log's committers.

A batch is one log record, so it lies in one partition whatever keys its events carry.
"""

import zlib
from collections.abc import Sequence

from distributary.core.event import Event, canonical


def partition_key(events: Sequence[Event]) -> str | None:
    """The key of one request's events: ``partitionkey`` of the first event; None: it has none.

    The first event speaks for a batch: a batch is all or nothing and one log record (DESIGN
    section 2). A sender that needs order by key sends events of one key in a batch.

    Source:
        CloudEvents partitioning extension: ``partitionkey`` is a non-empty string; another
        type counts by its canonical string form.
    """
    key = events[0].attributes.get("partitionkey")
    if key is None:
        return None
    return key if type(key) is str else canonical(key)


def choose_partition(key: str | None, queued: Sequence[int]) -> int:
    """The partition for an append.

    Args:
        key: Appends with the same key go to the same partition, as long as the number of
            partitions stays; None: the shortest queue, the lowest number among equals.
        queued: What waits in each partition (any unit), one entry a partition; not empty.

    Returns:
        A partition number, ``0 <= number < len(queued)``.
    """
    assert queued
    if key is not None:
        return zlib.crc32(key.encode("utf-8", "surrogatepass")) % len(queued)
    return queued.index(min(queued))
