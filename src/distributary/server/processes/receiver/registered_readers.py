"""What retention holds for registered readers, and what it tells of those that lost something.

What is not known of a reader is taken for the worst: it has read nothing. The bounds of what is
held hold for that, too.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from distributary.core.log.reader_notes import NEVER_MS, ReaderNote, UnreadNote

READERS_S_MAX: Final = 7 * 86400.0
"""How long records are held for a registered reader, and how long it may be silent."""

EVERYBODY: Final = "*"
"""Stands for all readers, where it is not known which there are."""

ALL: Final = 1 << 62
"""Above every offset: nobody holds anything back."""


class Notes(Protocol):
    """Where readers say how far they are."""

    def read(self) -> Mapping[str, ReaderNote]:
        """Returns the readers by name; an ``UnreadNote`` for what is no note.

        Raises:
            OSError: It is not known which readers there are.
        """

    def forget(self, name: str) -> None:
        """Delete the note of a reader.

        Raises:
            OSError: It cannot be deleted.
        """


class RegisteredReaders:
    """The registered readers of a log. Blocking.

    Args:
        notes: Their notes.
        now_ms: Returns the time by which notes and records have an age, wall clock, milliseconds;
            0 while it may be wrong: none is old then.
        log: Takes lines for people.
    """

    def __init__(self, notes: Notes, now_ms: Callable[[], int], log: Any) -> None:
        self._notes = notes
        self._now_ms = now_ms
        self._log = log
        self._told_lost: dict[tuple[str, int], int] = {}
        self._told_unread: set[str] = set()
        self._told_forgotten: dict[str, int] = {}

    def held(self, partition: int, bound: Callable[[int], int]) -> int:
        """Returns from which offset on *partition* is held; forgets readers that are silent.

        Args:
            partition: Its number.
            bound: Returns from where on it may be held at most; gets the time, wall clock in
                milliseconds, before which no record is held.
        """
        since_ms = self._now_ms() - int(READERS_S_MAX * 1000)
        positions = []
        for name, note in self._read().items():
            if note.at_ms < since_ms:
                self._forget(name, note.at_ms)
            else:
                positions.append(note.positions.get(partition, 0))
        return max(min(positions), bound(since_ms)) if positions else ALL

    def _read(self) -> Mapping[str, ReaderNote]:
        """Returns the readers by name; says once of each that cannot be read."""
        try:
            found = self._notes.read()
        except OSError as error:
            found = {EVERYBODY: UnreadNote({}, NEVER_MS, str(error))}
        unread = {name: note for name, note in found.items() if isinstance(note, UnreadNote)}
        for name in sorted(unread.keys() - self._told_unread):
            self._log.warning("reader-unread", reader=name, reason=unread[name].reason)
        self._told_unread = set(unread)
        return found

    def _forget(self, name: str, at_ms: int) -> None:
        if self._told_forgotten.get(name) == at_ms:
            return
        # Its file may belong to somebody else: it holds nothing, deleted or not.
        with contextlib.suppress(OSError):
            self._notes.forget(name)
        self._told_forgotten[name] = at_ms
        self._log.info("reader-forgotten", reader=name)

    def tell(self, partition: int, start: int) -> None:
        """Say which readers have lost records of *partition* below *start*, once for each cut."""
        for name, note in self._read().items():
            if self._told_forgotten.get(name) == note.at_ms:
                continue
            # Where its note cannot be read, nobody knows what it has lost.
            unknown = start if isinstance(note, UnreadNote) else 0
            position = note.positions.get(partition, unknown)
            if position < start and self._told_lost.get((name, partition)) != start:
                self._told_lost[name, partition] = start
                self._log.warning(
                    "reader-lost", reader=name, partition=partition, first=position, last=start - 1
                )
