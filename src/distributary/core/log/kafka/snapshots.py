"""Where the routes are kept that were in force at the beginning of each partition.

Route records stand in the same order in every partition, so a route table is told by the number of
its last change: one snapshot serves every partition, and a *cut* says which one a partition begins
with. Both are durable before the records below the cut are deleted.
"""

from typing import NamedTuple, Protocol


class Cut(NamedTuple):
    """Where a partition begins.

    Attributes:
        offset: Of the first record that counts; older ones may still be there.
        seq: Number of the last route change below it; 0: there is none.
    """

    offset: int
    seq: int


class Snapshots(Protocol):
    """Keeps route snapshots by number, and a cut for each partition.

    Every call blocks, and raises ``StoreError`` where the store does not answer or, for a change,
    where another node leads.
    """

    def cut(self, partition: int) -> Cut | None:
        """Returns where *partition* begins; None: with its first record."""

    def get(self, seq: int) -> bytes | None:
        """Returns the routes after change *seq*; None: they are not kept."""

    def put(self, partition: int, cut: Cut, snapshot: bytes) -> None:
        """Keep the routes of *cut*, and that *partition* begins there: both or neither, durably."""

    def put_back(self, partition: int, cut: Cut | None) -> None:
        """Undo a ``put``: *partition* begins at *cut* again, whose routes are still kept."""

    def prune(self) -> None:
        """Delete the snapshots that no partition begins with."""


class MemorySnapshots:
    """Snapshots of one process: for tests, and what others must do."""

    def __init__(self) -> None:
        self._cuts: dict[int, Cut] = {}
        self._snapshots: dict[int, bytes] = {}

    def cut(self, partition: int) -> Cut | None:
        """See ``Snapshots``."""
        return self._cuts.get(partition)

    def get(self, seq: int) -> bytes | None:
        """See ``Snapshots``."""
        return self._snapshots.get(seq)

    def put(self, partition: int, cut: Cut, snapshot: bytes) -> None:
        """See ``Snapshots``."""
        self._snapshots[cut.seq] = snapshot
        self._cuts[partition] = cut

    def put_back(self, partition: int, cut: Cut | None) -> None:
        """See ``Snapshots``."""
        if cut is None:
            self._cuts.pop(partition, None)
        else:
            self._cuts[partition] = cut

    def prune(self) -> None:
        """See ``Snapshots``."""
        for seq in self._snapshots.keys() - {each.seq for each in self._cuts.values()}:
            del self._snapshots[seq]
