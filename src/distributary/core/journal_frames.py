"""Frames of the outcome journal as bytes: in a file one after the other, in a database in rows."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core.flow import DoneKey, Mark

HEADER = struct.Struct("<4sII")
MAGIC = b"DOJ1"
MAGIC_HISTORY = b"DOJ2"
"""A frame whose body goes on with the history: rows below which files hold all, number of the first
row in the frame, how many, and their encoding. Without news of the history a frame is a ``DOJ1``,
which earlier versions read too."""
FRAME_BYTES_MAX = 64 * 1024 * 1024
"""A longer frame is damage: a frame holds what finished in 10 ms, or one compaction."""


class HistoryBlock(NamedTuple):
    """Rows of the history that one frame carries.

    Attributes:
        first: Number of the first row.
        length: How many rows.
        rows: Their encoding (``history.rows``).
    """

    first: int
    length: int
    rows: bytes

    @property
    def end(self) -> int:
        """Number after the last row."""
        return self.first + self.length


class Frame(NamedTuple):
    """One frame: the cursor, the matches done, and news of the history, if there are any.

    It begins at ``start``; ``end`` is the position after it, in bytes.
    """

    mark: Mark
    done: list[tuple[int, int, str, int]]
    filed: int = 0
    block: HistoryBlock | None = None
    end: int = 0
    start: int = 0


def encode_frame(
    mark: Mark,
    done: Iterable[tuple[DoneKey, int]],
    filed: int = 0,
    block: HistoryBlock | None = None,
) -> bytes:
    """Return the frame of a cursor and what comes with it."""
    body: list[object] = [
        mark.offset,
        mark.checksum,
        [[k.offset, k.index, k.route, crc] for k, crc in done],
    ]
    magic = MAGIC
    if block is not None:
        magic = MAGIC_HISTORY
        body += [filed, *block]
    encoded = msgspec.msgpack.encode(body)
    return HEADER.pack(magic, len(encoded), zlib.crc32(encoded)) + encoded


_Done = list[tuple[int, int, str, int]]
DECODERS: Final[dict[bytes, msgspec.msgpack.Decoder[tuple[Any, ...]]]] = {
    MAGIC: msgspec.msgpack.Decoder(tuple[int, int, _Done]),
    MAGIC_HISTORY: msgspec.msgpack.Decoder(tuple[int, int, _Done, int, int, int, bytes]),
}


BLOCKS_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw, int, int, int, bytes])
"""Of a frame with history, of which nothing else is wanted: its matches are passed over."""


def bodies(content: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield magic, body, and the position behind each whole frame from the start of *content*.

    Stops at the first bytes that are no frame. A frame is synced before the next one is written, so
    behind a torn one there is none; ``journal_damage`` looks for those behind damage.
    """
    at = 0
    while at + HEADER.size <= len(content):
        magic, length, checksum = HEADER.unpack_from(content, at)
        start = at + HEADER.size
        at = start + length
        if magic not in DECODERS or length > FRAME_BYTES_MAX or at > len(content):
            return
        body = content[start:at]
        if zlib.crc32(body) != checksum:
            return
        yield magic, body, at


def history_frames(content: bytes) -> list[tuple[int, int]]:
    """Where each whole frame with news of the history begins and ends, by the headers alone.

    A damaged body is left to who reads it.
    """
    found = []
    at, last, read, size = 0, len(content) - HEADER.size, HEADER.unpack_from, HEADER.size
    while at <= last:
        magic, length, _ = read(content, at)
        end = at + size + length
        if magic not in DECODERS or length > FRAME_BYTES_MAX or end > len(content):
            break
        if magic == MAGIC_HISTORY:
            found.append((at, end))
        at = end
    return found


def decode_frames(content: bytes) -> Iterator[Frame]:
    """Yield whole frames from the start of *content*, as far as they can be read."""
    for magic, body, at in bodies(content):
        try:
            offset, crc, done, *history = DECODERS[magic].decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        start = at - HEADER.size - len(body)
        if history:
            filed, *block = history
            yield Frame(Mark(offset, crc), done, filed, HistoryBlock(*block), at, start)
        else:
            yield Frame(Mark(offset, crc), done, end=at, start=start)
