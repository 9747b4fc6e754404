"""Quota reservations of counted subscriptions (``maxevents``): who may be sent, and who must wait.

A match of a subscription that may make only so many deliveries is sent while it holds a
reservation (``outcome.QuotaStore``). The store is shared with the owners of the other partitions,
so asking takes a while: a task that asks is taken over until the answer comes as an input. Where
the quota is taken the route is *exhausted* for a moment: it is backfilled, or its matches wait as
rows.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from distributary.core.engine.limits import EngineLimits
from distributary.core.flow import DoneKey, Origin, Stage, Task
from distributary.core.outcome.counts import Grant, QuotaRequest, Reservation
from distributary.core.outcome.rows import BackfillRow, RetryRow

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


class Claim(enum.Enum):
    """Who will ask for a match that held a reservation when the owner began."""

    NONE = 0
    """Nobody: it has its outcome."""
    ROW = 1
    """Its row, when it is due."""
    READER = 2
    """The live reader or a backfill, when it comes there again."""


ClaimOf: TypeAlias = Callable[[Reservation], Claim]


class QuotaBatch(NamedTuple):
    """What the store of counts is asked, and told, together.

    Attributes:
        asking: Tasks with what they ask for.
        given_up: Reservations that are free again.
        idled: Those whose match waits for a retry.
        counted: Those that a delivery has used.
        gone: Routes that are deleted.
    """

    asking: list[tuple[Task, QuotaRequest]]
    given_up: list[Reservation]
    idled: list[Reservation]
    counted: list[Reservation]
    gone: list[str]


class Reservations:
    """The reservations of one partition.

    Args:
        limits: How many may ask.
        ask: Called when there is something to ask or to tell.
    """

    def __init__(self, limits: EngineLimits, ask: Callable[[], None]) -> None:
        self._limits = limits
        self._ask_store = ask
        self.held: dict[str, dict[DoneKey, int]] = {}
        """Matches that hold one, by route, with the checksum of their record."""
        self._idle: dict[str, dict[DoneKey, int]] = {}  # the same, waiting for a retry
        self._users: dict[DoneKey, Origin] = {}  # of those held: a backfill has tasks of its own
        self._uncertain: set[DoneKey] = set()
        self._deferred: set[DoneKey] = set()  # held, and no attempt is under way
        self._unclaimed: dict[str, set[DoneKey]] = {}
        self._asking_keys: set[DoneKey] = set()
        self._asking_count: Counter[str] = Counter()
        self._batch = QuotaBatch([], [], [], [], [])
        self._exhausted: dict[str, tuple[int, float]] = {}
        self.used_up: set[str] = set()
        """Routes that have made all their deliveries, as far as this owner has met it."""
        self._loading = False
        self._early: set[DoneKey] = set()

    # -- what the store is asked --------------------------------------------------------------

    def load(self) -> None:
        """What the last owner left is being read; nobody asks the store before that."""
        self._loading = True
        self._ask_store()

    def loaded(self, found: dict[Reservation, bool], claim_of: ClaimOf) -> None:
        """What the last owner left: each with whether it rests.

        Args:
            found: Those whose match has no outcome.
            claim_of: Who claims each.
        """
        self._loading = False
        for reservation, resting in found.items():
            key = reservation.key
            if key in self._early:
                self._batch.counted.append(reservation)  # Settled before it was known to have one.
                continue
            where = self._idle if resting else self.held
            where.setdefault(key.route, {})[key] = reservation.checksum
            if not resting:
                self._uncertain.add(key)
            if claim_of(reservation) is Claim.READER:
                self._unclaimed.setdefault(key.route, set()).add(key)
        self._early.clear()

    @property
    def waiting(self) -> bool:
        """True where there is something to ask or to tell."""
        return any(self._batch)

    def take_batch(self) -> QuotaBatch:
        """All that is to be asked and told."""
        batch, self._batch = self._batch, QuotaBatch([], [], [], [], [])
        return batch

    def put_back(self, batch: QuotaBatch) -> None:
        """The store could not be asked, nor told."""
        new = self._batch
        self._batch = QuotaBatch(
            batch.asking + new.asking,
            batch.given_up + new.given_up,
            batch.idled + new.idled,
            batch.counted + new.counted,
            batch.gone + new.gone,
        )

    def stop(self) -> None:
        """Ask nothing any more: who asked is the next owner's, and so is what is parked."""
        self._batch.asking.clear()
        for key in sorted(self._deferred):
            self.make_idle(key)
        self._deferred.clear()

    def answered(
        self, batch: QuotaBatch, grants: list[Grant], now_s: float
    ) -> Iterator[tuple[Task, bool]]:
        """Each task that asked, and whether it holds a reservation now."""
        # One after the other: what a task holds is nobody's before its own turn has come, since
        # it may leave its match to a backfill, which then asks for itself.
        for (task, request), grant in zip(batch.asking, grants, strict=True):
            self._note_answer(task, request, grant, now_s)
            yield task, grant is Grant.HELD

    def _note_answer(self, task: Task, request: QuotaRequest, grant: Grant, now_s: float) -> None:
        key = request.reservation.key
        route = key.route
        self._asking_keys.discard(key)
        self._asking_count[route] -= 1
        if not self._asking_count[route]:
            del self._asking_count[route]
        if grant is Grant.HELD:
            if _pop(self._idle, key) is None:
                self._exhausted.pop(route, None)  # A new one: others may get theirs.
            self._claim(key)
            self.held.setdefault(route, {})[key] = request.reservation.checksum
            self._users[key] = task.origin
            self.used_up.discard(route)
            return
        self._exhausted[route] = request.events_max, now_s + EXHAUSTED_S
        if grant is Grant.USED_UP:
            self.used_up.add(route)

    # -- who may be sent ----------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """False where no match can hold a reservation."""
        return bool(self.held) or self._loading

    def holds(self, task: Task) -> bool:
        """True where the match has its reservation; *task* is the one that uses it from now on."""
        key = key_of(task)
        if self.held.get(key.route, {}).get(key) != task.checksum:
            return False
        self._users.setdefault(key, task.origin)
        self._deferred.discard(key)
        self._claim(key)
        return True

    def defer(self, key: DoneKey) -> None:
        """The queue of this match does not take it now; it keeps its reservation, if it has one."""
        if key in self.held.get(key.route, {}):
            self._deferred.add(key)

    def _claim(self, key: DoneKey) -> None:
        unclaimed = self._unclaimed.get(key.route)
        if unclaimed is not None:
            unclaimed.discard(key)
            if not unclaimed:
                del self._unclaimed[key.route]

    def ask(self, task: Task, events_max: int, now_s: float) -> bool:
        """Take *task* over until the answer has come; False where its route is short now."""
        route = task.route
        reservation = Reservation(key_of(task), task.checksum)
        if reservation.key in self._asking_keys:
            return False  # The live reader's task asks, and a backfill has overtaken it.
        if reservation.key not in self._idle.get(route, {}) and not self._may_ask(
            route, events_max, now_s
        ):
            return False
        self._asking_count[route] += 1
        self._asking_keys.add(reservation.key)
        self._batch.asking.append((task, QuotaRequest(reservation, events_max)))
        self._ask_store()
        return True

    def _may_ask(self, route: str, events_max: int, now_s: float) -> bool:
        exhausted = self._exhausted.get(route)
        if exhausted is None or exhausted[0] != events_max:
            return self._asking_count[route] < self._limits.asking_per_route_max
        few = self._asking_count[route] < self._limits.asking_when_exhausted_max
        return few and not self._is_exhausted(route, now_s)

    def awaited(self, route: str) -> bool:
        """True where a match of *route* that will be met again holds a reservation from before.

        Its route must go on until it is met: nobody else gets that reservation.
        """
        return route in self._unclaimed

    def write_off(self, route: str) -> list[Reservation]:
        """The reservations that are awaited; nobody holds them any more."""
        reservations = (self.complete(key) for key in sorted(self._unclaimed.pop(route, ())))
        return [reservation for reservation in reservations if reservation is not None]

    def busy(self, route: str, now_s: float) -> bool:
        """True while tasks of *route* wait for an answer, or it is short."""
        return self._asking_count[route] > 0 or self._is_exhausted(route, now_s)

    def _is_exhausted(self, route: str, now_s: float) -> bool:
        exhausted = self._exhausted.get(route)
        return exhausted is not None and now_s < exhausted[1]

    # -- what becomes of a reservation --------------------------------------------------------

    def complete(self, key: DoneKey) -> Reservation | None:
        """Release the reservation of a finished match.

        Returns:
            It, so that the caller can count or free it; None: the match holds none.
        """
        if self._loading:
            self._early.add(key)
        self._uncertain.discard(key)
        self._deferred.discard(key)
        self._users.pop(key, None)
        self._claim(key)
        return _pop(self.held, key) or _pop(self._idle, key)

    def is_uncertain(self, key: DoneKey) -> bool:
        """True where the match was perhaps delivered before this owner began."""
        return key in self._uncertain

    def make_idle(self, key: DoneKey) -> None:
        """An attempt with the reservation of this match has failed; it waits for the next one."""
        if key in self._uncertain:
            return  # What the attempt before the crash came to, nobody knows.
        reservation = _pop(self.held, key)
        if reservation is not None:
            self._users.pop(key, None)
            self._idle.setdefault(key.route, {})[key] = reservation.checksum
            self._batch.idled.append(reservation)
            self._ask_store()

    def give_up(self, task: Task) -> None:
        """Give back the reservation of *task*, if it holds one: it makes no attempt with it."""
        key = key_of(task)
        if self._users.get(key) is not task.origin:
            return  # It never had it; or a backfill's task has it now.
        if key in self._uncertain:
            del self._users[key]
            self._unclaimed.setdefault(key.route, set()).add(key)
            return
        reservation = self.complete(key)
        if reservation is not None:
            self._batch.given_up.append(reservation)
            self._ask_store()

    def leave(self, task: Task, *, row: bool) -> None:
        """No attempt of *task* is under way at the end of its owner: nothing is uncertain."""
        if row:
            self.make_idle(key_of(task))
        else:
            self.give_up(task)

    def forget(self, route: str) -> None:
        """The route is deleted."""
        for key in self.held.pop(route, ()):
            self._uncertain.discard(key)
            self._deferred.discard(key)
            self._users.pop(key, None)
        self._idle.pop(route, None)
        self._unclaimed.pop(route, None)
        self._exhausted.pop(route, None)
        self._batch.gone.append(route)
        self._ask_store()

    def tell_later(self, freed: list[Reservation], counted: list[Reservation]) -> None:
        """The store could not be told that these are free, and that these were delivered."""
        self._batch.given_up.extend(freed)
        self._batch.counted.extend(counted)
        self._ask_store()


