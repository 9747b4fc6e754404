"""The entries of the index of event ids that records of one segment have.

Callers: ``indexer`` and ``offset_indexer``. Hides: how records are stepped over, and how their ids
are found, which is most of the work of the index.
"""

import sys
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from zlib import crc32

from distributary.core.errors import EventError
from distributary.core.event import binary
from distributary.core.flow import Logged, RecordKind, events_of
from distributary.core.log import _ids_file as ids_file
from distributary.core.log._ids_file import Head, Piece
from distributary.core.log.frame import (
    HEADER_BYTES,
    LENGTHS,
    MAGIC,
    OFFSET_MAX,
    SKIM,
    START,
    Run,
    Stop,
    header_at,
    parse_header,
    walk_headers,
)

MARKER_BYTES_MAX: Final = 1024
"""Lines before that of the id which events may share: more are no header lines."""
UNLIKE_CHUNKS: Final = 15
"""Chunks whose ids are looked for one by one after those of one were not alike."""

_EVENTS: Final = int(RecordKind.EVENTS)
_BINARY: Final = binary.FORMAT
_FORM: Final = bytes([_BINARY])
_ID_LINE: Final = b"\r\nce-id: "
assert (len(_ID_LINE), HEADER_BYTES, ids_file.HASH_BITS) == (9, 36, 32)  # as ``Gathered`` has them
assert MAGIC >= 0x80  # as ``_alike`` has it
_PAIRS: Final = sys.byteorder == "little" and array("I").itemsize == 4
"""Whether two numbers of 32 bits are one of an entry, the low one first."""


class Gathered:
    """Entries of consecutive records of one segment, until a file takes them."""

    def __init__(self, segment: int, first: int, start: int) -> None:
        self.segment = segment
        self.first = self.end = first
        self.start = self.stop = start
        self.entries = array("Q")
        self.first_ms = self.last_ms = 0
        self._run: Run | None = None
        self._places = list[int]()
        self._others = list[int]()
        self._reach = 0
        self._unlike = 0

    def walk(self, block: bytes, expected: int, limit: int) -> Run:
        """As ``frame.walk_headers``; what it has stepped over is for ``take``.

        A header is intact if it has the offset and the stamp that it must have, and another one
        follows where it says: the sender of an event does not know the stamp. The first and the
        last one, and all where this does not hold, are verified by their checksums.
        """
        run = self._run = self._skim(block, 0, expected, limit)
        if run is None or run.why == Stop.HEADER:
            self._run = None
            run = walk_headers(block, expected, limit)
        return run

    def take(self, block: bytes, length: int, start: int) -> None:
        """Add the records that ``walk`` has just stepped over.

        Args:
            block: Begins with them.
            length: Of them, bytes.
            start: Byte of the segment at which *block* begins.
        """
        if self._run is None:
            self.add(block[:length], start)
            return
        self._add_skimmed(block, start)
        self._note(block, self._run.last, start + length)

    def add(self, chunk: bytes, start: int) -> None:
        """Add the records of *chunk*, which begins at byte *start* of the segment."""
        at = last = 0
        while at < len(chunk):
            run = self._skim(chunk, at, header_at(chunk, at).offset, OFFSET_MAX)
            if run is None:
                last, at = at, self._add_each(chunk, at, start)
            else:
                last, at = run.last, run.stop
                self._add_skimmed(chunk, start)
        self._note(chunk, last, start + len(chunk))

    def _skim(self, block: bytes, at: int, expected: int, limit: int) -> Run | None:
        """Step over records from *at*, as ``walk``; None: there is none, or one is damaged."""
        first = parse_header(block, at)
        if first is None:
            return None
        stamp, unpack = first.stamp, SKIM.unpack_from
        places, others = list[int](), list[int]()
        size, last, why = len(block), -1, Stop.LIMIT
        while expected < limit:
            if at + 36 >= size:
                why = Stop.SHORT
                break
            start, kind, mark, length, offset, form = unpack(block, at)
            stop = at + 36 + length
            if offset != expected or mark != stamp or start != START:
                why = Stop.HEADER
                break
            if stop > size:
                why = Stop.SHORT
                break
            if form == _BINARY and kind == _EVENTS:
                places.append(at)  # Nearly all: their lines come first, and each has an id.
            else:
                others.append(at)
            last, at = at, stop
            expected += 1
        if last < 0 or parse_header(block, last) is None:
            return None
        self._places, self._others, self._reach = places, others, at
        return Run(at, expected, why, 0, last, -1)

    def _add_skimmed(self, block: bytes, start: int) -> None:
        """Add the records that ``_skim`` has stepped over."""
        places, others = self._places, self._others
        ids = None
        if self._unlike:
            self._unlike -= 1
        elif places:
            ids = _alike(block, places, self._reach)
            if ids is None:
                self._unlike = UNLIKE_CHUNKS
        if ids is None:
            ids = self._each_id(block)
            if b"%" in b"".join(ids):
                both = list(zip(ids, places, strict=True))
                others = others + [at for id_, at in both if b"%" in id_]
                ids = [id_ for id_ in ids if b"%" not in id_]
                places = [at for id_, at in both if b"%" not in id_]
        self._append(ids, places, start)
        for at in others:
            self._add_each(block, at, start)

    def _append(self, ids: list[bytes], places: list[int], start: int) -> None:
        """Append an entry for each of *ids*: its hash above the byte of its record."""
        if not _PAIRS:
            self.entries.fromlist(
                [crc << 32 | start + at for crc, at in zip(map(crc32, ids), places, strict=True)]
            )
            return
        # Numbers of 32 bits: an entry as one number is two objects more.
        pairs = array("I", bytes(8 * len(ids)))
        pairs[::2] = array("I", [start + at for at in places])
        pairs[1::2] = array("I", map(crc32, ids))
        self.entries.frombytes(pairs.tobytes())

    def _each_id(self, block: bytes) -> list[bytes]:
        """The ids at ``_places``, each looked for between its header and the next one."""
        find, places = block.find, self._places
        stops = [*places[1:], self._reach]
        if self._others:
            edges = sorted([*places, *self._others, self._reach])
            following = dict(pairwise(edges))
            stops = [following[at] for at in places]
        ids = []
        for at, stop in zip(places, stops, strict=True):
            id_at = find(_ID_LINE, at + 36, stop) + 9
            ids.append(block[id_at : find(b"\r", id_at, stop)])
        return ids

    def _add_each(self, chunk: bytes, at: int, start: int) -> int:
        """Add the events of the record at *at*; returns where it ends."""
        kind, length = LENGTHS.unpack_from(chunk, at)
        body_at = at + HEADER_BYTES
        for hashed in _hashes(Logged(0, 0, 0, kind, chunk[body_at : body_at + length])):
            self.entries.append(hashed << ids_file.HASH_BITS | start + at)
        return int(body_at + length)

    def _note(self, chunk: bytes, last: int, stop: int) -> None:
        """Note the times of the first and the last record of *chunk*, and where it ends."""
        if not self.first_ms:
            self.first_ms = header_at(chunk, 0).time_ms
        newest = header_at(chunk, last)
        self.end, self.last_ms, self.stop = newest.offset + 1, newest.time_ms, stop

    def write(self, folder: Path, end: int) -> Piece:
        """Write the file of the records up to the offset *end*; returns what it covers."""
        entries = array("Q", sorted(self.entries))
        piece = Piece(self.segment, self.first, end)
        head = Head(piece, len(entries), self.start, self.stop, self.first_ms, self.last_ms)
        ids_file.write(folder, head, entries)
        return piece


