"""Files of recalled records: a stretch of one partition, brought back from an archive for a time.

::

    frames of from_offset, from_offset + 1, ... to_offset - 1      as a segment has them
    where each frame begins                                       8 bytes each
    where the archive lacks events: first record, after the last  16 bytes each
    trailer: magic, from_offset, count, bytes of frames, ranges that lack events, checksum

One frame for each offset, so that a record is found without a search. For a record that the archive
does not have (a change of a subscription, an event that a timer made) stands one of the kind
``ABSENT``, and so it does for an event that it ought to have: those are in ranges that lack events,
and a read has a hole there, as it has where the log lost records. The file is a copy: it is not
synced, and checked when it is opened and read.

Callers: the job that recalls, and ``partitions``. Hides: the layout.
"""

import array
import os
import struct
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged
from distributary.core.log.frame import encode_frame, iter_frames

ABSENT: Final = 255
"""Kind of a record that readers pass over: it is not there, or a repeat (``core.log.repeats``).
It is in no log."""

_SUFFIX: Final = ".recalled"
HIDDEN: Final = ".new"
"""Ends the names of files that are not whole."""
_MAGIC: Final = b"recall02"
_TRAILER: Final = struct.Struct("<8sQQQQI")
_PLACE_BYTES: Final = 8
_RANGE_BYTES: Final = 2 * _PLACE_BYTES
_FLUSH_BYTES: Final = 1024 * 1024


class RecalledName(NamedTuple):
    """Which records a file has, ``from_offset <= offset < to_offset``."""

    from_offset: int
    to_offset: int

    def path(self, folder: Path) -> Path:
        """Returns its path in the *folder* of its partition."""
        return folder / f"{self.from_offset:020d}-{self.to_offset:020d}{_SUFFIX}"


def list_recalled(folder: Path) -> list[RecalledName]:
    """Returns the files in *folder*, in order; those that are being written do not count."""
    found = []
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []
    for name in names:
        first, dash, last = name.removesuffix(_SUFFIX).partition("-")
        if name.endswith(_SUFFIX) and dash and first.isdigit() and last.isdigit():
            found.append(RecalledName(int(first), int(last)))
    return sorted(found)


