"""What comes in, whole frame by whole frame, and what of it proton must not see.

Called by ``_core``. Proton believes a peer in one thing: a ``begin`` says which session of ours it
answers. Where one is answered that does not wait for it proton (0.40) frees memory that is in use,
and the process is gone: four frames that anybody may send who can connect. So sessions are watched
here, in what both sides say.

Pure; looks into ``begin`` and ``end`` alone.

Source:
    OASIS AMQP 1.0, part 2, sections 2.3 (frames) and 2.7.2 (begin).
"""

from typing import Final

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._limits import FRAME_BYTES_MAX
from distributary.protocols.amqp.engine._values import AmqpError

_HEADER: Final = int.from_bytes(b"AMQP")
"""Protocol headers stand between frames, and have no size: eight bytes that begin with this."""

_BEGIN: Final = 0x11
_END: Final = 0x17
_NAMES: Final = {"amqp:begin:list": _BEGIN, "amqp:end:list": _END}
"""Symbolic descriptor -> numeric descriptor; both are allowed on the wire."""

_SMALL_ULONG: Final = 0x53
_DESCRIPTORS: Final = frozenset((0x44, _SMALL_ULONG, 0x80, 0xA3, 0xB3))
"""Format codes of what may stand as a descriptor: numbers (ulong) and symbols."""


class Frames:
    """The frames of one connection, and the sessions that they begin."""

    def __init__(self) -> None:
        self._buffer = bytearray()  # the beginning of a frame that is not whole yet
        self._sessions: set[int] = set()  # channels of those that the peer has begun
        self._unanswered: set[int] = set()  # of ours: those that it has not answered
        self._said_head = b""  # the beginning of a frame of ours of which more will be said
        self._said_rest = 0  # bytes that are still to be said of one

    def said(self, raw: bytes) -> None:
        """Take note of *raw*, which this end says: proton's own, and cut anywhere."""
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
        """Read *raw*; the whole frames that there are now, in their order.

        Raises:
            AmqpError: What came is no frame, or says what must not be said.
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
        """Where the last whole frame of *raw* ends."""
        at, end = 0, len(raw)
        while end - at >= 8:
            size = int.from_bytes(raw[at : at + 4])
            if size == _HEADER:
                size = 8
            elif not 8 <= size <= FRAME_BYTES_MAX:
                raise AmqpError("no frame of AMQP 1.0, or one that is too large")
            elif at + size > end:
                break
            else:  # whatever its type: proton does not ask for it either
                self._look(raw, at, at + size)
            at += size
        return at

    def _look(self, raw: bytes | bytearray, at: int, end: int) -> None:
        """See what the frame from *at* to *end* does to sessions."""
        body = at + 4 * raw[at + 4]
        if body == end:
            return  # a sign of life
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
    """Channel of the session that a ``begin`` answers; None: it begins one."""
    fields = _values.decode(body)[0].value
    if not isinstance(fields, list):
        raise AmqpError("a begin is no list")
    answered = fields[0] if fields else None
    if answered is not None and type(answered) is not int:
        raise AmqpError("a begin answers what is no channel")
    return answered


def _code(body: bytes) -> object:
    """What *body* is, where that is said at length."""
    if body[1] not in _DESCRIPTORS:
        raise AmqpError("a frame does not say what it is")
    descriptor, _ = _values.decode(body, 1)
    return _NAMES.get(descriptor) if isinstance(descriptor, str) else descriptor
