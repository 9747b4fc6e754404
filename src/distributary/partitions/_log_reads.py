"""Reads the log for backfills, through a bounded set of shared readers."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from distributary.core.engine.backfills import Name
from distributary.core.engine.machine import Engine
from distributary.core.flow import Logged
from distributary.core.log import iter_frames
from distributary.partitions._log_thread import LogThread
from distributary.partitions._once import Once
from distributary.partitions.recalls import Kept

CHUNK_BYTES: Final = 64 * 1024
"""Bytes read at once for a backfill: some sixty events. Bounds the memory of a route, and the turn
of the loop."""

JOB_READS: Final = 8
"""Chunks read in one job of the thread, as many as the engine requests in one turn: they wait in
memory until all are read."""


class _Chunk(NamedTuple):
    """What was read for a backfill.

    Attributes:
        name: Of the backfill.
        from_offset: Where it asked for records.
        to_offset: The offset after them.
        records: The records.
    """

    name: Name
    from_offset: int
    to_offset: int
    records: Iterator[Logged]


class LogReads:
    """A pool of readers of the partition, reused by their position.

    Args:
        make: Opens a reader.
        open_max: Most open readers.
        thread: Where reads run; None: where they are requested, which costs some 0.2 ms.
        brought: Called on the loop when a job of the thread has given the engine its records.
        once: Finds the repeats among the records; None: there are none.
    """

    def __init__(
        self,
        make: Callable[[], Kept],
        open_max: int,
        thread: LogThread | None = None,
        brought: Callable[[], None] = lambda: None,
        once: Once | None = None,
    ) -> None:
        self._once = once
        self._make = make
        self._open_max = open_max
        self._thread = thread
        self._brought = brought
        self._busy = False
        self._closing = False
        self._open: list[tuple[int, Kept]] = []  # where each stands; the last was used last
        self._asked: list[tuple[Name, int]] = []

    def ask(self, name: Name, from_offset: int) -> None:
        """Request a read at *from_offset* for the backfill *name*."""
        self._asked.append((name, from_offset))

    def bring(self, engine: Engine) -> bool:
        """Execute the requested reads for *engine*, or begin to.

        Returns:
            Whether it has records now.
        """
        if not self._asked or self._busy:
            return False
        if self._thread is None:
            asked, self._asked = self._asked, []
            for name, from_offset in asked:
                _give(engine, self._read(name, from_offset))
            return True
        asked, self._asked = self._asked[:JOB_READS], self._asked[JOB_READS:]
        found: list[_Chunk] = []

        def read() -> None:
            del found[:]
            found.extend(self._read(*each) for each in asked)

        def take() -> None:
            self._busy = False
            for chunk in found:
                _give(engine, chunk)
            self._brought()

        self._busy = True
        self._thread.run(read, take)
        return False

    def _read(self, name: Name, from_offset: int) -> _Chunk:
        reader, after = self._take(from_offset), from_offset
        try:
            frames, after = reader.read_chunk(from_offset, CHUNK_BYTES)
        finally:
            self._open.append((after, reader))
        records = iter_frames(frames, verify=False)  # verified when it was read
        if self._once is not None and from_offset >= reader.archived_to():
            records = iter(list(self._once.judge(records, from_offset)))  # here: it may look back
        return _Chunk(name, from_offset, after, records)

    def _take(self, from_offset: int) -> Kept:
        for index, (place, _) in enumerate(self._open):
            if place == from_offset:
                return self._open.pop(index)[1]
        if len(self._open) < self._open_max:
            return self._make()
        return self._open.pop(0)[1]

    def close(self) -> None:
        """Close the readers, after a job under way."""
        self._asked.clear()
        if self._thread is None:
            self._close()
        elif (self._open or self._busy) and not self._closing:
            self._closing = True
            self._thread.close(self._close)

    def _close(self) -> None:
        self._closing = False
        for _, reader in self._open:
            reader.close()
        self._open.clear()


def _give(engine: Engine, chunk: _Chunk) -> None:
    engine.log_read(chunk.name, chunk.from_offset, chunk.records, chunk.to_offset)
