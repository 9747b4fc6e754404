"""What of a partition's files belongs to a copy that ends at a given offset.

Callers: ``server.backup``. Hides: where in a segment an offset is.

The appender only writes behind the durable end, so everything below is at rest; only retention may
take files away meanwhile, and whoever copies holds it off.
"""

from pathlib import Path
from typing import NamedTuple

from distributary.core.log._end import DurableEnd
from distributary.core.log._segment import (
    NO_LIMIT,
    SEGMENT_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    list_offsets,
    offset_name,
)
from distributary.core.log.disk import SYSTEM_DISK, Disk, unavailable
from distributary.core.log.folder import partition_dir

SCAN_BYTES = 1024 * 1024
"""Block of the search for the end, which reads 64 KiB before it on average."""


class CopiedFile(NamedTuple):
    """A file, and how much of it belongs to the copy.

    Attributes:
        path: The file.
        length: Bytes from its start; what follows is zeros, or later records.
    """

    path: Path
    length: int


def durable_end(log_dir: Path, partition: int, *, disk: Disk = SYSTEM_DISK) -> int:
    """The next offset of *partition*: all records below it are on the medium.

    Raises:
        LogUnavailableError: Nobody has appended to it yet, or it cannot be read.
    """
    end = DurableEnd(disk, partition_dir(log_dir, partition))
    try:
        return end.read()
    finally:
        end.close()


def intact_end(log_dir: Path, partition: int) -> int:
    """The offset behind the last record on the medium, for a log that nobody appends to.

    After a power cut the published end may be older than the records: it is in shared memory.

    Raises:
        LogUnavailableError: The log cannot be read.
    """
    folder = partition_dir(log_dir, partition)
    try:
        firsts = list_offsets(SYSTEM_DISK, folder)
        if not firsts:
            return 0
        segment = Segment(SYSTEM_DISK, folder, firsts[-1])
        try:
            return _end(segment, NO_LIMIT)[1]
        finally:
            segment.close()
    except OSError as error:
        raise unavailable(error, folder, "copy the log in") from error


def files_below(log_dir: Path, partition: int, end: int) -> list[CopiedFile]:
    """The files of *partition* with all records below *end* and none above, oldest first.

    Raises:
        LogUnavailableError: They cannot be read.
    """
    folder = partition_dir(log_dir, partition)
    try:
        firsts = list_offsets(SYSTEM_DISK, folder)
        wanted = [first for first in firsts if first < end] or firsts[:1]
        files: list[CopiedFile] = []
        for first in wanted:
            segment = Segment(SYSTEM_DISK, folder, first)
            try:
                length = (
                    _end(segment, end, bodies=False)[0] if first == wanted[-1] else segment.size()
                )
            finally:
                segment.close()
            files.append(CopiedFile(folder / offset_name(first, SEGMENT_SUFFIX), length))
        for cut in list_offsets(SYSTEM_DISK, folder, SNAPSHOT_SUFFIX):
            path = folder / offset_name(cut, SNAPSHOT_SUFFIX)
            handle = SYSTEM_DISK.open(path)
            try:
                files.append(CopiedFile(path, SYSTEM_DISK.size(handle)))
            finally:
                SYSTEM_DISK.close(handle)
    except OSError as error:
        raise unavailable(error, folder, "copy the log in") from error
    return files


def _end(segment: Segment, limit: int, *, bodies: bool = True) -> tuple[int, int]:
    """(position, offset) behind the last record of *segment* below *limit*, passing damage."""
    position, offset = segment.seek(lambda header: header.offset < limit)
    while offset < limit:
        _, run = segment.take(position, offset, limit, SCAN_BYTES, bodies=bodies)
        if run.stop:
            position += run.stop
            offset = run.offset
            continue
        found = segment.resync(position, run, limit)
        if found is None:
            break
        position, offset = found[0], found[1].offset
    return position, offset
