"""Splits input into frames, and rejects ``begin`` frames that would crash proton.

Called by ``_core``. Proton (0.40) does not check which session a peer's ``begin`` answers: if none
of ours waits for it, proton uses freed memory and the process crashes. Any peer could do so with
four frames. So this module tracks sessions in the frames of both sides.

Pure; decodes ``begin`` and ``end`` only.

Source:
    OASIS AMQP 1.0, part 2, sections 2.3 (frames) and 2.7.2 (begin).
"""

from typing import Final

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._limits import FRAME_BYTES_MAX
from distributary.protocols.amqp.engine._values import AmqpError

_HEADER: Final = int.from_bytes(b"AMQP")
"""Start of a protocol header, which comes between frames: eight bytes without a size."""

_BEGIN: Final = 0x11
_END: Final = 0x17
_NAMES: Final = {"amqp:begin:list": _BEGIN, "amqp:end:list": _END}
"""Symbolic descriptor -> numeric descriptor; both are allowed on the wire."""

_SMALL_ULONG: Final = 0x53
_DESCRIPTORS: Final = frozenset((0x44, _SMALL_ULONG, 0x80, 0xA3, 0xB3))
"""Format codes of descriptors: numbers (ulong) and symbols."""


FRAMES_MAX: Final = 1_000
"""Short frames of a peer between two ticks, besides those that are expected; beyond, the connection
is ended. Usual are a few. A flood of them would take the whole loop that delivers to all."""

EXPECTED_MAX: Final = 64 * 1024
"""Short frames that are expected: four for each of many messages, links and credits."""

SHORT_BYTES: Final = 256
"""Frames of so many bytes are not counted: reading them costs no more than their bytes."""


class Frames:
    """Frame splitter of one connection, with its sessions."""

    def __init__(self) -> None:
        self._left = FRAMES_MAX
        self._expected = 0
        self._buffer = bytearray()  # start of an incomplete frame
        self._sessions: set[int] = set()  # channels that the peer has begun
        self._unanswered: set[int] = set()  # our channels without the peer's ``begin``
        self._said_head = b""  # start of an incomplete frame of ours
        self._said_rest = 0  # bytes missing of a frame of ours

    def expect(self, count: int) -> None:
        """Take *count* more short frames: something was sent that the peer answers."""
        self._expected = min(self._expected + count, EXPECTED_MAX)

    def ticked(self) -> None:
        """Count frames that are not expected anew."""
        self._left = FRAMES_MAX

    def said(self, raw: bytes) -> None:
        """Track the output *raw* of proton, which may be split anywhere."""
        raw = self._said_head + raw
        at, end = self._said_rest, len(raw)
        while end - at >= 8:
            size = int.from_bytes(raw[at : at + 4])
            if size == _HEADER:
                size = 8
            elif size > 8:
                if end - at < 11:
                    break
                if raw[at + 10] == _BEGIN:  # behind the head: 0, and a small ulong
                    if end - at < size:
                        break
                    if _answered(raw[at + 8 : at + size]) is None:
                        self._unanswered.add(int.from_bytes(raw[at + 6 : at + 8]))
            at += size
        self._said_head = raw[at:]
        self._said_rest = max(0, at - end)

    def take(self, raw: bytes) -> bytes:
        """Append *raw* to the input. Returns the complete frames, in order.

        Raises:
            AmqpError: It is not a frame, or an invalid ``begin``.
        """
        if self._buffer:
            self._buffer += raw
            end = self._whole(self._buffer)
            whole = bytes(self._buffer[:end])
            del self._buffer[:end]
            return whole
        end = self._whole(raw)
        if end == len(raw):
            return raw
        self._buffer += raw[end:]
        return raw[:end]

    def _whole(self, raw: bytes | bytearray) -> int:
        """Returns the end of the last complete frame in *raw*."""
        at, end = 0, len(raw)
        while end - at >= 8:
            size = int.from_bytes(raw[at : at + 4])
            if size == _HEADER:
                size = 8
            elif not 8 <= size <= FRAME_BYTES_MAX:
                raise AmqpError("no frame of AMQP 1.0, or one that is too large")
            elif at + size > end:
                break
            else:  # of any type: proton ignores the type too
                if size < SHORT_BYTES:
                    self._count()
                self._look(raw, at, at + size)
            at += size
        return at

    def _count(self) -> None:
        if self._expected:
            self._expected -= 1
        elif self._left:
            self._left -= 1
        else:
            raise AmqpError(f"more than {FRAMES_MAX:,} frames that answer nothing")

    def _look(self, raw: bytes | bytearray, at: int, end: int) -> None:
        """Track sessions by the frame from *at* to *end*."""
        body = at + 4 * raw[at + 4]
        if body == end:
            return  # an empty frame, the keepalive
        if not at + 8 <= body <= end - 3 or raw[body] != 0:
            raise AmqpError("a frame does not say what it is")
        code = raw[body + 2] if raw[body + 1] == _SMALL_ULONG else _code(bytes(raw[body:end]))
        if code == _BEGIN:
            self._begin(int.from_bytes(raw[at + 6 : at + 8]), bytes(raw[body:end]))
        elif code == _END:
            self._sessions.discard(int.from_bytes(raw[at + 6 : at + 8]))

    def _begin(self, channel: int, body: bytes) -> None:
        answered = _answered(body)
        if channel in self._sessions:
            raise AmqpError("a session was begun twice")
        if answered is not None:
            if answered not in self._unanswered:
                raise AmqpError("a session was answered that does not wait for it")
            self._unanswered.discard(answered)
        self._sessions.add(channel)


def _answered(body: bytes) -> int | None:
    """Returns the ``remote-channel`` of a ``begin``; None: it begins a session."""
    fields = _values.decode(body)[0].value
    if not isinstance(fields, list):
        raise AmqpError("a begin is no list")
    answered = fields[0] if fields else None
    if answered is not None and type(answered) is not int:
        raise AmqpError("a begin answers what is no channel")
    return answered


def _code(body: bytes) -> object:
    """Returns the code of a descriptor that is not a small ulong."""
    if body[1] not in _DESCRIPTORS:
        raise AmqpError("a frame does not say what it is")
    descriptor, _ = _values.decode(body, 1)
    return _NAMES.get(descriptor) if isinstance(descriptor, str) else descriptor
