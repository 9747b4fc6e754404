"""The durable end of one partition, shared by all processes of the machine.

One process appends, many read; readers must never pass what is on the medium. The end (the next
offset) is stored twice in shared memory over a small file, in order. A reader accepts it when both
copies are equal; between the two stores either value is valid, since both were durable.

Recovery does not depend on the file: the appender rebuilds it from the records. If it survives, it
shows what had been acknowledged, and so which records the medium has lost.

Callers: ``appender`` publishes, ``reader`` reads. Hides: the shared memory.
"""

from pathlib import Path

from distributary.core.log.disk import Disk, Words, unavailable
from distributary.core.log.frame import OFFSET_MAX

END_NAME = "end"
"""Name of the file in the partition's folder. It is never replaced: readers have it mapped."""

READ_TRIES_MAX = 64
"""Reads until a reader takes the smaller word: the writer may have died between its stores."""


class DurableEnd:
    """The shared end; close it."""

    __slots__ = ("_words",)

    def __init__(self, disk: Disk, folder: Path, *, write: bool = False) -> None:
        """Map the file of *folder*.

        Raises:
            LogUnavailableError: The file is missing, or cannot be made; the message has the cure.
        """
        path = folder / END_NAME
        try:
            self._words: Words = disk.map_words(path, write=write)
        except OSError as error:
            doing = "create" if write else "read the durable end (start the server once) from"
            raise unavailable(error, path, doing) from error

    def read(self) -> int:
        """Return the next offset: all records below it are durable. 0 before the first appender."""
        words = self._words
        first, second = words[0], words[1]
        for _ in range(READ_TRIES_MAX):
            if first == second:
                return first
            first, second = words[0], words[1]
        return min(first, second)

    def hint(self) -> int:
        """Return what an earlier appender published, or 0 if the words are inconsistent."""
        end = self._words[0]
        return end if end == self._words[1] and end < OFFSET_MAX else 0

    def publish(self, end: int) -> None:
        """Let readers read up to *end*."""
        self._words[0] = end
        self._words[1] = end

    def close(self) -> None:
        """Unmap it."""
        self._words.close()
