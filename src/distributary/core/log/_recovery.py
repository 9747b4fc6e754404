"""Recovery: truncates the unacknowledged tail of a partition, keeps and reports damage.

Only the newest segment can be unfinished, and in it only the last commit: each commit is on the
medium before the next one is written, and its first record carries a flag. So a hole followed by a
flagged record is damage to acknowledged records: it is kept and reported. A hole in the last commit
is a torn write that was never acknowledged: all from there on is cut, unless the shared durable end
(which survives the death of a process, though not of the machine) shows that the commit had been
acknowledged.

Callers: ``appender``. Hides: the above.
"""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from distributary.core.log._segment import NO_LIMIT, SEGMENT_SUFFIX, Segment, offset_name
from distributary.core.log.damage import Damage
from distributary.core.log.disk import SPACE_ERRNOS, Disk, write_all
from distributary.core.log.frame import Run, Stop, parse_header

SCAN_BYTES = 1024 * 1024
"""Block of the scan: a segment takes some dozens of reads."""

TIME_MIN = -(2**63)
"""Older than any record."""


class Tail(NamedTuple):
    """The newest segment, ready to be appended to.

    Attributes:
        handle: Open for writing.
        position: Where the next record goes.
        capacity: Bytes allocated.
        next_offset: Of the next record.
        time_ms: Of the newest record, or ``TIME_MIN``.
        stamp: Of the partition, or 0 if no record has been written yet.
        damages: Acknowledged records of this segment that cannot be read.
    """

    handle: int
    position: int
    capacity: int
    next_offset: int
    time_ms: int
    stamp: int
    damages: tuple[Damage, ...]


class _Scan:
    """A pass over the newest segment; ``hint`` is the end that was published, or 0."""

    def __init__(self, segment: Segment, partition: int, hint: int) -> None:
        self.segment = segment
        self.partition = partition
        self.hint = hint
        self.position = 0
        self.offset = segment.first
        self.synced = 0  # position below which everything is known to be on the medium
        self.commit = -1
        self.time_ms = TIME_MIN
        self.holes: list[Damage] = []

    def run(self) -> None:
        """Scan to the last readable record, then drop what was never acknowledged."""
        while self._step():
            pass
        for index, hole in enumerate(self.holes):
            assert hole.to_offset is not None
            if self.commit < hole.to_offset and hole.from_offset >= self.hint:
                self.position, self.offset = hole.byte_from, hole.from_offset
                del self.holes[index:]
                break

    def _step(self) -> bool:
        limit = self.hint if self.offset < self.hint else NO_LIMIT
        block, run = self.segment.take(self.position, self.offset, limit, SCAN_BYTES)
        if not run.stop:
            return self._pass(block, run)
        newest = parse_header(block, run.last)
        assert newest is not None
        self.time_ms = max(self.time_ms, newest.time_ms)
        self.commit = max(self.commit, run.commit)
        self.position += run.stop
        self.offset = run.offset
        if self.offset <= self.hint:
            self.synced = self.position
        return True

    def _pass(self, block: bytes, run: Run) -> bool:
        """Skip a hole; False if no record follows it."""
        start, offset = self.position, self.offset
        kind = None
        if run.why == Stop.BODY:
            header = parse_header(block)
            assert header is not None
            kind = header.kind
            self.commit = max(self.commit, offset if header.flags else -1)
            self.position += run.need
            self.offset += 1
        else:
            found = self.segment.resync(start, run, NO_LIMIT)
            if found is None:
                return False
            self.position, self.offset = found[0], found[1].offset
        name = self.segment.name
        self.holes.append(
            Damage(self.partition, offset, self.offset, name, start, self.position, kind)
        )
        return True


def recover(
    disk: Disk,
    folder: Path,
    *,
    partition: int,
    firsts: list[int],
    hint: int,
    segment_bytes: int,
) -> Tail:
    """Make the newest segment ready to be appended to; what it keeps is then on the medium.

    Args:
        disk: The disk.
        folder: Of the partition.
        partition: Its number.
        firsts: First offsets of its segments, ascending, at least one.
        hint: The durable end that was published, or 0.
        segment_bytes: How long a segment is to be.

    Raises:
        OSError: The disk failed; nothing was lost by it.
    """
    segment = Segment(disk, folder, firsts[-1])
    try:
        scan = _Scan(segment, partition, hint)
        scan.run()
        header = segment.first_header()
        stamp = segment.stamp() if header is None else header.stamp
        dirty_to = _last_byte(segment, scan.position)
    finally:
        segment.close()
    time_ms = scan.time_ms
    if time_ms == TIME_MIN:
        time_ms = newest_time_ms(disk, folder, firsts)
    handle = disk.open(folder / offset_name(firsts[-1], SEGMENT_SUFFIX), write=True)
    try:
        _rewrite(disk, handle, scan.synced, scan.position)
        _wipe(disk, handle, scan.position, dirty_to)
        capacity = _allocate(disk, handle, segment_bytes)
        disk.fdatasync(handle)
    except BaseException:  # close the handle; the error propagates unchanged
        disk.close(handle)
        raise
    damages = tuple(scan.holes)
    return Tail(handle, scan.position, capacity, scan.offset, time_ms, stamp, damages)


def newest_time_ms(disk: Disk, folder: Path, firsts: list[int]) -> int:
    """Time of the newest record before the last segment, or ``TIME_MIN``."""
    for first, following in reversed(list(pairwise(firsts))):
        segment = Segment(disk, folder, first)
        try:
            newest = _segment_time_ms(segment, following)
        finally:
            segment.close()
        if newest != TIME_MIN:
            return newest
    return TIME_MIN


def _segment_time_ms(segment: Segment, following: int) -> int:
    position, offset = segment.seek(lambda header: header.offset < following)
    newest = TIME_MIN
    while True:
        block, run = segment.take(position, offset, following, SCAN_BYTES, bodies=False)
        if not run.stop:
            return newest
        header = parse_header(block, run.last)
        assert header is not None
        newest = header.time_ms
        position += run.stop
        offset = run.offset


def _last_byte(segment: Segment, position: int) -> int:
    """Return the end of the last non-zero byte from *position*; *position* if all are zero."""
    last = position
    size = segment.size()
    zeros = bytes(SCAN_BYTES)
    while position < size:
        block = segment.read(position, SCAN_BYTES)
        if not block:
            break
        if block != zeros[: len(block)]:
            last = position + len(block.rstrip(b"\0"))
        position += len(block)
    return last


def _rewrite(disk: Disk, handle: int, start: int, stop: int) -> None:
    """Rewrite bytes that may be in the page cache alone.

    After a failed fdatasync the kernel marks the pages clean: they read back but are not on the
    medium, and the next fdatasync reports success. Rewriting them makes it report the truth.
    """
    while start < stop:
        block = disk.pread(handle, min(SCAN_BYTES, stop - start), start)
        if not block:
            return
        write_all(disk, handle, block, start)
        start += len(block)


def _wipe(disk: Disk, handle: int, start: int, stop: int) -> None:
    """Zero the cut bytes in place: this needs no space and does not change the file's length."""
    while start < stop:
        length = min(SCAN_BYTES, stop - start)
        write_all(disk, handle, bytes(length), start)
        start += length


def _allocate(disk: Disk, handle: int, segment_bytes: int) -> int:
    """Return the allocated bytes: *segment_bytes*, or the current length if the disk is full."""
    size = disk.size(handle)
    if size >= segment_bytes:
        return size
    try:
        disk.fallocate(handle, segment_bytes)
    except OSError as error:
        if error.errno not in SPACE_ERRNOS:
            raise
        return size
    return segment_bytes
