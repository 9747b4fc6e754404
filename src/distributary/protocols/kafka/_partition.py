"""Tracks the offset that a partition may commit: that of its first unsettled message."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class ConsumedPartition:
    """Unsettled messages of one assigned partition.

    Attributes:
        number: Of the partition.
        done: The offset to commit: all consumed messages below it are settled. None: none consumed.
        unsettled: Messages consumed and not settled.
        ours: False once the partition was revoked; later settlements have no effect.
    """

    number: int
    done: int | None = None
    unsettled: int = 0
    ours: bool = True
    _taken: deque[int] = field(default_factory=deque)
    _settled: set[int] = field(default_factory=set)

    def take(self, offset: int) -> None:
        """Add a consumed message; offsets increase, with gaps.

        The first offset is committed even before it is settled, so a group has a commit from its
        first record on.
        """
        if self.done is None:
            self.done = offset
        self._taken.append(offset)
        self.unsettled += 1

    def settle(self, offset: int) -> None:
        """Settle the message at *offset*, which was added before."""
        self.unsettled -= 1
        self._settled.add(offset)
        while self._taken and self._taken[0] in self._settled:
            self.done = self._taken.popleft() + 1
            self._settled.remove(self.done - 1)
