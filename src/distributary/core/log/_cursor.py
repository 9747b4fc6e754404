"""A forward scan of one partition: returns intact records, skips damage.

Callers: ``reader``. Hides: segment boundaries, concurrent retention, and damage, which is reported
once and skipped.
"""

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from distributary.core.log._segment import NO_LIMIT, Segment, list_offsets
from distributary.core.log.damage import Damage
from distributary.core.log.disk import Disk
from distributary.core.log.frame import Run, Stop, Walk, parse_header, walk, walk_headers

SKIP_BYTES = 64 * 1024
"""Block size for walking from a search result to the wanted record."""


class Cursor:
    """A forward position in a partition; close it.

    Attributes:
        offset: Of the next record, -1 before the first ``seek``. Skipped damage advances it too,
            so it may grow by more than what was returned.
    """

    __slots__ = (
        "_disk",
        "_folder",
        "_following",
        "_note",
        "_partition",
        "_position",
        "_segment",
        "offset",
    )

    def __init__(
        self, disk: Disk, folder: Path, partition: int, note: Callable[[Damage], None]
    ) -> None:
        self.offset = -1
        self._disk = disk
        self._folder = folder
        self._partition = partition
        self._note = note
        self._segment: Segment | None = None
        self._position = 0
        self._following = NO_LIMIT

    def close(self) -> None:
        """Close the open segment; a later ``take`` opens it again."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def seek(self, offset: int, end: int) -> None:
        """Move to record *offset*, or to the oldest retained one where that is later.

        Args:
            offset: The record wanted next, at most *end*.
            end: The durable end; bytes above it are ignored.
        """
        assert offset <= end
        self.offset = wanted = offset
        segment = self._open()
        if segment is None or self.offset <= segment.first:
            return
        self._position, self.offset = segment.seek(lambda header: header.offset < wanted)
        while self.take(wanted, SKIP_BYTES, bodies=False):
            pass

    def take(self, limit: int, bytes_max: int, *, bodies: bool = True) -> bytes:
        """Return intact whole records from ``offset``, all below *limit*; empty if there are none.

        About *bytes_max* bytes, but at least one record where one is left.
        """
        found = self.pass_by(limit, bytes_max, walk if bodies else walk_headers)
        return b"" if found is None else found[0][: found[1]]

    def pass_by(self, limit: int, bytes_max: int, walk: Walk) -> tuple[bytes, int] | None:
        """As ``take``, but return a block that begins with the records, and their length.

        *walk* steps over them. None: there are none.
        """
        while self.offset < limit:
            segment = self._segment
            if segment is None:
                self.seek(self.offset, limit)
                if self._segment is None:
                    return None
                continue
            if self.offset >= self._following:
                self.close()
                continue
            bound = min(limit, self._following)
            block, run = segment.walked(self._position, self.offset, bound, bytes_max, walk)
            if run.stop:
                self._position += run.stop
                self.offset = run.offset
                return block, run.stop
            if not self._follow():
                self._pass(segment, block, run, bound)
        return None

    def origin(self, length: int) -> tuple[str, int]:
        """Return segment and position of the last chunk from ``take``, *length* bytes long."""
        assert self._segment is not None
        return self._segment.name, self._position - length

    def _open(self) -> Segment | None:
        """Open the segment of ``offset`` at its beginning; None if there are no segments."""
        self.close()
        while True:
            firsts = list_offsets(self._disk, self._folder)
            if not firsts:
                return None
            index = max(bisect_right(firsts, self.offset) - 1, 0)
            try:
                self._segment = Segment(self._disk, self._folder, firsts[index])
            except FileNotFoundError:  # deleted by retention: look for the new oldest segment
                continue
            break
        self.offset = max(self.offset, firsts[index])
        self._position = 0
        self._following = firsts[index + 1] if index + 1 < len(firsts) else NO_LIMIT
        return self._segment

    def _follow(self) -> bool:
        """Whether a newer segment exists, which may hold the next record."""
        if self._following != NO_LIMIT:
            return False
        firsts = list_offsets(self._disk, self._folder)
        index = bisect_right(firsts, self._segment.first) if self._segment else 0
        if index >= len(firsts):
            return False
        self._following = firsts[index]
        return True

    def _pass(self, segment: Segment, block: bytes, run: Run, bound: int) -> None:
        """Skip the damage at the current position, and report it."""
        start, offset = self._position, self.offset
        if run.why == Stop.BODY:
            header = parse_header(block)
            assert header is not None
            self._position += run.need
            self.offset += 1
            self._report(segment, offset, start, self._position, header.kind)
            return
        found = segment.resync(start, run, bound)
        if found is not None:
            self._position, self.offset = found[0], found[1].offset
            self._report(segment, offset, start, self._position, None)
            return
        # Nothing below the bound is readable: continue where the next records must begin.
        self.offset = bound
        self._report(segment, offset, start, None, None)
        self.close()

    def _report(
        self, segment: Segment, offset: int, byte_from: int, byte_to: int | None, kind: int | None
    ) -> None:
        self._note(
            Damage(self._partition, offset, self.offset, segment.name, byte_from, byte_to, kind)
        )
