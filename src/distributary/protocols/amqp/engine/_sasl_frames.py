"""Frames of the SASL exchange that precedes AMQP on a connection, for both of its sides.

Source:
    OASIS AMQP 1.0, part 5, section 5.3.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._values import AmqpError, Described, ULong

HEADER: Final = b"AMQP\x03\x01\x00\x00"

FRAMES_MAX: Final = 8
"""Limit of a peer's SASL frames in one login. A server needs three: mechanisms, perhaps a
challenge, and the outcome; a peer that sends more might never finish."""

MECHANISMS: Final = 0x40
INIT: Final = 0x41
CHALLENGE: Final = 0x42
RESPONSE: Final = 0x43
OUTCOME: Final = 0x44


def frame_of(code: int, fields: list[object]) -> bytes:
    """A SASL frame: *code* is one of the five descriptors (section 5.3.3)."""
    body = _values.encode(Described(ULong(code), fields))
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body


class SaslFrames:
    """Takes the frames of a peer out of bytes that arrive in pieces.

    Args:
        frame_bytes_max: Longest frame that is accepted.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = b""
        self._count = 0

    def add(self, raw: bytes) -> None:
        """Keep *raw* until ``begins`` and ``read`` take it."""
        self._buffer += raw

    def begins(self) -> bool | None:
        """Whether the peer begins with ``HEADER``, which is taken; None: more bytes are needed.

        Call it until it is True, then ``read``.
        """
        if not HEADER.startswith(self._buffer[: len(HEADER)]):
            return False
        if len(self._buffer) < len(HEADER):
            return None
        self._buffer = self._buffer[len(HEADER) :]
        return True

    def read(self) -> Iterator[tuple[object, list[Any]]]:
        """The whole frames that have arrived: descriptor, and fields with two further ones of None.

        Raises:
            AmqpError: The bytes are no SASL frames, or too many.
        """
        while len(self._buffer) >= 8:
            size, offset, kind = struct.unpack_from(">IBB", self._buffer)
            if kind != 1 or offset < 2 or not 4 * offset <= size <= self._frame_bytes_max:
                raise AmqpError("a SASL frame was expected")
            if len(self._buffer) < size:
                return
            self._count += 1
            if self._count > FRAMES_MAX:
                raise AmqpError("the peer talks on instead of ending the login")
            frame, self._buffer = self._buffer[4 * offset : size], self._buffer[size:]
            performative, _ = _values.decode(frame)
            if not isinstance(performative, Described) or not isinstance(performative.value, list):
                raise AmqpError("a SASL frame was expected")
            yield performative.descriptor, [*performative.value, None, None]

    def rest(self) -> bytes:
        """What follows the last frame that was read; it is taken."""
        rest, self._buffer = self._buffer, b""
        return rest
