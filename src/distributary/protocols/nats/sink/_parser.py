"""Bytes from a NATS server -> what it says, without I/O.

Called by ``_connection``. Hides the lines of the protocol, and bounds what a server can make us keep.

Source:
    docs.nats.io, "Client Protocol".
"""

from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from distributary.errors import TransportError

LINE_BYTES_MAX: Final = 64 * 1024
"""Of a line of the protocol: INFO has some 500 bytes, and more in a cluster of many servers."""

_SIZE_DIGITS_MAX: Final = 10
"""Of a size or a subscription's number: more exist only to overflow."""


class Message(NamedTuple):
    """MSG or HMSG.

    Attributes:
        sid: Number of the subscription.
        subject: Where it was sent.
        reply: Where an answer goes; empty: none is wanted.
        headers: Header block; empty: it has none.
        payload: The rest.
    """

    sid: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Info(NamedTuple):
    """INFO: what the server says of itself; nothing in it is checked."""

    values: dict[str, Any]


class Refusal(NamedTuple):
    """-ERR, in the server's words; never empty."""

    text: str


class Signal(NamedTuple):
    """PING, PONG or +OK."""

    name: bytes


PING: Final = Signal(b"PING")
PONG: Final = Signal(b"PONG")
OK: Final = Signal(b"+OK")
_SIGNALS: Final = {signal.name: signal for signal in (PING, PONG, OK)}

Said: TypeAlias = Message | Info | Refusal | Signal


class Parser:
    """Takes bytes, gives what they say in order.

    Args:
        message_bytes_max: Largest message that is taken, headers included.
    """

    __slots__ = ("_buffer", "_bytes_max", "_pos")

    def __init__(self, message_bytes_max: int) -> None:
        self._bytes_max = message_bytes_max
        self._buffer = bytearray()
        self._pos = 0

    def feed(self, data: bytes) -> None:
        """Keep *data* for ``next_said``."""
        del self._buffer[: self._pos]
        self._pos = 0
        self._buffer += data

    def clear(self) -> None:
        """Forget what was not asked for yet."""
        self._buffer.clear()
        self._pos = 0

    def next_said(self) -> Said | None:
        """What comes next; None: more bytes are needed.

        Raises:
            TransportError: ``protocol``: it is not NATS, or too much.
        """
        buffer, pos = self._buffer, self._pos
        end = buffer.find(b"\r\n", pos, pos + LINE_BYTES_MAX)
        if end < 0:
            if len(buffer) - pos >= LINE_BYTES_MAX:
                raise _fault()
            return None
        line = bytes(buffer[pos:end])
        operation, _, rest = line.partition(b" ")
        if operation in {b"MSG", b"HMSG"}:
            return self._message(rest.split(), end + 2, headed=operation == b"HMSG")
        self._pos = end + 2
        if operation == b"-ERR" and rest.strip():
            return Refusal(rest.strip().decode("utf-8", "replace"))
        if operation == b"INFO":
            return _info(rest)
        signal = _SIGNALS.get(line)
        if signal is None:
            raise _fault()
        return signal

    def _message(self, words: list[bytes], start: int, *, headed: bool) -> Message | None:
        """The message whose line has *words*, and whose header block begins at *start*."""
        sizes = words[-2 if headed else -1 :]
        where = words[: -len(sizes)]
        if len(where) not in {2, 3} or not all(map(_is_number, (where[1], *sizes))):
            raise _fault()
        size, headers_size = int(sizes[-1]), int(sizes[0]) if headed else 0
        if not headers_size <= size <= self._bytes_max:
            raise _fault()
        buffer = self._buffer
        split, end = start + headers_size, start + size
        if len(buffer) < end + 2:
            return None
        if buffer[end : end + 2] != b"\r\n":
            raise _fault()
        self._pos = end + 2
        reply = where[2] if len(where) == 3 else b""
        headers, payload = bytes(buffer[start:split]), bytes(buffer[split:end])
        return Message(int(where[1]), where[0], reply, headers, payload)


def _is_number(word: bytes) -> bool:
    return word.isdigit() and len(word) <= _SIZE_DIGITS_MAX


def _info(text: bytes) -> Info:
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _fault() from error
    if not isinstance(values, dict):
        raise _fault()
    return Info(values)


def _fault() -> TransportError:
    return TransportError("protocol", "The server said what is not NATS, or too much")
