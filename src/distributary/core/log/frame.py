"""The bytes of one record: a fixed header with its own checksum, then the body.

::

    0      1        2     3      4      8       12        16      24       32          36
    magic  version  kind  flags  stamp  length  body_crc  offset  time_ms  header_crc  body...

Little endian. ``header_crc`` covers the 32 bytes before it and ``body_crc`` covers the body, so a
damaged body loses only its own record, and a reader skips a damaged header by searching for the
next one. Because ``header_crc`` covers ``body_crc`` it identifies the whole record: it is
``Logged.checksum``. A CRC-32 over bytes that end with their own CRC-32 is a constant, and
``body_crc`` continues from that constant: so one pass over a whole record checks header and body,
and each can still be checked alone.

``stamp`` is a random number of the partition, which a search for the next header looks for. The
sender of an event does not know it, so bytes in the shape of a header cannot pass as a record.

Callers: this package, and users of a ``Reader``'s chunks.
Hides: the layout.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged

MAGIC = 0xD7
"""First byte of every record: not ASCII, not the start of any UTF-8 text."""

VERSION = 1
"""Second byte. Any other number is a layout unknown to this code."""

FIRST_OF_COMMIT = 0x01
"""Flag: everything before this record was on the medium before this record was written."""

BODY_BYTES_MAX = 16 * 1024 * 1024
"""Largest body, bytes: sixteen times ingest's default limit for a whole batch, and a quarter of a
default segment. It bounds the memory of a reader."""

SNAPSHOT_PIECE_BYTES = 8 * 1024 * 1024
"""A longer route snapshot is split into several records: half of ``BODY_BYTES_MAX``, so that
reading a piece needs no more memory than reading any record."""

OFFSET_MAX = 2**62
"""Upper bound of offsets: 25,000 a second for six million years, and far from the sign bit."""

_PREFIX = struct.Struct("<HBBIIIQq")
_HEADER = struct.Struct("<HBBIIIQqI")
_RECORD = struct.Struct("<HBxxxxxIIQqI")  # start, kind, length, body_crc, offset, time, checksum
LENGTHS = struct.Struct("<xxBxxxxxI")
"""Kind of a record, and length of its body, at the position of its header."""
SKIM = struct.Struct("<HBxIIxxxxQxxxxxxxxxxxxB")
"""Of a record with a body: ``START``, kind, stamp, length of the body, offset, first byte of it."""
_STEP = struct.Struct("<HxBxxxxIIQxxxxxxxxI")  # start, flags, length, body_crc, offset, checksum
START = MAGIC | VERSION << 8
"""What each record begins with, as a number."""
_SEALED = 0x2144DF1C
HEADER_BYTES = _HEADER.size
"""Length of a header, bytes."""
STAMP_AT = 4
"""Position of the stamp in a header: a search finds it, then looks this far back."""

_COVERED_BYTES = _PREFIX.size

assert HEADER_BYTES == 36
assert _COVERED_BYTES == 32


class Header(NamedTuple):
    """A header with a valid checksum.

    Attributes:
        kind: A ``flow.Kind``, as a number.
        flags: ``FIRST_OF_COMMIT`` or 0.
        stamp: Random number of the partition.
        length: Of the body, bytes.
        body_crc: CRC-32 of the body.
        offset: Sequence number in the partition.
        time_ms: Wall clock at the append, milliseconds.
        checksum: CRC-32 of all of the above; ``Logged.checksum``.
    """

    kind: int
    flags: int
    stamp: int
    length: int
    body_crc: int
    offset: int
    time_ms: int
    checksum: int


def encode_frame(
    kind: int, body: bytes, offset: int, time_ms: int, *, stamp: int, flags: int = 0
) -> bytes:
    """Encode one record as a segment holds it.

    Args:
        kind: A ``flow.Kind``, 1 to 255.
        body: At most ``BODY_BYTES_MAX`` bytes.
        offset: Sequence number in the partition, from 0.
        time_ms: Wall clock, milliseconds.
        stamp: Random number of the partition, 32 bits.
        flags: ``FIRST_OF_COMMIT`` or 0.
    """
    assert 0 < kind <= 255
    assert len(body) <= BODY_BYTES_MAX
    assert 0 <= offset < OFFSET_MAX
    body_crc = zlib.crc32(body, _SEALED)
    prefix = _PREFIX.pack(START, kind, flags, stamp, len(body), body_crc, offset, time_ms)
    return prefix + zlib.crc32(prefix).to_bytes(4, "little") + body


def encode_commit(
    entries: Sequence[tuple[int, bytes]], offset: int, time_ms: int, stamp: int
) -> bytes:
    """Encode one commit: the first record flagged, offsets from *offset* upwards."""
    flags = FIRST_OF_COMMIT
    parts: list[bytes] = []
    add, pack, crc32 = parts.append, _PREFIX.pack, zlib.crc32
    for kind, body in entries:
        assert len(body) <= BODY_BYTES_MAX
        body_crc = crc32(body, _SEALED)
        prefix = pack(START, kind, flags, stamp, len(body), body_crc, offset, time_ms)
        add(prefix)
        add(crc32(prefix).to_bytes(4, "little"))
        add(body)
        offset += 1
        flags = 0
    return b"".join(parts)


def parse_header(block: bytes, position: int = 0) -> Header | None:
    """Return the header at *position* of *block*, or None if there is no intact one."""
    stop = position + HEADER_BYTES
    if stop > len(block):
        return None
    fields = _HEADER.unpack_from(block, position)
    if fields[0] != START or fields[4] > BODY_BYTES_MAX:
        return None
    if zlib.crc32(block[position : position + _COVERED_BYTES]) != fields[8]:
        return None
    return Header(*fields[1:])


def body_fits(header: Header, body: bytes) -> bool:
    """Whether *body* matches the checksum in *header*."""
    return zlib.crc32(body, _SEALED) == header.body_crc


def iter_frames(chunk: bytes, *, verify: bool = True) -> Iterator[Logged]:
    """Yield the records of *chunk*, which holds whole records and nothing else.

    Costs under a microsecond a record of 1 KB, half of it for the checksum.

    Args:
        chunk: From ``Reader.read_chunk``.
        verify: False skips the checksums, for a chunk that this process has just verified.

    Raises:
        LogDamagedError: Some bytes are not a record. Records before them were yielded, none after
            is. Any input gives records or this error, never another one.
    """
    unpack, crc32, make = _RECORD.unpack_from, zlib.crc32, tuple.__new__
    view = memoryview(chunk)
    position, size = 0, len(chunk)
    while position < size:
        body_at = position + 36
        if body_at > size:
            raise _damaged(position, "a header is cut short")
        start, kind, length, body_crc, offset, time_ms, checksum = unpack(chunk, position)
        stop = body_at + length
        if stop > size:
            raise _damaged(position, "a body is cut short")
        if verify and (start != START or crc32(view[position:stop]) != body_crc):
            raise _damaged(position, "a checksum does not fit")
        yield make(Logged, (offset, time_ms, checksum, kind, chunk[body_at:stop]))
        position = stop


def iter_kind(chunk: bytes, kind: int) -> Iterator[tuple[int, Header]]:
    """Yield positions and headers of the records of *kind* in a chunk with verified headers."""
    unpack = _HEADER.unpack_from
    position, size = 0, len(chunk)
    while position < size:
        fields = unpack(chunk, position)
        if fields[1] == kind:
            yield position, Header(*fields[1:])
        position += 36 + fields[4]


def header_at(chunk: bytes, position: int) -> Header:
    """Return the header at *position* of a chunk with verified headers."""
    return Header(*_HEADER.unpack_from(chunk, position)[1:])


def _damaged(position: int, why: str) -> LogDamagedError:
    return LogDamagedError(f"byte {position} of a chunk of records: {why}")


class Stop:
    """Why ``walk`` stopped (plain integers: compared once a chunk on the hot path)."""

    LIMIT = 0
    """The next offset is the limit."""
    SHORT = 1
    """The block ends inside a record, or exactly behind one."""
    HEADER = 2
    """There is no intact header with the expected offset."""
    BODY = 3
    """The header is intact, the body is not."""


class Run(NamedTuple):
    """A stretch of intact records in a block.

    Attributes:
        stop: Position behind the last good record.
        offset: The next expected offset.
        why: A ``Stop``.
        need: Length of the record at ``stop`` where its header is intact, else 0; bytes.
        last: Position of the last good record, or -1.
        commit: Offset of the last record with ``FIRST_OF_COMMIT``, or -1.
    """

    stop: int
    offset: int
    why: int
    need: int
    last: int
    commit: int


Walk: TypeAlias = Callable[[bytes, int, int], Run]
"""Steps over the records of a block, as ``walk`` does."""


def walk(block: bytes, expected: int, limit: int, *, bodies: bool = True) -> Run:
    """Step over intact records from the start of *block* until something stops it.

    Args:
        block: Bytes of a segment, beginning at a record.
        expected: The offset of that record; the following ones have no gaps.
        limit: Stop before the record with this offset.
        bodies: False skips the bodies' checksums (a third of the cost).
    """
    unpack, crc32 = _STEP.unpack_from, zlib.crc32
    view = memoryview(block)
    position, size = 0, len(block)
    last = commit = -1
    why, need = Stop.LIMIT, 0
    while expected < limit:
        if position + 36 > size:
            why = Stop.SHORT
            break
        start, flags, length, body_crc, offset, checksum = unpack(block, position)
        stop = position + 36 + length
        if start != START or offset != expected or length > BODY_BYTES_MAX:
            why = Stop.HEADER
            break
        if stop > size or not bodies or crc32(view[position:stop]) != body_crc:
            if crc32(view[position : position + 32]) != checksum:
                why = Stop.HEADER
                break
            if stop > size or bodies:
                why, need = Stop.SHORT if stop > size else Stop.BODY, 36 + length
                break
        if flags:
            commit = expected
        last = position
        position = stop
        expected += 1
    return Run(position, expected, why, need, last, commit)


def walk_headers(block: bytes, expected: int, limit: int) -> Run:
    """``walk`` without the bodies."""
    return walk(block, expected, limit, bodies=False)
