"""One segment file, read-only: runs of intact records, and resynchronization after damage.

Callers: ``_cursor``, ``_recovery``, ``reader`` and ``retention``. Hides: file names, block sizes,
unreadable sectors, and the search for a header in the middle of a file.

A segment holds consecutive offsets from the number in its name; the next segment's number ends it,
and bytes beyond that are ignored. There is no index that could go stale: headers are found from any
byte by their stamp.
"""

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from distributary.core.log.disk import Disk
from distributary.core.log.frame import (
    HEADER_BYTES,
    MAGIC,
    OFFSET_MAX,
    STAMP_AT,
    VERSION,
    Header,
    Run,
    Stop,
    Walk,
    parse_header,
    walk,
    walk_headers,
)

SEGMENT_SUFFIX = ".seg"
SNAPSHOT_SUFFIX = ".routes"
NO_LIMIT = OFFSET_MAX
"""A limit that no offset reaches."""

SEARCH_BYTES = 64 * 1024
"""Block of a search for a header: several dozen records of 1 KB."""

PROBE_BYTES_MAX = 1024 * 1024
"""How far one probe of a binary search looks for a header. Only a larger record can be missed; the
search then begins earlier, and stepping over large records is cheap."""

SECTOR_BYTES = 4096
"""Blocks around an unreadable sector are read in pieces of this size (a page, or a disk sector)."""

STAMP_SEGMENTS_MAX = 8
"""How many segments are read for the partition's stamp before records vote on it."""

VOTE_BYTES_MAX = 4 * 1024 * 1024
"""How much of a segment votes: hundreds of records outvote a few damaged headers."""

_ZEROS = bytes(SEARCH_BYTES)


def offset_name(offset: int, suffix: str) -> str:
    """A file name that sorts as *offset* does."""
    return f"{offset:020d}{suffix}"


