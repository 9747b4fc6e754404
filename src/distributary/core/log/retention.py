"""Giving disk space back: whole old segments go, never a record that somebody still needs.

Callers: ``server``, now and then, in a thread of the appending process. Hides: the order of the
steps, which leaves a usable log wherever a crash interrupts them.

The route records in what is deleted still decide about the events that stay. So the routes that
stand at the cut are written beside the log first. They are a file of their own and not a record:
a record goes to the end of the log, behind events that must see these routes. Readers that begin at
the oldest record read the snapshot first (``Reader.route_snapshot``).

A snapshot is as long as the routes need. It is cut into pieces, each a record with the offset of
the cut; its stamp, which no search ever looks for in such a file, tells how many follow it.

The snapshot's appearance moves the beginning of the log to its offset, at one stroke. The segments
before it are then rubbish: this call deletes them, or the next one does after a crash.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from distributary.core.flow import RecordKind
from distributary.core.log._segment import (
    SEGMENT_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    list_offsets,
    offset_name,
)
from distributary.core.log.disk import SYSTEM_DISK, Disk, unavailable
from distributary.core.log.folder import write_file
from distributary.core.log.frame import SNAPSHOT_PIECE_BYTES, encode_frame


@dataclass(frozen=True, slots=True)
class Retained:
    """What ``retain`` did.

    Attributes:
        start: Offset of the oldest record that is left.
        segment_count: Segments deleted.
        freed_bytes: Their length, bytes.
    """

    start: int
    segment_count: int
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class _Stored:
    first: int
    size: int
    begun_ms: int | None


def retain(
    partition_dir: Path,
    keep_from_offset: int,
    *,
    bytes_max: int,
    age_max_s: float,
    now_ms: int,
    snapshot_at_cut: Callable[[int], bytes],
    keep_from_again: Callable[[], int] | None = None,
    disk: Disk = SYSTEM_DISK,
) -> Retained:
    """Delete the oldest segments while the partition is too large or they are too old.

    The newest segment always stays, and so does every segment with a record at or above
    *keep_from_offset*: then the partition may stay larger than asked.

    Args:
        partition_dir: Folder of the partition; its appender may be at work.
        keep_from_offset: The smallest of cursor, backfills and waiting retries.
        bytes_max: Segments together, bytes.
        age_max_s: A segment goes when all its records are older, seconds.
        now_ms: Wall clock, milliseconds.
        snapshot_at_cut: The routes that stand before the given offset, however many bytes; called
            once, before anything is deleted.
        keep_from_again: Asked for *keep_from_offset* once more when the snapshot stands: making
            one takes seconds, and somebody may have begun in the past meanwhile. Then the cut is
            taken back and nothing is deleted. None: it cannot have changed.
        disk: The disk.

    Raises:
        LogUnavailableError: The disk refused a step; the log is whole, call again later.
    """
    try:
        stored = _stored(disk, partition_dir)
        if not stored:
            return Retained(0, 0, 0)
        begun = max([0, *list_offsets(disk, partition_dir, SNAPSHOT_SUFFIX)])
        oldest_ms = now_ms - int(age_max_s * 1000)
        doomed = _doomed(stored, begun, keep_from_offset, bytes_max, oldest_ms)
        cut = max(stored[doomed].first, begun)
        if cut > begun and doomed:
            _write_snapshot(disk, partition_dir, cut, now_ms, snapshot_at_cut(cut))
            if keep_from_again is not None and keep_from_again() < cut:
                _take_back(disk, partition_dir, cut)
                return Retained(max(stored[0].first, begun), 0, 0)
        if doomed:
            _delete(disk, partition_dir, stored[:doomed], cut)
    except OSError as error:
        raise unavailable(error, partition_dir, "delete old segments of") from error
    return Retained(cut, doomed, sum(segment.size for segment in stored[:doomed]))


def _stored(disk: Disk, folder: Path) -> list[_Stored]:
    stored: list[_Stored] = []
    for first in list_offsets(disk, folder):
        segment = Segment(disk, folder, first)
        try:
            header = segment.first_header()
            begun_ms = None if header is None else header.time_ms
            stored.append(_Stored(first, segment.size(), begun_ms))
        finally:
            segment.close()
    return stored


def _doomed(
    stored: list[_Stored], begun: int, keep_from_offset: int, bytes_max: int, oldest_ms: int
) -> int:
    """How many segments, from the oldest, are to go: those before *begun* in any case.

    A segment is as old as the beginning of the next one, which is no older than its last record.
    """
    size = sum(segment.size for segment in stored)
    for index, (segment, following) in enumerate(pairwise(stored)):
        old = following.begun_ms is not None and following.begun_ms < oldest_ms
        wanted = following.first <= keep_from_offset and (old or size > bytes_max)
        if following.first > begun and not wanted:
            return index
        size -= segment.size
    return max(len(stored) - 1, 0)


def _write_snapshot(disk: Disk, folder: Path, cut: int, now_ms: int, routes: bytes) -> None:
    """Records in a file of their own: so they have the record's checksums and version."""
    starts = range(0, max(len(routes), 1), SNAPSHOT_PIECE_BYTES)
    pieces = [
        encode_frame(
            RecordKind.ROUTE_SNAPSHOT,
            routes[start : start + SNAPSHOT_PIECE_BYTES],
            cut,
            now_ms,
            stamp=len(starts) - number,
        )
        for number, start in enumerate(starts, 1)
    ]
    write_file(disk, folder / offset_name(cut, SNAPSHOT_SUFFIX), *pieces)


def _take_back(disk: Disk, folder: Path, cut: int) -> None:
    """The log begins again where it began: the segments before the cut are all there."""
    disk.unlink(folder / offset_name(cut, SNAPSHOT_SUFFIX))
    disk.fsync_dir(folder)


def _delete(disk: Disk, folder: Path, doomed: list[_Stored], cut: int) -> None:
    """Oldest first, each gone for good before the next: a crash leaves no gap in the middle."""
    for segment in doomed:
        disk.unlink(folder / offset_name(segment.first, SEGMENT_SUFFIX))
        disk.fsync_dir(folder)
    for offset in list_offsets(disk, folder, SNAPSHOT_SUFFIX):
        if offset < cut:
            disk.unlink(folder / offset_name(offset, SNAPSHOT_SUFFIX))
    disk.fsync_dir(folder)
