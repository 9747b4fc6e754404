"""How many deliveries of a counted subscription may still be made: the port, and its values."""

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from distributary.core.flow import DoneKey


class Reservation(NamedTuple):
    """The right to deliver one match.

    Attributes:
        key: The match.
        checksum: Of its record: where the log holds another one, it is another match.
    """

    key: DoneKey
    checksum: int


class QuotaRequest(NamedTuple):
    """A match that asks for its reservation.

    Attributes:
        reservation: What it asks for.
        events_max: How many deliveries its subscription may make, as its newest revision says.
    """

    reservation: Reservation
    events_max: int


class Grant(enum.Enum):
    """What came of a request."""

    HELD = "held"
    """The match holds its reservation."""
    WAIT = "wait"
    """All reservations are taken; one of them may be free again."""
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
        requests: Sequence[QuotaRequest],
        *,
        free: Iterable[Reservation] = (),
        resting: Iterable[Reservation] = (),
    ) -> list[Grant]:
        """Take reservations for matches; before that give some up, and lay some to rest.

        Idempotent: who holds a reservation already gets the same one, and it does not rest any
            more.

        Args:
            partition: Where the matches stand.
            requests: Who asks, first come first served.
            free: Reservations with which no attempt was made.
            resting: Reservations of matches whose attempts have all been answered.

        Returns:
            What each request got.
        """
        ...

    def free(self, partition: int, reservations: Iterable[Reservation]) -> None:
        """These matches failed for good: their reservations are others'. Idempotent.

        Call it before that is made durable: a match that is still open after a crash then
        asks again.
        """
        ...

    def count(self, partition: int, reservations: Iterable[Reservation]) -> None:
        """These matches were delivered. Idempotent: a reservation is counted once.

        Call it once that is durable: until then a crash leaves the reservation with its match.
        """
        ...

    def reservations(self, partition: int) -> dict[Reservation, bool]:
        """The reservations that matches of *partition* hold; True for those that rest."""
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
        """These subscriptions are deleted: no reservation of theirs is given out any more."""
        ...