class RecalledWriter:
    """Writes one file; ``finish`` makes it visible as a whole, and without it nothing is.

    Args:
        folder: Of the partition; it exists.
        name: Which records.
    """

    def __init__(self, folder: Path, name: RecalledName) -> None:
        self._path = name.path(folder)
        self._beside = self._path.with_name(f"{self._path.name}.{os.getpid()}{HIDDEN}")
        self._name = name
        self._next = name.from_offset
        self._time_ms = 0
        self._places = array.array("Q")
        self._lost = array.array("Q")
        self._at = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        fd = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "wb", buffering=0)

    def add(self, offset: int, time_ms: int, kind: int, body: bytes) -> None:
        """Add the record at *offset*, which is above that of the last one."""
        assert self._next <= offset < self._name.to_offset
        self._time_ms = time_ms
        if self._next < offset:
            self._fill(offset)
        self._put(kind, body)

    @property
    def next_offset(self) -> int:
        """The record after the last one that was added."""
        return self._next

    def lose(self, from_offset: int, to_offset: int) -> None:
        """Note that of ``from_offset <= offset < to_offset`` events are missing in the archive.

        The range is above the record that was added last.
        """
        assert self._next <= from_offset <= to_offset <= self._name.to_offset
        self._fill(from_offset)
        self._fill(to_offset)
        if from_offset == to_offset:
            return
        if self._lost and self._lost[-1] == from_offset:
            self._lost[-1] = to_offset
        else:
            self._lost.extend((from_offset, to_offset))

    def _fill(self, offset: int) -> None:
        while self._next < offset:
            self._put(ABSENT, b"")

    def _put(self, kind: int, body: bytes) -> None:
        # No stamp: so a record has the same checksum whenever it is recalled.
        frame = encode_frame(kind, body, self._next, self._time_ms, stamp=0)
        self._places.append(self._at)
        self._at += len(frame)
        self._next += 1
        self._pending.append(frame)
        self._pending_bytes += len(frame)
        if self._pending_bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        _write(self._file.fileno(), b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0

    def finish(self) -> None:
        """Write what is left, and make the file visible.

        Raises:
            OSError: It cannot be written.
        """
        self._fill(self._name.to_offset)
        self._flush()
        count = len(self._places)
        places = self._places.tobytes() + self._lost.tobytes()
        ranges = len(self._lost) // 2
        head = _TRAILER.pack(_MAGIC, self._name.from_offset, count, self._at, ranges, 0)[:-4]
        check = zlib.crc32(head, zlib.crc32(places))
        _write(self._file.fileno(), places + head + check.to_bytes(4, "little"))
        self._file.close()
        self._beside.rename(self._path)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._beside.unlink(missing_ok=True)


def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


class Recalled:
    """One file, open for reading; safe from any thread. Closed when nobody refers to it any more.

    Raises:
        LogDamagedError: It is not whole.
        OSError: It cannot be read.
    """

    def __init__(self, folder: Path, name: RecalledName) -> None:
        self.name = name
        self._path = name.path(folder)
        self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self.bytes = os.fstat(self._fd).st_size
        trailer = os.pread(self._fd, _TRAILER.size, max(0, self.bytes - _TRAILER.size))
        if len(trailer) < _TRAILER.size:
            raise self._damaged()
        magic, first, count, frames, ranges, check = _TRAILER.unpack(trailer)
        size = _PLACE_BYTES * count + _RANGE_BYTES * ranges
        if (magic, first, count) != (
            _MAGIC,
            name.from_offset,
            name.to_offset - name.from_offset,
        ) or frames + size + _TRAILER.size != self.bytes:
            raise self._damaged()
        places = os.pread(self._fd, size, frames)
        if zlib.crc32(trailer[:-4], zlib.crc32(places)) != check:
            raise self._damaged()
        self._places = array.array("Q", places[: _PLACE_BYTES * count])
        self._places.append(frames)
        bounds = iter(array.array("Q", places[_PLACE_BYTES * count :]))
        self._lost = list(zip(bounds, bounds, strict=True))

    def lost(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """Returns the parts of ``from_offset <= offset < to_offset`` that lack events.

        Each as its first record and the one after its last, in order. Of these records, some may be
        no events.
        """
        clipped = [(max(first, from_offset), min(end, to_offset)) for first, end in self._lost]
        return [(first, end) for first, end in clipped if first < end]

    def read_chunk(
        self, from_offset: int, bytes_max: int, to_offset: int | None = None
    ) -> tuple[bytes, int]:
        """Returns whole frames from *from_offset* on, verified, and the offset after them.

        Where events are missing there is no frame, and the offset after the hole.

        Args:
            from_offset: One of the file.
            bytes_max: About how long the chunk may be, bytes; at least one record is returned.
            to_offset: Of the first record that is not wanted; None: all are.

        Raises:
            LogDamagedError: They are damaged.
            OSError: They cannot be read.
        """
        end = min(to_offset or self.name.to_offset, self.name.to_offset)
        hole = next(iter(self.lost(from_offset, end)), (end, end))
        if hole[0] == from_offset:
            return b"", hole[1]
        first = from_offset - self.name.from_offset
        begin = self._places[first]
        last = first + 1
        count = hole[0] - self.name.from_offset
        while last < count and self._places[last + 1] - begin <= bytes_max:
            last += 1
        chunk = os.pread(self._fd, self._places[last] - begin, begin)
        if len(chunk) < self._places[last] - begin:
            raise self._damaged()
        for _ in iter_frames(chunk):
            pass  # Verifies it.
        return chunk, self.name.from_offset + last

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields the records that are there of ``from_offset <= offset < to_offset``.

        Raises:
            LogDamagedError, OSError: They cannot be read.
        """
        at, end = from_offset, min(to_offset, self.name.to_offset)
        while at < end:
            chunk, at = self.read_chunk(at, _FLUSH_BYTES, end)
            for logged in iter_frames(chunk, verify=False):
                if logged.kind != ABSENT:
                    yield logged

    def _damaged(self) -> LogDamagedError:
        return LogDamagedError(f"{self._path}: damaged; it is recalled again")
