"""A sans-I/O parser of the NATS client protocol, from server to client.

Called by ``_connection``. Hides the lines of the protocol, and limits the memory that a server can
use.

Source:
    docs.nats.io, "Client Protocol".
"""

import re
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from distributary.core.errors import TransportError

LINE_BYTES_MAX: Final = 64 * 1024
"""Longest line of the protocol: INFO has some 500 bytes, and more in a cluster of many servers."""

_MESSAGE: Final = re.compile(
    rb"(H?)MSG[ \t]+(\S+)[ \t]+(\d{1,10})[ \t]+"
    rb"(?:(\S+)[ \t]+)??(?:(\d{1,10})[ \t]+)?(\d{1,10})\r\n"
)
"""HMSG or MSG: subject, sid, optional reply subject, bytes of the headers (HMSG), bytes in total.
More digits could only overflow."""


class NatsMessage(NamedTuple):
    """MSG or HMSG.

    Attributes:
        sid: Id of the subscription.
        subject: Subject of the message.
        reply: Reply subject; empty: none.
        headers: Header block; empty: none.
        payload: The payload.
    """

    sid: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Info(NamedTuple):
    """INFO; its values are not validated."""

    values: dict[str, Any]


class Refusal(NamedTuple):
    """-ERR with the server's text; never empty."""

    text: str


class Signal(NamedTuple):
    """PING, PONG or +OK."""

    name: bytes


PING: Final = Signal(b"PING")
PONG: Final = Signal(b"PONG")
OK: Final = Signal(b"+OK")
_SIGNALS: Final = {signal.name: signal for signal in (PING, PONG, OK)}

Said: TypeAlias = NatsMessage | Info | Refusal | Signal


class Parser:
    """Incremental parser: ``feed`` bytes, then take operations from ``next_said``.

    Args:
        message_bytes_max: Largest message accepted, headers included.
    """

    __slots__ = ("_buffer", "_bytes_max", "_pos")

    def __init__(self, message_bytes_max: int) -> None:
        self._bytes_max = message_bytes_max
        self._buffer = bytearray()
        self._pos = 0

    def feed(self, data: bytes) -> None:
        """Append *data* to the buffer."""
        del self._buffer[: self._pos]
        self._pos = 0
        self._buffer += data

    def clear(self) -> None:
        """Drop the buffer."""
        self._buffer.clear()
        self._pos = 0

    def next_said(self) -> Said | None:
        """Parse the next operation; None: more bytes are needed.

        Raises:
            TransportError: ``protocol``: it is not NATS, or exceeds a limit.
        """
        line = _MESSAGE.match(self._buffer, self._pos)
        if line is not None:
            return self._message(line)
        pos = self._pos
        end = self._buffer.find(b"\r\n", pos, pos + LINE_BYTES_MAX)
        if end < 0:
            if len(self._buffer) - pos >= LINE_BYTES_MAX:
                raise _fault()
            return None
        self._pos = end + 2
        said = bytes(self._buffer[pos:end])
        operation, _, rest = said.partition(b" ")
        if operation == b"-ERR" and rest.strip():
            return Refusal(rest.strip().decode("utf-8", "replace"))
        if operation == b"INFO":
            return _info(rest)
        signal = _SIGNALS.get(said)
        if signal is None:
            raise _fault()
        return signal

    def _message(self, line: re.Match[bytes]) -> NatsMessage | None:
        """Parse the message after *line*; None if it is incomplete."""
        headed, subject, sid, reply, headers_size, size = line.groups()
        buffer, start = self._buffer, line.end()
        end = start + int(size)
        split = start
        if headed:
            split += int(headers_size or self._bytes_max + 1)
        elif headers_size:  # MSG has one size only: this is the reply subject
            if reply:
                raise _fault()
            reply = headers_size
        if not split <= end <= start + self._bytes_max:
            raise _fault()
        if len(buffer) < end + 2:
            return None
        if not buffer.startswith(b"\r\n", end):
            raise _fault()
        self._pos = end + 2
        headers = bytes(buffer[start:split]) if headed else b""
        return NatsMessage(int(sid), subject, reply or b"", headers, bytes(buffer[split:end]))


def _info(text: bytes) -> Info:
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _fault() from error
    if not isinstance(values, dict):
        raise _fault()
    return Info(values)


def _fault() -> TransportError:
    return TransportError("protocol", "The server sent invalid NATS, or more than the limit")
