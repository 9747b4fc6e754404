"""The port of reservations for deliveries of counted subscriptions, and its values."""

import enum
from typing import NamedTuple, Protocol

from distributary.core.flow import DoneKey


class Reservation(NamedTuple):
    """The right to deliver one match.

    Attributes:
        key: The match.
        checksum: Of its record: with another record at that position, it is another match.
    """

    key: DoneKey
    checksum: int


class ReservationRequest(NamedTuple):
    """A match's request for its reservation.

    Attributes:
        reservation: The requested one.
        events_max: How many deliveries the newest revision of its subscription permits.
    """

    reservation: Reservation
    events_max: int


class ReservationAnswer(enum.Enum):
    """The response to a request."""

    HELD = "held"
    """The match holds its reservation."""
    WAIT = "wait"
    """All reservations are held; one may be freed."""
    USED_UP = "used-up"
    """All deliveries were made, or the subscription was deleted."""


class ReservationBatch(NamedTuple):
    """Changes and requests of one partition, in one transaction and in this order.

    Attributes:
        gone: Uids of deleted subscriptions: no reservation is granted for them any more.
        freed: Reservations whose match failed for good. Sent before that is durable: a match that
            is open after a crash requests again.
        counted: Reservations whose match was delivered. Sent once that is durable.
        resting: Reservations whose match waits for a retry: no attempt is under way.
        requests: First come, first served. A match that has its reservation keeps it; it stops
            resting.
    """

    gone: list[str]
    freed: list[Reservation]
    counted: list[Reservation]
    resting: list[Reservation]
    requests: list[ReservationRequest]


class ReservationStore(Protocol):
    """The reservations of all subscriptions with a ``maxevents``, for the owners of all partitions.

    Each call is one transaction and blocks. All raise ``StoreError``: then nothing was changed.
    """

    @property
    def exists(self) -> bool:
        """False if nothing was ever counted."""

    def exchange(self, partition: int, batch: ReservationBatch) -> list[ReservationAnswer]:
        """Apply *batch*; return the response to each request. Idempotent."""

    def held(self, partition: int) -> dict[Reservation, bool]:
        """Return the reservations held by matches of *partition*; True for those that rest."""

    def used_up(self) -> list[str]:
        """Return the uids of the subscriptions that have made all their deliveries.

        The limit is that of the last request: compare with the newest revision (``delivered``)
        before ending one whose ``maxevents`` was raised.
        """

    def delivered(self, uid: str) -> int:
        """Return how many deliveries of the subscription *uid* were counted, from 0."""
