"""How many deliveries of a counted subscription may still be made: the port, and its values."""

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from distributary.core.journal import DoneKey


class Slot(NamedTuple):
    """The right to deliver one match.

    Attributes:
        key: The match.
        checksum: Of its record: where the log holds another one, it is another match.
    """

    key: DoneKey
    checksum: int


class SlotWish(NamedTuple):
    """A match that asks for its slot.

    Attributes:
        slot: What it asks for.
        events_max: How many deliveries its subscription may make, as its newest revision says.
    """

    slot: Slot
    events_max: int


class Grant(enum.Enum):
    """What came of a wish."""

    HELD = "held"
    """The match holds its slot."""
    WAIT = "wait"
    """All slots are taken; one of them may be free again."""
    USED_UP = "used-up"
    """All deliveries were made, or the subscription is deleted."""


class Quota(Protocol):
    """The counts of all subscriptions with a ``maxevents``, shared by the owners of all partitions.

    Each call is one transaction and blocks. All raise ``StoreError``: then nothing was changed.
    """

    @property
    def exists(self) -> bool:
        """False where nothing was ever counted."""
        ...

    def take(
        self,
        partition: int,
        wishes: Sequence[SlotWish],
        *,
        free: Iterable[Slot] = (),
        resting: Iterable[Slot] = (),
    ) -> list[Grant]:
        """Take slots for matches; before that give some up, and lay some to rest.

        Idempotent: who holds a slot already gets the same one, and it does not rest any more.

        Args:
            partition: Where the matches stand.
            wishes: Who asks, first come first served.
            free: Slots with which no attempt was made.
            resting: Slots of matches whose attempts have all been answered.

        Returns:
            What each wish got.
        """
        ...

    def free(self, partition: int, slots: Iterable[Slot]) -> None:
        """These matches failed for good: their slots are others'. Idempotent.

        Call it before that is made durable: a match that is still open after a crash then
        asks again.
        """
        ...

    def count(self, partition: int, slots: Iterable[Slot]) -> None:
        """These matches were delivered. Idempotent: a slot is counted once.

        Call it once that is durable: until then a crash leaves the slot with its match.
        """
        ...

    def slots(self, partition: int) -> dict[Slot, bool]:
        """The slots that matches of *partition* hold; True for those that rest."""
        ...

    def used_up(self) -> list[str]:
        """Uids of the subscriptions that have made all the deliveries that they may.

        The limit is the one that the last match asked under: compare with the newest revision
        (``delivered``) before ending one whose ``maxevents`` was raised.
        """
        ...

    def delivered(self, uid: str) -> int:
        """How many deliveries of the subscription *uid* were counted, from 0."""
        ...

    def forget(self, *uids: str) -> None:
        """These subscriptions are deleted: no slot of theirs is given out any more."""
        ...
