"""Reservations of counted subscriptions (``maxevents``).

A match of a counted subscription becomes a durable row first; the row is sent only while it holds a
reservation. All partitions share the ``outcome.ReservationStore``. Requests and results are
collected here, sent after the flush that makes the rows durable, and answered by an input. So a
reservation without an open row has been used, whatever a crash interrupted.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from distributary.core.engine.limits import EngineLimits
from distributary.core.flow import DoneKey, Stage, Task
from distributary.core.outcome.reservations import (
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
)
from distributary.core.outcome.rows import RetryRow

EXHAUSTED_S = 0.25
"""Interval of requests for an exhausted route: a reservation is freed when an attempt fails for
good, which mostly takes longer."""


def waits_for_reservation(route: str) -> str:
    """Queue name on which rows wait for a reservation; never a valid sink URI."""
    return f"slot of {route}"


def key_of(task: Task) -> DoneKey:
    """The key of the match of *task*, as in ``outcome``."""
    position = task.position
    # Once a match on the hot path: the tuple's own constructor takes half of the time.
    return tuple.__new__(DoneKey, (position[1], position[2], task.route))


@dataclass(slots=True)
class _Exhausted:
    """Backoff of a route whose last request found all reservations taken."""

    events_max: int
    until_s: float
    may_ask: int


class Reservations:
    """The reservations of one partition, and the next batch for the reservation store.

    Args:
        limits: How many may ask.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self.by_match: dict[DoneKey, Reservation] = {}
        """Reservations of open rows, by match."""
        self._idle: set[DoneKey] = set()
        self._uncertain: set[DoneKey] = set()
        self._exhausted: dict[str, _Exhausted] = {}
        self._batch = ReservationBatch([], [], [], [], [])
        self.used_up: set[str] = set()
        """Routes that have made all their deliveries, as far as this owner knows."""

    def loaded(self, found: Mapping[Reservation, bool], rows: Mapping[DoneKey, RetryRow]) -> None:
        """Take over what the last owner left.

        Args:
            found: Each reservation, and whether it rests: no attempt of its match was in flight.
            rows: Open rows. A failure returns its reservation before it is durable, so a
                reservation without an open row belongs to a delivered match.
        """
        for reservation, resting in found.items():
            row = rows.get(reservation.key)
            if (
                row is None
                or row.stage is not Stage.PRIMARY
                or row.checksum != reservation.checksum
            ):
                self._batch.counted.append(reservation)
            else:
                self.by_match[reservation.key] = reservation
                (self._idle if resting else self._uncertain).add(reservation.key)

    # -- requests to the store ----------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """True if the batch is not empty."""
        return any(self._batch)

    def take_batch(self) -> ReservationBatch:
        """Remove and return the batch; send it once the requesting rows are durable."""
        batch, self._batch = self._batch, ReservationBatch([], [], [], [], [])
        return batch

    def ask(self, reservation: Reservation, events_max: int, now_s: float) -> bool:
        """Request a reservation for the row of a match; False while its route is exhausted."""
        exhausted = self._exhausted.get(reservation.key.route)
        if (
            exhausted is not None
            and exhausted.events_max == events_max
            and reservation.key not in self.by_match
        ):
            if now_s < exhausted.until_s or not exhausted.may_ask:
                return False
            exhausted.may_ask -= 1
        self._batch.requests.append(ReservationRequest(reservation, events_max))
        return True

    def answered(
        self, request: ReservationRequest, answer: ReservationAnswer, now_s: float
    ) -> None:
        """Take the store's answer to *request*."""
        key = request.reservation.key
        if answer is ReservationAnswer.HELD:
            if key not in self.by_match:
                self._exhausted.pop(key.route, None)  # A new one: others may get theirs.
            self.by_match[key] = request.reservation
            self._idle.discard(key)
            self.used_up.discard(key.route)
            return
        until_s = now_s + EXHAUSTED_S
        self._exhausted[key.route] = _Exhausted(
            request.events_max, until_s, self._limits.asking_when_exhausted_max
        )
        if answer is ReservationAnswer.USED_UP:
            self.used_up.add(key.route)

    def exhausted(self, route: str, now_s: float) -> bool:
        """True for ``EXHAUSTED_S`` after *route* was refused a reservation."""
        exhausted = self._exhausted.get(route)
        return exhausted is not None and now_s < exhausted.until_s

    # -- what becomes of a reservation --------------------------------------------------------

    def holds(self, key: DoneKey) -> bool:
        """True if an attempt of this match may start."""
        return key in self.by_match and key not in self._idle

    def make_idle(self, key: DoneKey) -> None:
        """Keep the reservation of a match for its next attempt: none is in flight."""
        # Uncertain ones stay so: the result of the attempt before the crash is unknown.
        if self.holds(key) and key not in self._uncertain:
            self._idle.add(key)
            self._batch.resting.append(self.by_match[key])

    def end(self, key: DoneKey, *, delivered: bool) -> None:
        """Release the reservation of a finished match. An uncertain one counts as delivered."""
        reservation = self.by_match.pop(key, None)
        if reservation is not None:
            counts = delivered or key in self._uncertain
            (self._batch.counted if counts else self._batch.freed).append(reservation)
            self._idle.discard(key)
            self._uncertain.discard(key)

    def forget(self, route: str) -> None:
        """Forget a deleted route; its rows end one by one."""
        self._exhausted.pop(route, None)
        self._batch.gone.append(route)

    def stop(self, idle: Collection[DoneKey]) -> None:
        """Stop requesting; the rows *idle* start no attempt, so their reservations rest."""
        self._batch.requests.clear()
        for key in self.by_match:
            if key in idle:
                self.make_idle(key)
