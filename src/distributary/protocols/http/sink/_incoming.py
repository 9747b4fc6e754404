"""An event in an answer, as it comes in: the fields that tell of it, then the body, within bounds.

Called by ``_connection``, where a destination wants replies. Hides what makes an answer an event,
and the two limits: of one reply, and of all that are half received.
"""

from collections.abc import Sequence
from typing import Final

from distributary.core.errors import EventError
from distributary.core.event import Event, carried
from distributary.protocols.http import binding as http

REPLY_BYTES_MAX: Final = 1024 * 1024
"""Body of one reply: as the receiver allows an event by default. A longer one is no reply."""

REPLIES_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bodies of replies half received, over all connections of a transport: 64 of the largest, and as
much as the dispatcher holds of tasks. Replies of one sink may hold as much as is still free, so
that one that sends them slowly leaves room for the others'. Attempts whose reply finds no room are
made again."""

FAULT_CHARS_MAX: Final = 500
"""A fault quotes the sink; a log line stays a line."""

_FORMAT: Final = b"application/cloudevents"


def says_event(fields: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the header of an answer says that it is an event, rightly or not."""
    return any(
        name == b"ce-specversion" or (name == b"content-type" and value.lower().startswith(_FORMAT))
        for name, value in fields
    )


class Room:
    """What the connections of a transport may still hold of replies.

    Attributes:
        free: Bytes.
    """

    __slots__ = ("free",)

    def __init__(self, free: int = REPLIES_BYTES_MAX) -> None:
        self.free = free


class Share:
    """What the connections to one sink hold of the room.

    Args:
        room: Shared with the other sinks.
    """

    __slots__ = ("_held", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0

    def take(self, size: int) -> bool:
        """Take *size* bytes; False where others would be left with less than this sink has."""
        if self._held + size > self._room.free:
            return False
        self._held += size
        self._room.free -= size
        return True

    def give_back(self, size: int) -> None:
        """*size* bytes are free again."""
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

    __slots__ = ("_along", "_body", "_fields", "_share", "crowded", "too_long")

    def __init__(self, share: Share, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self._share = share
        self._fields = [
            field for field in fields if field[0] == b"content-type" or field[0].startswith(b"ce-")
        ]
        self._along = carried.pick(fields)
        self._body = bytearray()  # not a list of pieces: one of two bytes costs fifty
        self.too_long = False
        self.crowded = False

    @property
    def along(self) -> bytes:
        """Header lines that go along with the event; none where they are more than is carried."""
        return carried.lines(self._along) or b""

    def take(self, piece: bytes) -> None:
        """A piece of the body."""
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
        """Give the room back; there is nothing to decode any more."""
        self._share.give_back(len(self._body))
        self._body = bytearray()

    def decode(self) -> tuple[Event | None, str | None]:
        """The event, or why there is none, for people."""
        if self.too_long:
            return None, f"the reply is longer than {REPLY_BYTES_MAX} bytes"
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