def list_offsets(disk: Disk, folder: Path, suffix: str = SEGMENT_SUFFIX) -> list[int]:
    """Return the offsets in the names of files with *suffix*, ascending; ignores other names."""
    stems = (name.removesuffix(suffix) for name in disk.listdir(folder) if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


class Segment:
    """A segment open for reading; close it."""

    __slots__ = ("_disk", "_handle", "_stamp", "first", "folder", "name")

    def __init__(self, disk: Disk, folder: Path, first: int) -> None:
        self.first = first
        self.folder = folder
        self.name = offset_name(first, SEGMENT_SUFFIX)
        self._disk = disk
        self._stamp: int | None = None
        self._handle = disk.open(folder / self.name)

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        if self._handle >= 0:
            self._disk.close(self._handle)
            self._handle = -1

    def size(self) -> int:
        """Length of the file, bytes."""
        return self._disk.size(self._handle)

    def read(self, position: int, length: int) -> bytes:
        """Return bytes from *position*; unreadable sectors read as zeros, which fail all checks."""
        try:
            return self._disk.pread(self._handle, length, position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        stop = min(position + length, self.size())
        pieces: list[bytes] = []
        while position < stop:
            piece = min(SECTOR_BYTES - position % SECTOR_BYTES, stop - position)
            try:
                pieces.append(self._disk.pread(self._handle, piece, position))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                pieces.append(bytes(piece))
            position += piece
        return b"".join(pieces)

    def take(
        self, position: int, offset: int, limit: int, bytes_max: int, *, bodies: bool = True
    ) -> tuple[bytes, Run]:
        """Return a block from *position* and the run of intact records at its start.

        The block is about *bytes_max* long, or as long as one record where that is longer.
        """
        return self.walked(position, offset, limit, bytes_max, walk if bodies else walk_headers)

    def walked(
        self, position: int, offset: int, limit: int, bytes_max: int, walk: Walk
    ) -> tuple[bytes, Run]:
        """As ``take``, by *walk*, which may be called twice for one block."""
        block = self.read(position, max(bytes_max, HEADER_BYTES))
        run = walk(block, offset, limit)
        if run.why == Stop.SHORT and not run.stop and run.need:
            block = self.read(position, run.need)
            run = walk(block, offset, limit)
        return block, run

    def headers(self, position: int, until: int) -> Iterator[tuple[int, Header]]:
        """Yield intact headers from *position* to about *until*, with their positions."""
        stamp = self.stamp()
        if not stamp:
            return  # No segment has a header. Zeros, which one is allocated with, would all match.
        needle = stamp.to_bytes(4, "little")
        while position < until:
            block = self.read(position, SEARCH_BYTES + HEADER_BYTES)
            at = block.find(needle, STAMP_AT)
            while at >= 0:
                start = at - STAMP_AT
                header = parse_header(block, start) if start < SEARCH_BYTES else None
                if header is not None:
                    yield position + start, header
                at = block.find(needle, at + 1)
            position += SEARCH_BYTES

    def resync(self, position: int, run: Run, limit: int) -> tuple[int, Header] | None:
        """Return the next readable record with an offset below *limit*.

        Args:
            position: Where *run* stopped without a single intact record.
            run: Has the expected offset, and whether its header is intact: then the file ends in
                its body, and the search begins behind that header.
            limit: The offset at which the segment ends.
        """
        for place, header in self.headers(position + (run.need > 0), self.size()):
            if run.offset <= header.offset < limit:
                return place, header
        return None

    def seek(self, before: Callable[[Header], bool]) -> tuple[int, int]:
        """Return position and offset of a record, close to the last one for which *before* holds.

        *before* must hold for a prefix of the records and for none after it. Returns the segment's
        beginning if it holds for no probed record.

        A block of zeros counts as the end of what was written: a segment is allocated before it is
        written. Such a block in a body makes the search end earlier, as a very large record does.
        """
        low, offset, high = 0, self.first, self.size()
        while high - low > SEARCH_BYTES:
            middle = (low + high) // 2
            if self._is_allocated_only(middle):
                high = middle
                continue
            found = next(self.headers(middle, min(high, middle + PROBE_BYTES_MAX)), None)
            if found is not None and before(found[1]):
                low, offset = found[0], found[1].offset
            else:
                high = middle
        return low, offset

    def _is_allocated_only(self, position: int) -> bool:
        """Whether a block at *position* has zeros alone."""
        block = self.read(position, SEARCH_BYTES)
        return block == _ZEROS[: len(block)]

    def first_header(self) -> Header | None:
        """Return the first header, or None if it is damaged or not written yet."""
        return parse_header(self.read(0, HEADER_BYTES))

    def stamp(self) -> int:
        """Return the partition's stamp: from a segment's first header, or by a vote."""
        if self._stamp is None:
            self._stamp = self._learn_stamp()
        return self._stamp

    def _learn_stamp(self) -> int:
        own = self.first_header()
        if own is not None:
            return own.stamp
        firsts = [first for first in list_offsets(self._disk, self.folder) if first != self.first]
        firsts.sort(key=lambda first: abs(first - self.first))
        for first in firsts[:STAMP_SEGMENTS_MAX]:
            try:
                other = Segment(self._disk, self.folder, first)
            except FileNotFoundError:  # deleted by retention
                continue
            try:
                header = other.first_header()
            finally:
                other.close()
            if header is not None:
                return header.stamp
        return self._vote()

    def _vote(self) -> int:
        """Return the stamp that most headers of this segment carry; 0 if there is none."""
        block = self.read(0, VOTE_BYTES_MAX)
        votes: Counter[int] = Counter()
        needle = bytes((MAGIC, VERSION))
        at = block.find(needle)
        while at >= 0:
            header = parse_header(block, at)
            if header is not None:
                votes[header.stamp] += 1
            at = block.find(needle, at + 1)
        return votes.most_common(1)[0][0] if votes else 0
