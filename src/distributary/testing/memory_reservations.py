"""Counts of deliveries in memory; passes the contract of ``outcome.ReservationStore``."""

import threading
from dataclasses import dataclass, field

from distributary.core.outcome import (
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
)


@dataclass
class _Count:
    events_max: int
    delivered: int = 0
    closed: bool = False
    held: dict[tuple[int, Reservation], bool] = field(default_factory=dict)
    """By partition and reservation: whether it rests."""

    @property
    def used_up(self) -> bool:
        return self.closed or self.delivered >= self.events_max


class MemoryReservations:
    """A ``ReservationStore`` for owners in one process."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        self._turn = threading.Lock()

    @property
    def exists(self) -> bool:
        """See ``ReservationStore.exists``."""
        return bool(self._counts)

    def exchange(self, partition: int, batch: ReservationBatch) -> list[ReservationAnswer]:
        """See ``ReservationStore.exchange``."""
        with self._turn:
            for uid in self._counts.keys() & batch.gone:
                self._counts[uid].closed = True
                self._counts[uid].held.clear()
            for reservation in batch.freed:
                self._held(reservation).pop((partition, reservation), None)
            for reservation in batch.counted:
                if self._held(reservation).pop((partition, reservation), None) is not None:
                    self._counts[reservation.key.route].delivered += 1
            for reservation in batch.resting:
                if (partition, reservation) in self._held(reservation):
                    self._held(reservation)[partition, reservation] = True
            for request in batch.requests:
                count = self._counts.setdefault(
                    request.reservation.key.route, _Count(request.events_max)
                )
                count.events_max = request.events_max
            return [self._answer(partition, request) for request in batch.requests]

    def _answer(self, partition: int, request: ReservationRequest) -> ReservationAnswer:
        count = self._counts[request.reservation.key.route]
        mine = (partition, request.reservation)
        if mine not in count.held:
            if count.used_up:
                return ReservationAnswer.USED_UP
            if count.delivered + len(count.held) >= count.events_max:
                return ReservationAnswer.WAIT
        count.held[mine] = False
        return ReservationAnswer.HELD

    def _held(self, reservation: Reservation) -> dict[tuple[int, Reservation], bool]:
        count = self._counts.get(reservation.key.route)
        return {} if count is None else count.held

    def held(self, partition: int) -> dict[Reservation, bool]:
        """See ``ReservationStore.reservations``."""
        with self._turn:
            return {
                reservation: rests
                for count in self._counts.values()
                for (where, reservation), rests in count.held.items()
                if where == partition
            }

    def used_up(self) -> list[str]:
        """See ``ReservationStore.used_up``."""
        with self._turn:
            found = (uid for uid, count in self._counts.items() if not count.closed)
            return sorted(uid for uid in found if self._counts[uid].used_up)

    def delivered(self, uid: str) -> int:
        """See ``ReservationStore.delivered``."""
        count = self._counts.get(uid)
        return 0 if count is None else count.delivered
