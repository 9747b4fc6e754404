"""Which offset of a partition may be committed: that of the first message that is not settled."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class ConsumedPartition:
    """What was taken of one partition, while it is ours.

    Attributes:
        number: Of the partition.
        done: The offset to commit: everything from the first message taken to before it is settled.
            None: nothing was taken.
        unsettled: Messages taken and not settled.
        ours: False once it was given to another member; what is settled later counts no more.
    """

    number: int
    done: int | None = None
    unsettled: int = 0
    ours: bool = True
    _taken: deque[int] = field(default_factory=deque)
    _settled: set[int] = field(default_factory=set)

    def take(self, offset: int) -> None:
        """Take note of a message; offsets only grow, and may leave some out.

        The first one is where its group has begun, which must stand: one that has committed
        nothing, and begins at the end of a topic, would begin at another end the next time.
        """
        if self.done is None:
            self.done = offset
        self._taken.append(offset)
        self.unsettled += 1

    def settle(self, offset: int) -> None:
        """The message at *offset*, taken before, is done with."""
        self.unsettled -= 1
        self._settled.add(offset)
        while self._taken and self._taken[0] in self._settled:
            self.done = self._taken.popleft() + 1
            self._settled.remove(self.done - 1)
