"""How many deliveries of a counted subscription may still be made: the port, and its values."""

import enum
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


class QuotaBatch(NamedTuple):
    """What a partition tells the counts, and asks of them, in one transaction and in this order.

    Attributes:
        gone: Uids of deleted subscriptions: no reservation of theirs is given out any more.
        freed: Reservations whose match failed for good. They are told before that is durable: a
            match that is open after a crash asks again.
        counted: Reservations whose match was delivered. They are told once that is durable.
        resting: Reservations whose match waits for a retry: no attempt is under way.
        requests: Who asks, first come first served. Who has its reservation keeps it; it does not
            rest.
    """

    gone: list[str]
    freed: list[Reservation]
    counted: list[Reservation]
    resting: list[Reservation]
    requests: list[QuotaRequest]


class Quota(Protocol):
    """The counts of all subscriptions with a ``maxevents``, shared by the owners of all partitions.

    Each call is one transaction and blocks. All raise ``StoreError``: then nothing was changed.
    """

    @property
    def exists(self) -> bool:
        """False where nothing was ever counted."""

    def exchange(self, partition: int, batch: QuotaBatch) -> list[Grant]:
        """Tell and ask; what each request got. Idempotent: all of it happens once."""

    def reservations(self, partition: int) -> dict[Reservation, bool]:
        """The reservations that matches of *partition* hold; True for those that rest."""

    def used_up(self) -> list[str]:
        """Uids of the subscriptions that have made all the deliveries that they may.

        The limit is the one that the last match asked under: compare with the newest revision
        (``delivered``) before ending one whose ``maxevents`` was raised.
        """

    def delivered(self, uid: str) -> int:
        """How many deliveries of the subscription *uid* were counted, from 0."""
