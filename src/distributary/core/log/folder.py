"""The log's folder: format version, number of partitions, and their paths.

::

    {data}/log/FORMAT                        {"format": 3, "partitions": 2}
    {data}/log/p0000/00000000000000000000.seg    records from offset 0
    {data}/log/p0000/00000000000000081920.seg    records from offset 81,920
    {data}/log/p0000/00000000000000081920.routes routes in force below that offset (retention)
    {data}/log/p0000/end                         the durable end, shared memory
    {data}/log/p0000/lock                        held by the appending process
    {data}/log/p0000/spare.tmp                   the next segment, allocated ahead

Callers: ``server`` at start, Spark sources (to count partitions). Hides: the FORMAT file.
"""

import contextlib
import errno
import json
from pathlib import Path
from typing import NamedTuple

from distributary.core.errors import LogDamagedError, LogFormatError
from distributary.core.log._end import END_NAME
from distributary.core.log.disk import SYSTEM_DISK, Disk, unavailable, write_all

FORMAT_VERSION = 3
"""Of the layout above, and of the kinds of records. A folder with a larger number is rejected,
never guessed at; one with a smaller number is upgraded when it is opened, before anything is
written that an older version would skip.

==  ==========================================================================================
1   the first
2   records of kind 6 (``flow.Kind.CARRIED``): an older version would lose their events
3   records in binary form (``event.binary``): likewise
==  ==========================================================================================
"""

FORMAT_NAME = "FORMAT"
FORMAT_BYTES_MAX = 4096
"""Far more than the file ever needs."""

PARTITIONS_MAX = 10_000
"""File names have four digits; each partition needs a task slot, so real numbers are far lower."""


def partition_dir(log_dir: Path, partition: int) -> Path:
    """The folder of *partition*, from 0, in *log_dir*."""
    assert 0 <= partition < PARTITIONS_MAX
    return log_dir / f"p{partition:04d}"


def has_end(log_dir: Path, partition: int) -> bool:
    """Whether an appender has ever opened the partition, so that it can be read."""
    return (partition_dir(log_dir, partition) / END_NAME).exists()


def open_folder(log_dir: Path, partitions: int, *, disk: Disk = SYSTEM_DISK) -> int:
    """Open the log folder, or make one with *partitions* partitions; returns how many it has.

    A log keeps its number: events with one key would move to another partition.

    Args:
        log_dir: ``{data}/log``; made if it is missing.
        partitions: How many partitions a new log gets, from 1.
        disk: The disk.

    Raises:
        LogFormatError: A newer version wrote it: upgrade, or choose another directory.
        LogDamagedError: The FORMAT file is corrupt.
        LogUnavailableError: It cannot be read or made; names the path and the cure.
    """
    assert 1 <= partitions <= PARTITIONS_MAX
    try:
        disk.mkdir(log_dir)
        found = _read(log_dir, disk)
        there = partitions if found is None else found.partitions
        if found is None or found.version < FORMAT_VERSION:
            _write(log_dir, there, disk)
        for partition in range(there):
            disk.mkdir(partition_dir(log_dir, partition))
        # A killed process may have made these names without making them durable.
        disk.fsync_dir(log_dir)
        disk.fsync_dir(log_dir.parent)
        with contextlib.suppress(PermissionError):  # then we did not make the data folder either
            disk.fsync_dir(log_dir.parent.parent)
    except OSError as error:
        raise unavailable(error, log_dir, "open the log folder") from error
    return there


def read_folder(log_dir: Path, *, disk: Disk = SYSTEM_DISK) -> int:
    """How many partitions a log folder has; changes nothing.

    Raises:
        LogFormatError: A newer version wrote it.
        LogDamagedError: The FORMAT file is corrupt.
        LogUnavailableError: There is no log, or it cannot be read.
    """
    try:
        found = _read(log_dir, disk)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no log here", str(log_dir))
    except OSError as error:
        raise unavailable(error, log_dir, "read the log folder") from error
    return found.partitions


class _Format(NamedTuple):
    """The content of a FORMAT file."""

    version: int
    partitions: int


def _read(log_dir: Path, disk: Disk) -> _Format | None:
    path = log_dir / FORMAT_NAME
    try:
        handle = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        text = disk.pread(handle, FORMAT_BYTES_MAX, 0)
    finally:
        disk.close(handle)
    try:
        content = json.loads(text)
        version, partitions = content["format"], content["partitions"]
    except (ValueError, KeyError, TypeError) as error:
        raise _not_format(path) from error
    if not isinstance(version, int) or version < 1:
        raise _not_format(path)
    if version > FORMAT_VERSION:
        raise LogFormatError(
            f"{path} has format {version}, this program knows up to {FORMAT_VERSION}: "
            "upgrade it, or choose another data directory"
        )
    if not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MAX:
        raise _not_format(path)
    return _Format(version, partitions)


def _not_format(path: Path) -> LogDamagedError:
    return LogDamagedError(
        f'{path} is damaged: it should read {{"format": {FORMAT_VERSION}, "partitions": N}} '
        "with N the number of p0000, p0001... folders beside it"
    )


def _write(log_dir: Path, partitions: int, disk: Disk) -> None:
    text = json.dumps({"format": FORMAT_VERSION, "partitions": partitions}) + "\n"
    write_file(disk, log_dir / FORMAT_NAME, text.encode())


def write_file(disk: Disk, path: Path, *parts: bytes) -> None:
    """Replace *path* by *parts*, durably and atomically."""
    draft = path.with_name(path.name + ".tmp")
    handle = disk.open(draft, write=True, create=True)
    try:
        disk.truncate(handle, 0)
        position = 0
        for part in parts:
            write_all(disk, handle, part, position)
            position += len(part)
        disk.fdatasync(handle)
    finally:
        disk.close(handle)
    disk.rename(draft, path)
    disk.fsync_dir(path.parent)
