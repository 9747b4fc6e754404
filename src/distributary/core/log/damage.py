"""Damage: bytes of the log that fail their checksum.

Callers: the pipeline and the metrics, by ``Reader.damages`` and ``Appender.damages``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of one partition whose records were acknowledged and cannot be read.

    They are never delivered; later records are. If ``kind`` is unknown, the stretch may have held a
    route record: restore that from the store or stop the partition (DESIGN rule 4, route records).

    Attributes:
        partition: Partition number, from 0.
        from_offset: First lost record.
        to_offset: First readable record after it, or None: none was found.
        segment: Name of the file.
        byte_from: Where the stretch begins in the file.
        byte_to: Where it ends, or None: at the end of the file.
        kind: The ``flow.Kind`` of the one lost record where its header is intact; else None.
    """

    partition: int
    from_offset: int
    to_offset: int | None
    segment: str
    byte_from: int
    byte_to: int | None
    kind: int | None = None
