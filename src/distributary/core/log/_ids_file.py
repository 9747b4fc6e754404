"""One file of the index of event ids: hashes of ids, sorted, and where their records begin.

Callers: ``indexer`` and ``finder``. Hides: names, layout, checksums, and the search in a file.

::

    {data}/index/p0000/{segment}-{first}-{end}.ids     offsets [first, end) of one segment

    magic count entries_crc segment first end start stop first_ms last_ms header_crc | entries

An entry is 8 bytes: the CRC-32 of an id, and the byte of the segment at which its record begins.
Two ids may share a hash, so whoever finds an entry looks at its record. A file is no truth: it is
made again from its segment when it is missing or damaged, and is never synced.
"""

import contextlib
import os
import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.errors import LogDamagedError
from distributary.core.files import write_atomically

ENTRY_BYTES: Final = 8
"""Of one event in the index."""
HASH_BITS: Final = 32
WINDOW: Final = 512
"""Entries that one search reads: hashes are spread evenly, so that of 65,536 entries nearly every
one is within four times the standard deviation (128) of the place where it is looked for."""
COUNT_MAX: Final = 1 << 26
"""Entries of a file: far more than the events of a segment, so that a header cannot ask for more
memory than there is."""

_MAGIC: Final = b"DSTRIDS1"
_HEAD: Final = struct.Struct("<8sIIQQQQQqqI")
_NAME: Final = re.compile(r"(\d{20})-(\d{20})-(\d{20})\.ids", re.ASCII)
_MODE: Final = 0o640


class Piece(NamedTuple):
    """The name of a file: what it covers.

    Attributes:
        segment: First offset of the segment.
        first: First offset that it covers.
        end: The offset after the last one.
    """

    segment: int
    first: int
    end: int

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.segment:020d}-{self.first:020d}-{self.end:020d}.ids"


class Head(NamedTuple):
    """What a file tells of itself.

    Attributes:
        piece: What it covers.
        length: Entries.
        start: Byte of the segment at which its first record begins.
        stop: Byte behind its last one.
        first_ms: Time of its first record, milliseconds.
        last_ms: Time of its last one.
    """

    piece: Piece
    length: int
    start: int
    stop: int
    first_ms: int
    last_ms: int


def hash_of(id_: str) -> int:
    """The hash of an event id."""
    return zlib.crc32(id_.encode("utf-8", "surrogatepass"))


def list_pieces(folder: Path) -> list[Piece]:
    """What the files of *folder* cover, in the order of the log; other names are ignored.

    Raises:
        OSError: The folder cannot be read; one that does not exist has none.
    """
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    found = [_NAME.fullmatch(name) for name in names]
    pieces = [Piece(*map(int, each.groups())) for each in found if each is not None]
    return sorted(piece for piece in pieces if piece.segment <= piece.first < piece.end)


class SoundFiles:
    """The files of one folder that were read and found whole: each is read once.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_ms: dict[Piece, int] = {}

    def forget(self) -> None:
        """Read all once more, as they are met."""
        self._last_ms.clear()

    def last_ms(self, piece: Piece) -> int | None:
        """Returns the time of the last record of a file; None: it is damaged, or not there.

        Raises:
            OSError: It cannot be read.
        """
        found = self._last_ms.get(piece)
        if found is None:
            try:
                found = read(self._folder, piece)[0].last_ms
            except (LogDamagedError, FileNotFoundError):
                return None
            self._last_ms[piece] = found
        return found

    def add(self, piece: Piece, last_ms: int) -> None:
        """A file was written, whose last record has that time."""
        self._last_ms[piece] = last_ms

    def delete(self, piece: Piece) -> None:
        """Delete a file, which may be gone already."""
        self._last_ms.pop(piece, None)
        (self._folder / piece.name).unlink(missing_ok=True)


def write(folder: Path, head: Head, entries: "array[int]") -> None:
    """Write a file; *entries* are sorted.

    Raises:
        OSError: It was not written.
    """
    if sys.byteorder == "big":
        entries = array("Q", entries)
        entries.byteswap()
    body = entries.tobytes()
    piece = head.piece
    fixed = _HEAD.pack(_MAGIC, len(entries), zlib.crc32(body), *piece, *head[2:], 0)[:-4]
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    content = b"".join((fixed, zlib.crc32(fixed).to_bytes(4, "little"), body))
    write_atomically(folder / piece.name, content, mode=_MODE)


def read(folder: Path, piece: Piece) -> tuple[Head, "array[int]"]:
    """The head and the entries of a whole file.

    Raises:
        LogDamagedError: It is damaged: make it again.
        OSError: It is not there, or cannot be read.
    """
    content = (folder / piece.name).read_bytes()
    head, crc = _head_of(content[: _HEAD.size], piece, len(content))
    body = memoryview(content)[_HEAD.size :]
    if zlib.crc32(body) != crc:
        raise _damaged(piece)
    entries = array("Q")
    entries.frombytes(body)
    if sys.byteorder == "big":
        entries.byteswap()
    return head, entries


def _head_of(block: bytes, piece: Piece, size: int) -> tuple[Head, int]:
    if len(block) < _HEAD.size or zlib.crc32(block[:-4]).to_bytes(4, "little") != block[-4:]:
        raise _damaged(piece)
    magic, count, crc, *rest = _HEAD.unpack(block)
    found = Piece(*rest[:3])
    if magic != _MAGIC or found != piece or size != _HEAD.size + count * ENTRY_BYTES:
        raise _damaged(piece)
    return Head(found, count, *rest[3:7]), crc


def _damaged(piece: Piece) -> LogDamagedError:
    return LogDamagedError(f"the index file {piece.name} is damaged")


def look_up(folder: Path, head: Head, hashed: int) -> list[int]:
    """Where records whose event may have an id of this hash begin: bytes of the segment, ascending.

    Args:
        folder: Of the partition's index.
        head: Of the file, which was verified.
        hashed: ``hash_of`` the id.

    Raises:
        OSError: The file is gone, or cannot be read.
    """
    low, high = hashed << HASH_BITS, (hashed + 1) << HASH_BITS
    fd = os.open(folder / head.piece.name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        guess = hashed * head.length >> HASH_BITS
        start = max(guess - WINDOW // 2, 0)
        block = _entries(fd, head, start, start + WINDOW)
        if not _covers(block, start, head.length, low, high):
            start = _search(fd, head, low)
            stop = _search(fd, head, high)
            block = _entries(fd, head, start, stop)
        found = block[bisect_left(block, low) : bisect_left(block, high)]
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
    return [entry & 0xFFFFFFFF for entry in found]


def _covers(block: "array[int]", start: int, count: int, low: int, high: int) -> bool:
    """Whether all entries from *low* to *high* are in *block*."""
    if not block:
        return count == 0
    begins = start == 0 or block[0] < low
    return begins and (start + len(block) >= count or block[-1] >= high)


def _entries(fd: int, head: Head, start: int, stop: int) -> "array[int]":
    stop = min(stop, head.length)
    length = max(stop - start, 0) * ENTRY_BYTES
    block = os.pread(fd, length, _HEAD.size + start * ENTRY_BYTES)
    if len(block) != length:
        raise _damaged(head.piece)
    found = array("Q")
    found.frombytes(block)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _search(fd: int, head: Head, wanted: int) -> int:
    """The place of the first entry that is at least *wanted*: a binary search in the file."""
    low, high = 0, head.length
    while low < high:
        middle = (low + high) // 2
        if _entries(fd, head, middle, middle + 1)[0] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
