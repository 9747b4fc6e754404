"""What retention holds for registered readers, and what it tells of those that lost something."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from distributary.core.clock import Clock
from distributary.core.log.reader_notes import ReaderNote

READERS_S_MAX: Final = 7 * 86400.0
"""How long records are held for a registered reader, and how long it may be silent."""

ALL: Final = 1 << 62
"""Above every offset: nobody holds anything back."""


class Notes(Protocol):
    """Where readers say how far they are."""

    def read(self) -> Mapping[str, ReaderNote]:
        """Returns the readers by name."""

    def forget(self, name: str) -> None:
        """Delete the note of a reader."""


class RegisteredReaders:
    """The registered readers of a log. Blocking.

    Args:
        notes: Their notes.
        clock: Gives the age of notes and records.
        log: Takes lines for people.
    """

    def __init__(self, notes: Notes, clock: Clock, log: Any) -> None:
        self._notes = notes
        self._clock = clock
        self._log = log
        self._told_lost: dict[tuple[str, int], int] = {}

    def held(self, partition: int, bound: Callable[[int], int]) -> int:
        """Returns from which offset on *partition* is held; forgets readers that are silent.

        Args:
            partition: Its number.
            bound: Returns from where on it may be held at most; gets the time, wall clock in
                milliseconds, before which no record is held.
        """
        since_ms = self._clock.wall_ms() - int(READERS_S_MAX * 1000)
        positions = []
        for name, note in self._notes.read().items():
            if note.at_ms < since_ms:
                self._notes.forget(name)
                self._log.info("reader-forgotten", reader=name)
            elif partition in note.positions:
                positions.append(note.positions[partition])
        return max(min(positions), bound(since_ms)) if positions else ALL

    def tell(self, partition: int, start: int) -> None:
        """Say which readers have lost records of *partition* below *start*, once for each cut."""
        for name, note in self._notes.read().items():
            position = note.positions.get(partition, start)
            if position < start and self._told_lost.get((name, partition)) != start:
                self._told_lost[name, partition] = start
                self._log.warning(
                    "reader-lost", reader=name, partition=partition, first=position, last=start - 1
                )
