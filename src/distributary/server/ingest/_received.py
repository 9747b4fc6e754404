"""Encodes validated events as a log record, and finds the partition of a key.

Callers: ``_protocol``; the ingest process, for partitions. Hides the kinds of records. A batch is
one record, and so in one partition, whatever keys its events have.
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
    events: Sequence[Event],
    address: str,
    ttls: Sequence[int] | None,
    carried: bytes = b"",
    record: bytes | None = None,
) -> Received:
    """Encodes the events of one request.

    Most are for the default broker with the default hop limit; their record stores neither.

    Args:
        events: At least one.
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: Remaining hops of each event, from 1; None: all have ``TTL_DEFAULT``.
        carried: Header lines of the request to store with the events.
        record: ``event.record`` of *events*, if it is made already.
    """
    body = event_record.encode(events) if record is None else record
    key = partition_key(events)
    if not address and ttls is None and not carried:
        return Received(body, len(events), key)
    left = (TTL_DEFAULT,) * len(events) if ttls is None else tuple(ttls)
    if carried:
        whole = encode_carried(address, left, body, carried)
        return Received(whole, len(events), key, RecordKind.CARRIED)
    return Received(encode_addressed(address, left, body), len(events), key, RecordKind.ADDRESSED)


def of_default_ttl(record: bytes, address: str, key: str | None, carried: bytes) -> Received:
    """Returns one event that has all its hops left.

    Args:
        record: ``event.record`` of the event.
        address: As for ``received``.
        key: Its ``partitionkey``; None: it has none.
        carried: As for ``received``.
    """
    if carried:
        whole = encode_carried(address, (TTL_DEFAULT,), record, carried)
        return Received(whole, 1, key, RecordKind.CARRIED)
    if not address:
        return Received(record, 1, key)
    body = encode_addressed(address, (TTL_DEFAULT,), record)
    return Received(body, 1, key, RecordKind.ADDRESSED)


def partition_key(events: Sequence[Event]) -> str | None:
    """Returns the ``partitionkey`` of the first event; None: it has none.

    The first event decides for a batch, which is one log record (DESIGN section 2, batches). A
    sender that needs order by key sends events of one key in a batch.

    Source:
        CloudEvents partitioning extension: ``partitionkey`` is a non-empty string; another
        type counts by its canonical string form.
    """
    key = events[0].attributes.get("partitionkey")
    if key is None:
        return None
    return key if type(key) is str else canonical(key)


def partition_of(key: str, count: int) -> int:
    """Returns the partition of *key*: the same for the same *count* of partitions, from 1."""
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % count
