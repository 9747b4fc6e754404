"""The value of a Kafka record that holds a record of the log.

::

    0      1        2     3      4       8
    magic  version  kind  0      check   body...

Little endian. ``check`` is the CRC-32 of the body as a frame of the embedded log has it, with the
first four bytes exclusive-ored in: a reader computes that CRC for the frame anyway, so a verified
record costs no second pass. It holds from the process that received the event to the one that
delivers it, through every broker and disk between.

Bytes of anybody else in the topic, and torn ones, are not taken for a record.
"""

import struct
import zlib
from typing import Final

from distributary.core.log.frame import BODY_BYTES_MAX, encode_frame

BY: Final = "by"
"""Name of the header that tells who published the record; there is none where nobody was asked."""

PREFIX_BYTES: Final = 8
VALUE_BYTES_MAX: Final = PREFIX_BYTES + BODY_BYTES_MAX
"""The largest body of a frame, and the prefix before it."""

_PREFIX: Final = struct.Struct("<II")
_START: Final = 0x01D7
_KIND_SHIFT: Final = 16
_SEALED: Final = 0x2144DF1C
"""The frame's CRC of a body begins with this: see ``core.log.frame``."""
_BODY_CRC: Final = struct.Struct("<I")
_BODY_CRC_AT: Final = 12


def encode(kind: int, body: bytes) -> bytes:
    """Returns the value for a record of *kind*, 1 to 255, with *body*."""
    start = _START | kind << _KIND_SHIFT
    return _PREFIX.pack(start, zlib.crc32(body, _SEALED) ^ start) + body


def frame_of(value: bytes | None, offset: int, time_ms: int) -> bytes | None:
    """Returns the record as a frame of the embedded log; None: *value* is no whole record.

    Args:
        value: Of a Kafka record, whoever wrote it.
        offset: Its offset.
        time_ms: Its time, milliseconds since 1970.
    """
    if value is None or len(value) < PREFIX_BYTES:
        return None
    start, check = _PREFIX.unpack_from(value)
    kind = start >> _KIND_SHIFT
    if start & 0xFFFF != _START or not 0 < kind <= 255 or len(value) > VALUE_BYTES_MAX:
        return None
    frame = encode_frame(kind, value[PREFIX_BYTES:], offset, time_ms, stamp=0)
    (body_crc,) = _BODY_CRC.unpack_from(frame, _BODY_CRC_AT)
    return frame if body_crc ^ start == check else None


def kind_of(value: bytes | None) -> int:
    """The kind that *value* claims; 0: it is no record. The body is not looked at."""
    if value is None or len(value) < PREFIX_BYTES:
        return 0
    (start, _) = _PREFIX.unpack_from(value)
    return start >> _KIND_SHIFT if start & 0xFFFF == _START else 0
