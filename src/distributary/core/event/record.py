"""The body of a log record of kind ``EVENTS``: one event, or one batch, in MessagePack.

Called by ``server.ingest`` (writing) and by readers of the log. Hides the layout: a format byte,
then ``[[{name: value, ...}, data or nil], ...]``. The format byte changes with the layout; readers
support all older ones.
"""

from collections.abc import Sequence

import msgspec

from distributary.core.errors import EventError, Fault
from distributary.core.event.value import Event

FORMAT = 0x01
"""Format byte that ``encode`` writes. No MessagePack array begins with it, so a body without a
format byte is recognised."""

_FORMAT_BYTE = bytes([FORMAT])

_decoder = msgspec.msgpack.Decoder(list[Event])
_encoder = msgspec.msgpack.Encoder()


def encode(events: Sequence[Event]) -> bytes:
    """Encode *events* as one record body, in order.

    Raises:
        EventError: An event was built by hand and is not valid.
    """
    try:
        return _FORMAT_BYTE + _encoder.encode(events)
    except (UnicodeEncodeError, OverflowError, TypeError) as error:
        raise EventError([Fault("$", "record", str(error))]) from error


def decode(body: bytes) -> list[Event]:
    """Decode a record body into its events.

    Checks the layout, not the rules of CloudEvents: those were checked before the append, and a
    stricter rule must not make old records unreadable.

    Raises:
        EventError: *body* is not such a record, or of a newer format.
    """
    if body[:1] != _FORMAT_BYTE:
        raise EventError([Fault("$", "record", f"not a record of format {FORMAT}")])
    try:
        return _decoder.decode(memoryview(body)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventError([Fault("$", "record", str(error))]) from error
