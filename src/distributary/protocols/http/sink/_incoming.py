"""Receives a reply (an event in a response) within memory bounds.

Called by ``_connection`` if a destination wants replies. Hides how a response is recognized as an
event, and the limits on one reply and on all replies being received.
"""

from collections.abc import Sequence
from typing import Final

from distributary.core.errors import EventError
from distributary.core.event import Event, carried
from distributary.protocols.http import binding as http

REPLY_BYTES_MAX: Final = 1024 * 1024
"""Longest body of a reply: the receiver's default for an event. A longer one is no reply."""

REPLIES_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of partly received replies on all connections of a transport: 64 of the largest, and as
many as the dispatcher holds of tasks. The replies of one sink may hold as much as is still free, so
a slow sender leaves room for others. An attempt whose reply finds no room is retried."""

FAULT_CHARS_MAX: Final = 500
"""Longest fault of a reply, which quotes the sink: it must fit into a log line."""

_FORMAT: Final = b"application/cloudevents"


def says_event(fields: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the header fields of a response declare an event, valid or not."""
    return any(
        name == b"ce-specversion" or (name == b"content-type" and value.lower().startswith(_FORMAT))
        for name, value in fields
    )


class Room:
    """The memory budget of a transport for incoming replies.

    Attributes:
        free: Bytes left.
    """

    __slots__ = ("free",)

    def __init__(self, free: int = REPLIES_BYTES_MAX) -> None:
        self.free = free


class Share:
    """The part of ``Room`` that the connections to one sink hold.

    Args:
        room: Shared with the other sinks.
    """

    __slots__ = ("_held", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0

    def take(self, size: int) -> bool:
        """Reserve *size* bytes; False if others would have less left than this sink holds."""
        if self._held + size > self._room.free:
            return False
        self._held += size
        self._room.free -= size
        return True

    def give_back(self, size: int) -> None:
        """Release *size* bytes."""
        self._held -= size
        self._room.free += size


class IncomingReply:
    """One answer that may hold an event.

    Args:
        share: Of all connections to its sink.
        fields: Header fields of the answer, names in lower case.

    Attributes:
        too_long: The body is longer than ``REPLY_BYTES_MAX``; nothing of it is kept.
        crowded: There was no room for it; nothing of it is kept.
    """

    __slots__ = ("_along", "_body", "_coded", "_fields", "_share", "crowded", "too_long")

    def __init__(self, share: Share, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self._share = share
        self._fields = [
            field for field in fields if field[0] == b"content-type" or field[0].startswith(b"ce-")
        ]
        self._along = carried.pick(fields)
        self._coded = any(
            name == b"content-encoding" and value.lower() != b"identity" for name, value in fields
        )
        self._body = bytearray()  # not a list of pieces: one of two bytes costs fifty
        self.too_long = False
        self.crowded = False

    @property
    def along(self) -> bytes:
        """Header lines to forward with the event; none if they exceed the limit."""
        return carried.lines(self._along) or b""

    def take(self, piece: bytes) -> None:
        """Append a piece of the body, within the limits."""
        if self.too_long or self.crowded:
            return
        size = len(piece)
        if len(self._body) + size > REPLY_BYTES_MAX:
            self.too_long = True
        elif self._share.take(size):
            self._body += piece
            return
        else:
            self.crowded = True
        self.let_go()

    def let_go(self) -> None:
        """Drop the body and release its bytes."""
        self._share.give_back(len(self._body))
        self._body = bytearray()

    def decode(self) -> tuple[Event | None, str | None]:
        """The event; or None and the fault, for people."""
        if self.too_long:
            return None, f"the reply is longer than {REPLY_BYTES_MAX} bytes"
        if self._coded:
            return None, "the reply is compressed (Content-Encoding), which no request allows"
        try:
            events = http.decode(self._fields, bytes(self._body))
        except EventError as error:
            return None, str(error)[:FAULT_CHARS_MAX]
        if len(events) != 1 or self._batched:
            return None, "a batch is not a reply"
        return events[0], None

    @property
    def _batched(self) -> bool:
        return any(
            value.lower().startswith(_FORMAT + b"-batch")
            for name, value in self._fields
            if name == b"content-type"
        )
