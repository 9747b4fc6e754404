"""Files of the history in memory: those hidden and those published, which outlive an owner."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey
from distributary.core.journal_frames import HistoryBlock
from distributary.history.names import HistoryFile
from distributary.history.rows import OUTCOMES, decode

__all__ = ["SimulatedHistory"]


LEAP = 1 << 30
"""The rows of each owner of a journal in a file begin at another multiple of this."""
SECONDS_MAX = 120
"""Within this time the last rows are in files, however slow the medium is."""


class SimulatedHistory:
    """As ``history.writer.HistoryWriter``, for one partition.

    Attributes:
        failing: Refuse everything, as a full disk does.
        published: Files that readers see, each with its rows: the key of the match, and the
            outcome, if it has one.
    """

    def __init__(self) -> None:
        self.failing = False
        self.published: dict[HistoryFile, list[tuple[DoneKey, str | None]]] = {}
        self._hidden: dict[HistoryFile, list[tuple[DoneKey, str | None]]] = {}

    def write(self, blocks: Sequence[HistoryBlock]) -> list[HistoryFile]:
        """Keep the rows of *blocks* hidden."""
        self._touch()
        files = []
        for _, run in groupby(blocks, lambda block: block.first // LEAP):
            own = list(run)
            rows = [row for block in own for row in _rows(block)]
            file = HistoryFile("2026-01-01", 0, own[0].first, own[-1].end)
            assert len(rows) == file.end - file.first, "rows and their numbers differ"
            self._hidden[file] = rows
            files.append(file)
        return files

    def publish(self, files: Sequence[HistoryFile]) -> int:
        """Show hidden *files*; returns the number of rows that have vanished."""
        lost = 0
        for file in files:
            self._touch()
            if file in self._hidden:
                self.published[file] = self._hidden.pop(file)
            elif file not in self.published:
                lost += file.end - file.first
        return lost

    def vanish(self) -> None:
        """Lose what is hidden, as where somebody deletes the folder."""
        self._hidden.clear()

    def recover(self, filed: int) -> None:
        """Show or delete what a crash left hidden."""
        self._touch()
        for file in list(self._hidden):
            if file.end <= filed:
                self.published[file] = self._hidden.pop(file)
            else:
                del self._hidden[file]

    def _touch(self) -> None:
        if self.failing:
            raise StoreError("the disk is full")

    def complete(self, ended: set[DoneKey], advance: Callable[[float], None]) -> None:
        """Let time pass until the history has the outcome of each match in *ended*."""
        waited = 0
        while missing := ended - self.ended():
            assert waited < SECONDS_MAX, f"the history has no outcome of {missing}"
            waited += 1
            advance(1.0)

    def ended(self) -> set[DoneKey]:
        """Matches of which a published row has the outcome; every row is in one file."""
        at = 0
        found: set[DoneKey] = set()
        for file in sorted(self.published):
            leaps = file.first > at and file.first % LEAP == 0
            assert leaps or file.first == at, f"rows {at} to {file.first} are missing, or twice"
            at = file.end
            found.update(key for key, outcome in self.published[file] if outcome)
        return found


def _rows(block: HistoryBlock) -> Iterator[tuple[DoneKey, str | None]]:
    found = decode(block.rows).in_full()
    for row in found.rows:
        event = found.events[row.event]
        key = DoneKey(event.offset, event.index, found.routes[row.route][0])
        yield key, OUTCOMES[row.outcome]
