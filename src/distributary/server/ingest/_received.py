"""Encodes validated events as a log record, and finds the partition of a key.

Callers: ``_protocol``; the ingest process, for partitions. Hides the kinds of records. A batch is
one record, and so in one partition, whatever keys its events have.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from distributary.access import ANYBODY, Identity
from distributary.core.errors import EventError, Fault
from distributary.core.event import Event, canonical
from distributary.core.event import record as event_record
from distributary.core.flow import (
    TTL_DEFAULT,
    AddressedEvents,
    Received,
    RecordKind,
    encode_addressed,
    encode_carried,
)

# Constants: in Python 3.11 a member read from its enumeration costs as much as several calls.
_EVENTS: Final = RecordKind.EVENTS
_ADDRESSED: Final = RecordKind.ADDRESSED
_CARRIED: Final = RecordKind.CARRIED


def received(
    events: Sequence[Event],
    address: str,
    ttls: Sequence[int] | None,
    carried: bytes = b"",
    record: bytes | None = None,
    *,
    sender: object = ANYBODY,
) -> Received:
    """Encodes the events of one request.

    Most are for the default broker with the default hop limit; their record stores neither.

    Args:
        events: At least one.
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: Remaining hops of each event, from 1; None: all have ``TTL_DEFAULT``.
        carried: Header lines of the request to store with the events.
        record: ``event.record`` of *events* as they came, if it is made already. With *ttls* it
            still holds the attribute that was taken, and is not used.
        sender: Whose request it is.
    """
    body = event_record.encode(events) if record is None or ttls is not None else record
    key, count = partition_key(events), len(events)
    by = sender.name if isinstance(sender, Identity) and sender is not ANYBODY else ""
    if not address and ttls is None and not carried:
        return Received(body, count, key, by=by)
    left = (TTL_DEFAULT,) * count if ttls is None else tuple(ttls)
    if carried:
        whole = encode_carried(address, left, body, carried)
        return Received(whole, count, key, RecordKind.CARRIED, by)
    return Received(encode_addressed(address, left, body), count, key, RecordKind.ADDRESSED, by)


def of_default_ttl(
    record: bytes, address: str, key: str | None, carried: bytes, by: str
) -> Received:
    """Returns one event that has all its hops left.

    Args:
        record: ``event.record`` of the event.
        address: As for ``received``.
        key: Its ``partitionkey``; None: it has none.
        carried: As for ``received``.
        by: Who sent it; empty: nobody was asked.
    """
    if carried:
        whole = encode_carried(address, (TTL_DEFAULT,), record, carried)
        return Received(whole, 1, key, _CARRIED, by)
    if not address:
        return Received(record, 1, key, _EVENTS, by)
    body = encode_addressed(address, (TTL_DEFAULT,), record)
    return Received(body, 1, key, _ADDRESSED, by)


def check_count(events: Sequence[Event], count_max: int) -> None:
    """Check that one request has no more than *count_max* events.

    Raises:
        EventError: It has more.
    """
    if len(events) > count_max:
        text = f"{len(events)} events; at most {count_max} in one batch"
        raise EventError([Fault("$", "too-many", text)])


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


def received_once(
    found: AddressedEvents, index: int, by: str, key: str, whole: Received | None
) -> Received:
    """One event of a request, as a record of its own.

    Args:
        found: The events of the request.
        index: Which of them.
        by: Who sent it; empty: nobody was asked.
        key: Decides its partition.
        whole: The request, if it is its only event.
    """
    if whole is not None:
        return msgspec.structs.replace(whole, partition_key=key)
    ttl = found.ttls[index]
    ttls = None if ttl == TTL_DEFAULT else (ttl,)
    one = received((found.events[index],), found.address, ttls, found.carried)
    return msgspec.structs.replace(one, partition_key=key, by=by)
