"""A recalled file in pieces, as it goes from the job that recalls to an owner on another machine.

::

    0      8         16           24         32    40  48     52
    magic  transfer  from_offset  to_offset  size  at  check  bytes...

Little endian. ``size`` is the length of the file, ``at`` where the bytes of the piece stand in it;
all pieces but the last are ``PIECE_BYTES`` long. ``check`` is the CRC-32 of all else. A *transfer*
is one sending of one file: pieces of two are never mixed.

Pieces may come twice, in any order, or not at all: a file is there once each of its bytes is. What
does not come is asked for again (``partitions.recalls``), so nothing here waits for it.

Callers: the job that recalls, and ``partitions``. Hides: the layout.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from distributary.core.log.recalled import HIDDEN, RecalledName

PIECE_BYTES: Final = 512 * 1024
"""Bytes of a piece: a message of this length is taken by every Kafka topic (1 MiB by default)."""

OPEN_MAX: Final = 4
"""Most files that are put together at a time: one job sends them one after the other, and another
one may do so as well while the lead moves from a node to the next."""

SIZE_MAX: Final = 16 * 1024 * 1024 * 1024
"""Longest file: some are longer than the 64 MiB that a stretch of a topic should have, where its
records had become smaller."""

_MAGIC: Final = b"piece-01"
_HEAD: Final = struct.Struct("<8sQQQQQ")
_CHECK: Final = struct.Struct("<I")
_HEAD_BYTES: Final = _HEAD.size + _CHECK.size


def cut(path: Path, name: RecalledName, transfer: int) -> Iterator[bytes]:
    """Yields the pieces of a file.

    Args:
        path: Of the file.
        name: Which records it has.
        transfer: Number of this sending, below 2^64; no other one has it.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for at in range(0, size, PIECE_BYTES):
            content = os.pread(file.fileno(), min(PIECE_BYTES, size - at), at)
            head = _HEAD.pack(_MAGIC, transfer, *name, size, at)
            check = zlib.crc32(content, zlib.crc32(head))
            yield b"".join((head, _CHECK.pack(check), content))


class _Gathered:
    """A file of which not every piece is there."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._left = set(range(0, size, PIECE_BYTES))
        self._size = size
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)

    def add(self, at: int, content: memoryview) -> bool:
        """Write a piece that fits, once; returns whether the file is whole."""
        if at in self._left and len(content) == min(PIECE_BYTES, self._size - at):
            done = 0
            while done < len(content):
                done += os.pwrite(self._fd, content[done:], at + done)
            self._left.remove(at)
        return not self._left

    def close(self) -> None:
        os.close(self._fd)


class Gatherer:
    """Puts pieces together to files in the folder of their partition. For one thread at a time.

    Args:
        folder: The folder; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[tuple[RecalledName, int, int], _Gathered] = {}

    def take(self, value: bytes | None, wanted: Collection[int]) -> RecalledName | None:
        """Take a piece; what is none, or damaged, is left out.

        Args:
            value: What came, whoever sent it.
            wanted: First records of the files that are wanted: others are left out.

        Returns:
            The file that is whole by it, and there for ``list_recalled`` now; None: there is none.

        Raises:
            OSError: The folder takes nothing: what there is of this file is gone.
        """
        if value is None or len(value) < _HEAD_BYTES:
            return None
        magic, transfer, first, last, size, at = _HEAD.unpack_from(value)
        content = memoryview(value)[_HEAD_BYTES:]
        (check,) = _CHECK.unpack_from(value, _HEAD.size)
        whole = check == zlib.crc32(content, zlib.crc32(value[: _HEAD.size]))
        if magic != _MAGIC or not whole or size > SIZE_MAX:
            return None
        name = RecalledName(first, last)
        if first not in wanted or name.path(self._folder).exists():
            return None
        key = name, transfer, size
        try:
            if not self._of(key).add(at, content):
                return None
        except OSError:
            self._drop(key)
            raise
        gathered = self._open.pop(key)
        gathered.close()
        gathered.path.rename(name.path(self._folder))
        for other in [each for each in self._open if each[0] == name]:
            self._drop(other)  # of a sending that was cut off
        return name

    def _of(self, key: tuple[RecalledName, int, int]) -> _Gathered:
        if key not in self._open:
            while len(self._open) >= OPEN_MAX:
                self._drop(next(iter(self._open)))
            name, transfer, size = key
            path = name.path(self._folder)
            beside = path.with_name(f"{path.name}.{transfer:016x}{HIDDEN}")
            self._open[key] = _Gathered(beside, size)
        return self._open[key]

    def _drop(self, key: tuple[RecalledName, int, int]) -> None:
        gathered = self._open.pop(key, None)
        if gathered is not None:
            gathered.close()
            with contextlib.suppress(OSError):
                gathered.path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget what is not whole: its other pieces do not come any more."""
        for key in list(self._open):
            self._drop(key)
