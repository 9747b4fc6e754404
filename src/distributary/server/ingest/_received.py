"""Checked events as the log is to keep them.

Caller: ``_protocol``. Hides which kind of record they make.
"""

from collections.abc import Sequence

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import (
    TTL_DEFAULT,
    Received,
    RecordKind,
    encode_addressed,
    encode_carried,
)
from distributary.server.ingest._partition import partition_key


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
