"""Names of receivers, and which of them appends to which partition.

Partition p belongs to receiver p modulo their number: each has one appending process, and every
process knows which.
"""

ROLE = "ingest"


def role_of(receiver: int) -> str:
    """Returns the name of a receiver's process: ``ingest`` for the first, then ``ingest-1``."""
    return f"{ROLE}-{receiver}" if receiver else ROLE


def receiver_of(partition: int, receivers: int) -> int:
    """Returns the number of the receiver that appends to *partition*."""
    return partition % receivers


def partitions_of(receiver: int, receivers: int, partitions: int) -> range:
    """Returns the partitions that *receiver* appends to; the first has its own number."""
    return range(receiver, partitions, receivers)