def _alike(block: bytes, places: Sequence[int], reach: int) -> list[bytes] | None:
    """The ids of records in binary form that begin with the same lines and have ids of one length.

    A publisher sends many such. None: they are not, or an id is no plain text.

    Args:
        block: Holds the records.
        places: Where they begin; other records may lie between.
        reach: Where the last record ends.
    """
    first, count = places[0] + HEADER_BYTES, len(places)
    line = block.find(_ID_LINE, first, min(first + MARKER_BYTES_MAX, reach))
    stop = block.find(b"\r", line + 9, reach) + 1
    width, marker = stop - first, block[first : line + 9]
    if line < 0 or not stop or places[-1] + HEADER_BYTES + width > reach:
        return None
    if not block.startswith(marker, places[count // 2] + HEADER_BYTES):
        return None  # most that are not alike differ here, so no work is in vain
    end = HEADER_BYTES + width
    cut = b"".join([block[at + 36 : at + end] for at in places])
    ids = cut[len(marker) : -1].split(b"\r" + marker)
    # Each piece begins with the format byte, which is nowhere else; so what has divided them is
    # where one ends and the next begins. There are no other breaks: so the rest are ids. None
    # holds the first byte of a record's header, which is not ASCII: so none ends in the next one.
    alike = (
        len(ids) == cut.count(_FORM) == cut[::width].count(_FORM) == count
        and len(cut) == width * count
        and cut.endswith(b"\r")
        and cut.count(b"\r") == (marker.count(b"\r") + 1) * count
        and cut.isascii()
        and b"%" not in cut
    )
    return ids if alike else None


class NumberedEntries(Gathered):
    """As ``Gathered``, but entries have the number of a record in its segment, not its byte.

    For a log that is read by offset (``offset_indexer``).
    """

    def add(self, chunk: bytes, start: int) -> None:
        """Add the records of *chunk*, which begins *start* bytes after the first one."""
        entries, before = self.entries, len(self.entries)
        super().add(chunk, start)
        for index in range(before, len(entries)):
            place = (entries[index] & 0xFFFFFFFF) - start
            number = header_at(chunk, place).offset - self.segment
            entries[index] = entries[index] >> 32 << 32 | number


def _hashes(logged: Logged) -> list[int]:
    """Of the ids of a record's events."""
    try:
        found = events_of(logged)
    except EventError:
        return []  # damaged, or of a newer version: nobody finds it by its id
    if found is None:
        return []
    return [ids_file.hash_of(event.text("id") or "") for event in found.events]
