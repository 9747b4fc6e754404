"""Reads the log for backfills, through a bounded set of shared readers."""

from collections.abc import Callable, Iterator
from typing import Final

from distributary.core.engine.machine import Engine
from distributary.core.flow import Logged
from distributary.core.log import iter_frames
from distributary.partitions.ports import Records

CHUNK_BYTES: Final = 64 * 1024
"""Bytes read at once for a backfill: some sixty events. Bounds the memory of a route, and the turn
of the loop."""


class LogReads:
    """A pool of readers of the partition, reused by their position.

    Args:
        make: Opens a reader.
        open_max: Most open readers.
    """

    def __init__(self, make: Callable[[], Records], open_max: int) -> None:
        self._make = make
        self._open_max = open_max
        self._open: list[tuple[int, Records]] = []  # where each stands; the last was used last
        self._asked: list[tuple[tuple[str, int], int]] = []

    def ask(self, name: tuple[str, int], from_offset: int) -> None:
        """Request a read at *from_offset* for the backfill *name*."""
        self._asked.append((name, from_offset))

    def bring(self, engine: Engine) -> bool:
        """Execute the requested reads for *engine*; False where there were none."""
        asked, self._asked = self._asked, []
        for name, from_offset in asked:
            engine.log_read(name, *self._read(from_offset))
        return bool(asked)

    def _read(self, from_offset: int) -> tuple[Iterator[Logged], int]:
        reader, after = self._take(from_offset), from_offset
        try:
            chunk, after = reader.read_chunk(from_offset, CHUNK_BYTES)
        finally:
            self._open.append((after, reader))
        return iter_frames(chunk, verify=False), after  # verified when it was read

    def _take(self, from_offset: int) -> Records:
        for index, (place, _) in enumerate(self._open):
            if place == from_offset:
                return self._open.pop(index)[1]
        if len(self._open) < self._open_max:
            return self._make()
        return self._open.pop(0)[1]

    def close(self) -> None:
        """Close the readers."""
        for _, reader in self._open:
            reader.close()
        self._open.clear()