def _pop(reservations: dict[str, dict[DoneKey, int]], key: DoneKey) -> Reservation | None:
    mine = reservations.get(key.route, {})
    checksum = mine.pop(key, None)
    if checksum is None:
        return None
    if not mine:
        del reservations[key.route]
    return Reservation(key, checksum)


def claims(
    cursor: int, done: dict[DoneKey, int], rows: list[RetryRow], backfills: list[BackfillRow]
) -> Callable[[Reservation], Claim]:
    """Who claims the reservations that were there when an owner began.

    Args:
        cursor: Where the live reader begins.
        done: Outcomes of the journal, with the checksums of their records.
        rows: Retry rows.
        backfills: Backfills.
    """
    waiting = {row.key: row.checksum for row in rows if not row.done and row.stage is Stage.PRIMARY}
    # On its way to the dead letter sink a match needs no reservation.
    over = done | {row.key: row.checksum for row in rows if row.key not in waiting}
    by_route: dict[str, list[BackfillRow]] = {}
    for backfill in backfills:
        by_route.setdefault(backfill.route, []).append(backfill)

    def claim_of(reservation: Reservation) -> Claim:
        key = reservation.key
        if key in waiting:
            return Claim.ROW if waiting[key] == reservation.checksum else Claim.NONE
        if over.get(key) == reservation.checksum:
            return Claim.NONE
        offset, index = key.offset, key.index
        # What a backfill has, it has alone: its row may be ahead of the cursor.
        mine = [
            backfill for backfill in by_route.get(key.route, ()) if backfill.covers(offset, index)
        ]
        ahead = (
            any(backfill.holds(offset, index) for backfill in mine) if mine else offset >= cursor
        )
        return Claim.READER if ahead else Claim.NONE

    return claim_of
