"""Quota reservations of counted subscriptions (``maxevents``): who may be sent, and who must wait.

A match of a subscription that may make only so many deliveries is a durable row before anything
else, and its row is sent while it holds a reservation (``outcome.Quota``). The store of counts is
shared with the owners of the other partitions, so what is asked and told is collected here, goes
there after the flush that makes the rows durable, and comes back as an input. So a reservation
whose row is not open any more has been used: nobody has to know what a crash interrupted.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from distributary.core.engine.limits import EngineLimits
from distributary.core.flow import DoneKey, Stage, Task
from distributary.core.outcome.counts import Grant, QuotaBatch, QuotaRequest, Reservation
from distributary.core.outcome.rows import RetryRow

EXHAUSTED_S = 0.25
"""A route without a reservation asks again after this: one is free when an attempt has failed for
good, which takes longer than that in most cases."""


def waits_for_reservation(route: str) -> str:
    """Where rows wait for a reservation: no URI of a sink is like it."""
    return f"slot of {route}"


def key_of(task: Task) -> DoneKey:
    """The match that *task* is, as the outcome room names it."""
    position = task.position
    # Once a match on the hot path: the tuple's own constructor takes half of the time.
    return tuple.__new__(DoneKey, (position[1], position[2], task.route))


@dataclass(slots=True)
class _Exhausted:
    """All reservations of a route were taken when it asked last."""

    events_max: int
    until_s: float
    may_ask: int


class Reservations:
    """The reservations of one partition.

    Args:
        limits: How many may ask.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self.by_match: dict[DoneKey, Reservation] = {}
        """Of open rows, by match."""
        self._idle: set[DoneKey] = set()
        self._uncertain: set[DoneKey] = set()
        self._exhausted: dict[str, _Exhausted] = {}
        self._batch = QuotaBatch([], [], [], [], [])
        self.used_up: set[str] = set()
        """Routes that have made all their deliveries, as far as this owner has met it."""

    def loaded(self, found: Mapping[Reservation, bool], rows: Mapping[DoneKey, RetryRow]) -> None:
        """Take over what the last owner left.

        Args:
            found: Each reservation, and whether it rests: no attempt of its match was under way.
            rows: Open rows. A failure gives its reservation back before it is durable, so one
                whose match has no open row has made its delivery.
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

    # -- what the store is asked and told -----------------------------------------------------

    @property
    def waiting(self) -> bool:
        """True where there is something to ask or to tell."""
        return any(self._batch)

    def take_batch(self) -> QuotaBatch:
        """All that is to be asked and told; the rows of those that ask must be durable first."""
        batch, self._batch = self._batch, QuotaBatch([], [], [], [], [])
        return batch

    def ask(self, reservation: Reservation, events_max: int, now_s: float) -> bool:
        """Have the row of a match ask; False where its route is short now."""
        exhausted = self._exhausted.get(reservation.key.route)
        if (
            exhausted is not None
            and exhausted.events_max == events_max
            and reservation.key not in self.by_match
        ):
            if now_s < exhausted.until_s or not exhausted.may_ask:
                return False
            exhausted.may_ask -= 1
        self._batch.requests.append(QuotaRequest(reservation, events_max))
        return True

    def answered(self, request: QuotaRequest, grant: Grant, now_s: float) -> None:
        """The store has answered one that asked."""
        key = request.reservation.key
        if grant is Grant.HELD:
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
        if grant is Grant.USED_UP:
            self.used_up.add(key.route)

    def exhausted(self, route: str, now_s: float) -> bool:
        """True for a moment after *route* was refused a reservation."""
        exhausted = self._exhausted.get(route)
        return exhausted is not None and now_s < exhausted.until_s

    # -- what becomes of a reservation --------------------------------------------------------

    def holds(self, key: DoneKey) -> bool:
        """True where an attempt of this match may begin."""
        return key in self.by_match and key not in self._idle

    def make_idle(self, key: DoneKey) -> None:
        """No attempt of this match is under way; it keeps its reservation for the next one."""
        # In doubt it stays: what the attempt before the crash came to, nobody knows.
        if self.holds(key) and key not in self._uncertain:
            self._idle.add(key)
            self._batch.resting.append(self.by_match[key])

    def end(self, key: DoneKey, *, delivered: bool) -> None:
        """The match has its outcome. One uncertain counts: it was perhaps delivered before."""
        reservation = self.by_match.pop(key, None)
        if reservation is not None:
            counts = delivered or key in self._uncertain
            (self._batch.counted if counts else self._batch.freed).append(reservation)
            self._idle.discard(key)
            self._uncertain.discard(key)

    def forget(self, route: str) -> None:
        """The route is deleted; its rows end one by one."""
        self._exhausted.pop(route, None)
        self._batch.gone.append(route)

    def stop(self, idle: Collection[DoneKey]) -> None:
        """Ask nothing any more; the rows *idle* begin no attempt: nothing of them is uncertain."""
        self._batch.requests.clear()
        for key in self.by_match:
            if key in idle:
                self.make_idle(key)
