"""Checked events as the log is to keep them, and in which partition.

Callers: ``_protocol``; ``app`` chooses partitions where it wires the log's committers. Hides which
kind of record they make. A batch is one record, so it lies in one partition whatever keys its
events carry.
"""

import zlib
from collections.abc import Sequence

from distributary.core.event import Event, canonical
from distributary.core.event import record as event_record
from distributary.core.flow import (
    TTL_DEFAULT,
    Received,
    RecordKind,
    encode_addressed,
    encode_carried,
)


def received(
    events: Sequence[Event], address: str, ttls: Sequence[int] | None, carried: bytes = b""
) -> Received:
    """The events of one request, encoded.

    Most go to the default broker with all their passes; a record of those says nothing of either.

    Args:
        events: At least one.
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: For each event the passes left, from 1; None: all have ``TTL_DEFAULT``.
        carried: Header lines of the request that go along with the events.
    """
    body = event_record.encode(events)
    key = partition_key(events)
    if not address and ttls is None and not carried:
        return Received(body, len(events), key)
    left = (TTL_DEFAULT,) * len(events) if ttls is None else tuple(ttls)
    if carried:
        whole = encode_carried(address, left, body, carried)
        return Received(whole, len(events), key, RecordKind.CARRIED)
    return Received(encode_addressed(address, left, body), len(events), key, RecordKind.ADDRESSED)


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
