"""The body of a log record of kind ``EVENTS``: one event, or one batch.

Called by ``server.ingest`` (writing) and by readers of the log. Hides the layouts, which the format
byte tells apart; readers support all of them:

- 1: MessagePack, ``[[{name: value, ...}, data or nil], ...]``;
- 2: one event in binary form, its header lines and its data (``binary``).
"""

from collections.abc import Sequence

import msgspec

from distributary.core.errors import EventError, Fault
from distributary.core.event import binary
from distributary.core.event.binary import BinaryEvent
from distributary.core.event.value import Event

FORMAT = 0x01
"""Format byte of MessagePack. No MessagePack array begins with it, so a body without a format byte
is recognised."""

_FORMAT_BYTE = bytes([FORMAT])

_decoder = msgspec.msgpack.Decoder(list[Event])
_encoder = msgspec.msgpack.Encoder()


def encode(events: Sequence[Event]) -> bytes:
    """Encode *events* as one record body, in order.

    One event that was read from a record in binary form is that record again.

    Raises:
        EventError: An event was built by hand and is not valid.
    """
    if BinaryEvent in set(map(type, events)):
        first = events[0]
        if len(events) == 1 and isinstance(first, BinaryEvent):
            return first.record
        events = [Event(event.attributes, event.data) for event in events]
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
        event = binary.decode(body)
        if event is None:
            formats = f"{FORMAT} or {binary.FORMAT}"
            raise EventError([Fault("$", "record", f"not a record of format {formats}")])
        return [event]
    try:
        return _decoder.decode(memoryview(body)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventError([Fault("$", "record", str(error))]) from error
