"""Retention: deletes the oldest segments that no reader still needs.

Callers: ``server``, periodically, in a thread of the appending process. Hides: the order of the
steps, which leaves a usable log after a crash at any of them.

Deleted route records still apply to the events that stay, so the routes in force at the cut are
first written to a snapshot beside the log. It is a file and not a record: a record goes to the end
of the log, behind events that must see these routes. Readers that begin at the oldest record read
the snapshot first (``Reader.route_snapshot``).

A snapshot is split into pieces, each a record with the offset of the cut; its stamp, which no
search ever looks for in such a file, is the number of pieces that follow.

The rename of the snapshot moves the beginning of the log to its offset, atomically. This call
deletes the segments before it, or the next one does after a crash.
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
    *keep_from_offset*: the partition may then stay larger than *bytes_max*.

    Args:
        partition_dir: Folder of the partition; its appender may be at work.
        keep_from_offset: The smallest of cursor, backfills and waiting retries.
        bytes_max: Segments together, bytes.
        age_max_s: A segment goes when all its records are older, seconds.
        now_ms: Wall clock, milliseconds.
        snapshot_at_cut: Returns the routes in force below the given offset, of any length; called
            once, before anything is deleted.
        keep_from_again: Returns *keep_from_offset* again, after the snapshot: making one takes
            seconds, in which a reader may have begun in the past. Then the cut is undone and
            nothing is deleted. None: it cannot have changed.
        disk: The disk.

    Raises:
        LogUnavailableError: The disk failed a step; the log is whole, call again later.
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
    """Return how many segments, from the oldest, are to be deleted: at least those before *begun*.

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
    """Write the snapshot as records in a file, with a record's checksums and version."""
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
    """Undo the cut: the segments before it are all still there."""
    disk.unlink(folder / offset_name(cut, SNAPSHOT_SUFFIX))
    disk.fsync_dir(folder)


def _delete(disk: Disk, folder: Path, doomed: list[_Stored], cut: int) -> None:
    """Delete the oldest first, each durably before the next: a crash leaves no gap."""
    for segment in doomed:
        disk.unlink(folder / offset_name(segment.first, SEGMENT_SUFFIX))
        disk.fsync_dir(folder)
    for offset in list_offsets(disk, folder, SNAPSHOT_SUFFIX):
        if offset < cut:
            disk.unlink(folder / offset_name(offset, SNAPSHOT_SUFFIX))
    disk.fsync_dir(folder)
