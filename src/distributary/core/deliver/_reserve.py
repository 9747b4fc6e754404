"""What idle queues may hold beyond the parts of their tenants, and those that wait for room in it.

Called by ``_shared``, ``_dispatcher`` and the queues. A queue with nothing in it gets no answer
that would tell its caller of room, so it is told from here once the bytes of other queues fall.
"""

from collections.abc import Collection
from itertools import islice
from typing import Final, Protocol

from distributary.core.deliver._timers import Soon, Timers

TENANTS_TOLD_MAX: Final = 64
"""Tenants whose queues are told of room in one turn of the loop; the others follow."""
TELL_AGAIN_S: Final = 0.05
"""Pause before more queues are told of room: by then the first have used it, also where their
events are read first."""


class Holder(Protocol):
    """The queues of one tenant."""

    @property
    def excess_bytes(self) -> int:
        """Bytes that they hold beyond their tenant's part."""

    def tell_starved(self, free_bytes: int) -> bool:
        """Tell idle queues that were refused and have room now; True if there were some."""

    @property
    def starves(self) -> bool:
        """Whether some still wait."""


class Reserve:
    """The bytes that idle queues of all tenants may hold together beyond their tenants' parts.

    Args:
        bytes_max: Its size.
        timers: For telling, never from inside a call of a queue.
        holders: All tenants, a view that follows them.
    """

    __slots__ = ("_bytes_max", "_holders", "_looked", "_tell", "starving")

    def __init__(self, bytes_max: int, timers: Timers, holders: Collection[Holder]) -> None:
        self._bytes_max = bytes_max
        self._holders = holders
        self._looked = 0  # tenants since one was told
        self._tell = Soon(timers, self._tell_starved)
        self.starving: dict[Holder, None] = {}
        """Tenants with idle queues that were refused, in turn."""

    def free_bytes(self) -> int:
        """What is left of it; 0 where all is taken, or more since parts have become smaller."""
        return max(0, self._bytes_max - sum(holder.excess_bytes for holder in self._holders))

    def fell(self) -> None:
        """Tell those that wait, soon: bytes have fallen, or a part has grown."""
        if self.starving:
            self._looked = 0
            self._tell.ask()

    def tell_later(self) -> None:
        """Tell those that wait after a pause: there may be room that those told do not use."""
        self._tell.ask(TELL_AGAIN_S)

    def _tell_starved(self) -> None:
        free_bytes, told = self.free_bytes(), False
        looked = list(islice(self.starving, TENANTS_TOLD_MAX))
        for holder in looked:
            del self.starving[holder]
            told |= holder.tell_starved(free_bytes)
            if holder.starves:
                self.starving[holder] = None
        self._looked = 0 if told else self._looked + len(looked)
        if self._looked < len(self.starving):  # else nobody has room, in a whole round
            self.tell_later()
