"""Counts that the receivers of a server share, so that limits hold over all of them.

Each receiver writes its own row of a file in shared memory and reads those of the others. A row has
the number of connections, watches and proxied requests, and counts by name: two slots a name,
chosen by a keyed hash. The lesser of the two is the name's count, or more where other names fall
into both slots.
"""

import enum
from pathlib import Path
from typing import Final

from distributary.datadir._shared_rows import SLOTS, SharedRows, make_rows


class NodeCount(enum.IntEnum):
    """What is counted over all receivers."""

    CONNECTIONS = 0
    WATCHES = 1
    RELAYS = 2


class NamedCount(enum.IntEnum):
    """What is counted over all receivers by a name."""

    CONNECTIONS = 0
    """By the address of the client."""
    WATCHES = 1
    """By whose share the sender takes, as all that follow."""
    RELAYS = 2


_WORDS: Final = len(NodeCount) + len(NamedCount) * 2 * SLOTS


def make_node_counts(path: Path, receivers: int) -> None:
    """Create the file for *receivers* receivers, none of which counts anything yet.

    Raises:
        OSError: It cannot be written.
    """
    make_rows(path, receivers, _WORDS)


class NodeCounts:
    """One receiver's view: writes its own counts, reads those of the others.

    A count is visible to the others before they are read, so two receivers never both take the
    last place.

    Args:
        path: File of ``make_node_counts``; None: there is no other receiver.
        number: Number of this receiver. Its row begins at zero.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path | None = None, number: int = 0) -> None:
        self._rows = SharedRows(path, number, _WORDS)
        self._own, self._others = self._rows.own, self._rows.others
        # Gauges: an earlier process holds nothing any more.
        self._own[:] = memoryview(bytes(self._own.nbytes)).cast("I")

    @property
    def alone(self) -> bool:
        """Whether there is no other receiver."""
        return not self._others

    def add(self, count: NodeCount, step: int) -> None:
        """Change this receiver's *count* by *step*."""
        self._own[count] += step

    def own(self, count: NodeCount) -> int:
        """Returns this receiver's *count*."""
        return self._own[count]

    def elsewhere(self, count: NodeCount) -> int:
        """Returns the sum of *count* over the other receivers."""
        total = 0
        for row in self._others:
            total += row[count]
        return total

    def least_elsewhere(self, count: NodeCount) -> int:
        """Returns the least *count* of another receiver; 0 where there is none."""
        return min((row[count] for row in self._others), default=0)

    def add_named(self, count: NamedCount, name: str, step: int) -> None:
        """Change this receiver's *count* of *name* by *step*."""
        if self._others:
            for slot in self._slots(count, name):
                self._own[slot] += step

    def named_elsewhere(self, count: NamedCount, name: str) -> int:
        """Returns the *count* of *name* at the other receivers, or more."""
        if not self._others:
            return 0
        first, second = self._slots(count, name)
        return min(
            sum(row[first] for row in self._others), sum(row[second] for row in self._others)
        )

    def _slots(self, count: NamedCount, name: str) -> tuple[int, int]:
        first, second = self._rows.slots(name)
        begin = len(NodeCount) + count * 2 * SLOTS
        return begin + first, begin + second
