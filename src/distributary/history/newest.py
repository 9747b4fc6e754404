"""The newest attempts of one route: from what files do not hold yet, then file by file backwards.

Called for one subscription at a time, by people. A route that gets an event a month among a million
others is not looked for in all of the history: a question looks at so many rows and files, and
says how far back it has come.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from distributary.core.flow import Position
from distributary.core.journal_frames import HistoryBlock
from distributary.history.attempts import (
    COLUMNS,
    EventRow,
    opened,
    row_in,
    row_of,
    with_plain_times,
)
from distributary.history.folder import StoredFile
from distributary.history.local_folder import LocalFolder
from distributary.history.names import superseded
from distributary.history.rows import decode

ROWS_LOOKED_MAX: Final = 2_000_000
"""Rows of files whose route is looked at by one question: some 50 ms."""
FILES_LOOKED_MAX: Final = 100
"""Files that it opens: 1.5 ms each."""
_EVENT: Final = ("offset", "index", "event_id", "event_source", "event_type")


class Attempted(NamedTuple):
    """An attempt, and the event that was sent.

    Attributes:
        position: Of the event.
        id: Of the event; None: unknown. So are the others.
        source: Likewise.
        type: Likewise.
        row: The attempt.
    """

    position: Position
    id: str | None
    source: str | None
    type: str | None
    row: EventRow


class Newest(NamedTuple):
    """Attempts of a route, the newest first.

    Attributes:
        items: Them.
        looked_ms: All later ones have been looked at, wall clock, milliseconds; None: all there
            are, or as many as were asked for.
    """

    items: list[Attempted]
    looked_ms: int | None


class NewestRows:
    """Reads the newest attempts of single routes. Safe from any thread.

    Args:
        folders: Local folders with history files; one may be missing.
        waiting: Returns the rows of a partition that files may not hold yet.
    """

    def __init__(
        self, folders: Sequence[Path], waiting: Callable[[int], Sequence[HistoryBlock]]
    ) -> None:
        self._folders = [LocalFolder(folder) for folder in folders]
        self._waiting = waiting

    def of(self, uid: str, partitions: int, limit: int) -> Newest:
        """The newest attempts of the route *uid*, at most *limit*.

        Raises:
            OSError: A folder cannot be read.
            StoreError: What owners keep cannot be read.
        """
        # What waits first: a row that is filed meanwhile is in one of the two.
        blocks = [self._waiting(number) for number in range(partitions)]
        files = self._files()
        found: list[Attempted] = []
        looked: list[int] = []
        for number in range(partitions):
            mine = [(place, each) for place, each in files if each.file.partition == number]
            look = _Look(uid, number, limit, partitions)
            look.blocks(blocks[number])
            left_ms = look.files(self._folders, mine)
            found += look.found.values()
            if left_ms is not None:
                looked.append(left_ms)
        found.sort(key=lambda each: (each.row.time_ms, each.row.number), reverse=True)
        looked_ms = max(looked, default=None)
        if len(found) >= limit:
            found = found[:limit]
            if looked_ms is not None and looked_ms <= found[-1].row.time_ms:
                looked_ms = None
        return Newest(found, looked_ms)

    def _files(self) -> list[tuple[int, StoredFile]]:
        """The files, the newest of each partition first, with the places of their folders."""
        found: list[tuple[int, StoredFile]] = []
        for place, folder in enumerate(self._folders):
            stored = folder.files()
            gone = set(superseded([each.file for each in stored]))
            found += [(place, each) for each in stored if each.file not in gone]
        return sorted(found, key=lambda each: each[1].file.end, reverse=True)


class _Look:
    """One question, in one partition."""

    def __init__(self, uid: str, partition: int, limit: int, shares: int) -> None:
        self._uid = uid
        self._partition = partition
        self._limit = limit
        self._rows_left = ROWS_LOOKED_MAX // shares
        self._files_left = max(FILES_LOOKED_MAX // shares, 1)
        self.found: dict[int, Attempted] = {}

    @property
    def _full(self) -> bool:
        return len(self.found) >= self._limit

    def blocks(self, blocks: Sequence[HistoryBlock]) -> None:
        """Look at *blocks*, which follow one another."""
        for each in reversed(blocks):
            if self._full:
                return
            packed = decode(each.rows)
            if self._uid not in {route[0] for route in packed.routes}:
                continue
            block = packed.in_full()
            for number, row in enumerate(block.rows, each.first):
                if block.routes[row.route][0] == self._uid and row.attempt is not None:
                    event = block.events[row.event]
                    place = Position(self._partition, event.offset, event.index)
                    told = row_in(block, number, row)
                    self.found[number] = Attempted(place, event.id, event.source, event.type, told)

    def files(
        self, folders: Sequence[LocalFolder], files: Sequence[tuple[int, StoredFile]]
    ) -> int | None:
        """Look at *files*, the newest first; returns how far it came where it did not see all."""
        for place, each in files:
            if self._full:
                return None  # What is left is older than what was found.
            if self._rows_left <= 0 or self._files_left <= 0:
                return int(each.modified_s * 1000)  # it has no later row
            self._files_left -= 1
            try:
                for row in self._of_file(folders[place].path(each.file)):
                    self.found[row.row.number] = row
            except FileNotFoundError:
                continue  # merged just now: the larger file is met by the next question
        return None

    def _of_file(self, path: Path) -> Iterator[Attempted]:
        import pyarrow as pa  # noqa: PLC0415 - as in ``attempts``
        import pyarrow.compute as pc  # noqa: PLC0415 - likewise

        wanted = _text(self._uid)
        try:
            with opened(path) as file:
                columns = [name for name in COLUMNS if name in file.schema_arrow.names]
                for group in reversed(range(file.num_row_groups)):
                    if self._full:
                        return
                    uids = file.read_row_group(group, columns=["uid"], use_threads=False)
                    self._rows_left -= len(uids)
                    places = pc.indices_nonzero(pc.is_in(uids.column(0), value_set=wanted))
                    if len(places):
                        rows = file.read_row_group(
                            group, columns=[*columns, *_EVENT], use_threads=False
                        ).take(places[-self._limit :])
                        for values in with_plain_times(rows).to_pylist():
                            yield from self._attempted(values)
        except pa.ArrowException:
            return  # damaged: reported by who merges it

    def _attempted(self, values: dict[str, Any]) -> Iterator[Attempted]:
        if values["attempt"] is not None:
            place = Position(self._partition, values["offset"], values["index"])
            names = values["event_id"], values["event_source"], values["event_type"]
            yield Attempted(place, *names, row_of(values))


def _text(value: str) -> Any:
    """An array of one text. For one of Python Arrow loads pandas, as for a number."""
    import pyarrow as pa  # noqa: PLC0415 - as in ``attempts``

    content = value.encode()
    ends = (0).to_bytes(4, sys.byteorder) + len(content).to_bytes(4, sys.byteorder)
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(content)])
