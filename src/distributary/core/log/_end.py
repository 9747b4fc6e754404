"""The durable end of one partition, shared by all processes of the machine.

One process appends, many read; the readers must never pass what is on the medium. The end (the
next offset) stands twice in shared memory over a small file, written in order. A reader believes
it when both are equal; between the two stores either value is true, since both were durable.

Nothing depends on the file after a crash: the appender rebuilds it from the records. Where it
survives it tells what had been acknowledged, which shows records that the medium has lost.

Callers: ``appender`` publishes, ``reader`` reads. Hides: the shared memory.
"""

from pathlib import Path

from distributary.core.log.disk import Disk, Words, unavailable
from distributary.core.log.frame import OFFSET_MAX

END_NAME = "end"
"""Name of the file in the partition's folder. It is never replaced: readers have it mapped."""

READ_TRIES_MAX = 64
"""Looks until a reader takes the smaller word: the writer may have died between its stores."""


class DurableEnd:
    """The shared end; close it."""

    __slots__ = ("_words",)

    def __init__(self, disk: Disk, folder: Path, *, write: bool = False) -> None:
        """Map the file of *folder*.

        Raises:
            LogUnavailableError: There is none yet, or it cannot be made; says what to do.
        """
        path = folder / END_NAME
        try:
            self._words: Words = disk.map_words(path, write=write)
        except OSError as error:
            doing = "create" if write else "read the durable end (start the server once) from"
            raise unavailable(error, path, doing) from error

    def read(self) -> int:
        """The next offset: every record below it is durable. 0 before an appender was here."""
        words = self._words
        first, second = words[0], words[1]
        for _ in range(READ_TRIES_MAX):
            if first == second:
                return first
            first, second = words[0], words[1]
        return min(first, second)

    def hint(self) -> int:
        """What an earlier appender published, or 0 where the words make no sense."""
        end = self._words[0]
        return end if end == self._words[1] and end < OFFSET_MAX else 0

    def publish(self, end: int) -> None:
        """Let readers go up to *end*."""
        self._words[0] = end
        self._words[1] = end

    def close(self) -> None:
        """Unmap it."""
        self._words.close()
