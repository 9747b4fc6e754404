"""Slots of counted subscriptions (``maxevents``): who may be sent, and who must wait.

A match of a subscription that may make only so many deliveries is sent while it holds a slot
(``outcome.QuotaStore``). The store is shared with the owners of the other partitions, so asking
takes a while: a task that asks is taken over, and its owner told when the answer has come. Where
all slots are taken the route is *short* for a moment: it lags, or its matches wait as rows.
"""

import enum
from collections import Counter
from collections.abc import Callable

from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import StoreError
from distributary.core.flow import Leg, Origin, Task
from distributary.core.journal import DoneKey
from distributary.core.outcome import Grant, LagRow, RetryRow, Slot, SlotWish

ASKING_PER_ROUTE_MAX = 1_024
"""Tasks of one route that wait for an answer: what 100,000/s bring in the 10 ms that it takes."""
SHORT_S = 0.25
"""A route without a slot asks again after this: one is free when an attempt has failed for good,
which takes longer than that in most cases."""
ASKING_WHEN_SHORT_MAX = 16
"""Tasks of a route that ask again at once: its thousand rows would all be refused four times a
second, for a twentieth of the loop's time. Once one is granted the others follow."""
RETRY_S = 1.0
"""After a failure of the store it is tried again this late."""


def waits_for_slot(route: str) -> str:
    """Where rows are parked that wait for a slot: no URI of a sink is like it."""
    return f"slot of {route}"


def key_of(task: Task) -> DoneKey:
    """The match that *task* is, as the outcome room names it."""
    position = task.position
    return DoneKey(position[1], position[2], task.route)


class Claim(enum.Enum):
    """Who will ask for a match that held a slot when the owner began."""

    NONE = 0
    """Nobody: it has its outcome."""
    ROW = 1
    """Its row, when it is due."""
    READER = 2
    """The live reader or a lag, when it comes there again."""


class Slots:
    """The slots of one partition.

    Args:
        around: Ports of the owner.
        answered: Called for each task that asked, with whether it holds a slot now.
        answered_all: Called with the routes of those that were answered together.
        is_row: Whether a row stands for a task.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        answered: Callable[[Task, bool], None],
        answered_all: Callable[[list[str]], None],
        is_row: Callable[[Task], bool],
    ) -> None:
        self._partition = around.partition
        self._store = around.quota
        self._blocking = around.aside
        self._timers = around.timers
        self._clock = around.clock
        self._report = around.report
        self._answered = answered
        self._answered_all = answered_all
        self._is_row = is_row
        self.held: dict[str, dict[DoneKey, int]] = {}
        """Matches that hold a slot, by route, with the checksum of their record."""
        self._resting: dict[str, dict[DoneKey, int]] = {}  # the same, waiting for a retry
        self._users: dict[DoneKey, Origin] = {}  # of held slots: a lag has tasks of its own
        self._doubtful: set[DoneKey] = set()
        self._parked: set[DoneKey] = set()  # held, and no attempt is under way
        self._unclaimed: dict[str, set[DoneKey]] = {}
        self._asking: list[tuple[Task, SlotWish]] = []
        self._asking_keys: set[DoneKey] = set()
        self._asking_count: Counter[str] = Counter()
        self._given_up: list[Slot] = []
        self._laid: list[Slot] = []
        self._gone: list[str] = []
        self._short: dict[str, tuple[int, float]] = {}
        self.used_up: set[str] = set()
        """Routes that have made all their deliveries, as far as this owner has met it."""
        self._claim_of: Callable[[Slot], Claim] | None = None
        self._counted: list[Slot] = []
        self._early: set[DoneKey] = set()
        self._idle: list[Callable[[], None]] = []
        self._armed = False
        self._failing = False
        self._stopped = False

    def load(self, claim_of: Callable[[Slot], Claim]) -> None:
        """Begin with what the last owner left; nobody gets an answer before that is read.

        Args:
            claim_of: Who claims a slot. Those that nobody claims were delivered (a failure frees
                its slot before it is durable): they count, or more would be delivered than may
                be.
        """
        if self._store.exists:
            self._claim_of = claim_of
            self._arm()

    def stop(self) -> None:
        """Answer nobody any more: who asked is the next owner's, and so is what is parked."""
        self._stopped = True
        for key in sorted(self._parked):
            self.rest(key)
        self._parked.clear()

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call *then* when the store knows all that it is to know, or cannot be told."""
        self._idle.append(then)
        if not self._armed:
            self._look_on()

    # -- who may be sent ----------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """False where no match can hold a slot."""
        return bool(self.held) or self._claim_of is not None

    def holds(self, task: Task) -> bool:
        """True where the match has its slot; *task* is the one that uses it from now on."""
        key = key_of(task)
        if self.held.get(key.route, {}).get(key) != task.checksum:
            return False
        self._users.setdefault(key, task.origin)
        self._parked.discard(key)
        self._claim(key)
        return True

    def park(self, key: DoneKey) -> None:
        """The lane of this match does not take it now; it keeps its slot, if it has one."""
        if key in self.held.get(key.route, {}):
            self._parked.add(key)

    def _claim(self, key: DoneKey) -> None:
        unclaimed = self._unclaimed.get(key.route)
        if unclaimed is not None:
            unclaimed.discard(key)
            if not unclaimed:
                del self._unclaimed[key.route]

    def ask(self, task: Task, events_max: int) -> bool:
        """Take *task* over until the answer has come; False where its route is short now."""
        route = task.route
        slot = Slot(key_of(task), task.checksum)
        if slot.key in self._asking_keys:
            return False  # The live reader's task asks, and a lag has overtaken it.
        if slot.key not in self._resting.get(route, {}) and not self._may_ask(route, events_max):
            return False
        self._asking_count[route] += 1
        self._asking_keys.add(slot.key)
        self._asking.append((task, SlotWish(slot, events_max)))
        self._arm()
        return True

    def _may_ask(self, route: str, events_max: int) -> bool:
        short = self._short.get(route)
        if short is None or short[0] != events_max:
            return self._asking_count[route] < ASKING_PER_ROUTE_MAX
        return not self._is_short(route) and self._asking_count[route] < ASKING_WHEN_SHORT_MAX

    def awaited(self, route: str) -> bool:
        """True where a match of *route* that will be met again holds a slot from before.

        Its route must go on until it is met: nobody else gets that slot.
        """
        return route in self._unclaimed

    def write_off(self, route: str) -> list[Slot]:
        """The slots that are awaited; nobody holds them any more."""
        slots = (self.settle(key) for key in sorted(self._unclaimed.pop(route, ())))
        return [slot for slot in slots if slot is not None]

    def busy(self, route: str) -> bool:
        """True while tasks of *route* wait for an answer, or it is short."""
        return self._asking_count[route] > 0 or self._is_short(route)

    def _is_short(self, route: str) -> bool:
        short = self._short.get(route)
        return short is not None and self._clock.monotonic_s() < short[1]

    # -- what becomes of a slot ---------------------------------------------------------------

    def settle(self, key: DoneKey) -> Slot | None:
        """The match has its outcome, or none; its slot, if it had one, is not its own any more."""
        if self._claim_of is not None:
            self._early.add(key)
        self._doubtful.discard(key)
        self._parked.discard(key)
        self._users.pop(key, None)
        self._claim(key)
        return _pop(self.held, key) or _pop(self._resting, key)

    def in_doubt(self, key: DoneKey) -> bool:
        """True where the match was perhaps delivered before this owner began."""
        return key in self._doubtful

    def rest(self, key: DoneKey) -> None:
        """An attempt with the slot of this match has failed; it waits for the next one."""
        if key in self._doubtful:
            return  # What the attempt before the crash came to, nobody knows.
        slot = _pop(self.held, key)
        if slot is not None:
            self._users.pop(key, None)
            self._resting.setdefault(key.route, {})[key] = slot.checksum
            self._laid.append(slot)
            self._arm()

    def give_up(self, task: Task) -> None:
        """*task* makes no attempt with the slot of its match, if it has it: another will ask."""
        key = key_of(task)
        if self._users.get(key) is not task.origin:
            return  # It never had it; or a lag's task has it now.
        if key in self._doubtful:
            del self._users[key]
            self._unclaimed.setdefault(key.route, set()).add(key)
            return
        slot = self.settle(key)
        if slot is not None:
            self._given_up.append(slot)
            self._arm()

    def leave(self, task: Task) -> None:
        """The owner ends, and no attempt of *task* is under way: nothing about it is in doubt."""
        if self._is_row(task):
            self.rest(key_of(task))
        else:
            self.give_up(task)

    def forget(self, route: str) -> None:
        """The route is deleted."""
        for key in self.held.pop(route, ()):
            self._doubtful.discard(key)
            self._parked.discard(key)
            self._users.pop(key, None)
        self._resting.pop(route, None)
        self._unclaimed.pop(route, None)
        self._short.pop(route, None)
        if self._store.exists:
            self._gone.append(route)
            self._arm()

    def tell_later(self, freed: list[Slot], counted: list[Slot]) -> None:
        """The store could not be told that these are free, and that these were delivered."""
        self._given_up += freed
        self._counted += counted
        self._arm()

    # -- asking the store ---------------------------------------------------------------------

    def _arm(self) -> None:
        """Ask soon: whoever else asks in this turn of the loop goes along."""
        if not self._armed:
            self._armed = True
            self._timers.call_later(0.0, self._run)

    def _run(self) -> None:
        if self._claim_of is None:
            self._ask_store()
        elif not self._stopped:
            self._load(self._claim_of)
        else:
            self._armed = False
            self._call_idle()

    def _load(self, claim_of: Callable[[Slot], Claim]) -> None:
        found: dict[Slot, bool] = {}

        def work() -> None:
            slots = self._store.slots(self._partition)
            over = {slot for slot in slots if claim_of(slot) is Claim.NONE}
            if over:
                self._store.count(self._partition, over)
            found.update((slot, slots[slot]) for slot in slots if slot not in over)

        def done(error: StoreError | None) -> None:
            if error is not None:
                self._fail(error)
                return
            self._claim_of = None
            for slot, resting in found.items():
                key = slot.key
                if key in self._early:
                    self._counted.append(slot)  # Settled before it was known to have a slot.
                    continue
                where = self._resting if resting else self.held
                where.setdefault(key.route, {})[key] = slot.checksum
                if not resting:
                    self._doubtful.add(key)
                if claim_of(slot) is Claim.READER:
                    self._unclaimed.setdefault(key.route, set()).add(key)
            self._early.clear()
            self._go_on()

        self._blocking.run(work, done)

    def _ask_store(self) -> None:
        asking, self._asking = (self._asking, []) if not self._stopped else ([], [])
        given_up, self._given_up = self._given_up, []
        laid, self._laid = self._laid, []
        counted, self._counted = self._counted, []
        gone, self._gone = self._gone, []
        answers: list[Grant] = []

        def work() -> None:
            self._store.forget(*gone)
            if counted:
                self._store.count(self._partition, counted)
            if asking or given_up or laid:
                wishes = [wish for _, wish in asking]
                answers[:] = self._store.take(self._partition, wishes, free=given_up, resting=laid)

        def done(error: StoreError | None) -> None:
            if error is not None:
                self._asking[:0], self._given_up[:0] = asking, given_up
                self._laid[:0], self._gone[:0], self._counted[:0] = laid, gone, counted
                self._fail(error)
                return
            self._take_answers(asking, answers)
            self._go_on()

        self._blocking.run(work, done)

    def _take_answers(self, asking: list[tuple[Task, SlotWish]], answers: list[Grant]) -> None:
        # One after the other: what a task holds is nobody's before its own turn has come, since
        # it may leave its match to a lag, which then asks for itself.
        for (task, wish), grant in zip(asking, answers, strict=True):
            self._note_answer(task, wish, grant)
            if self._stopped:
                self.leave(task)
            else:
                self._answered(task, grant is Grant.HELD)
        if asking and not self._stopped:
            self._answered_all(list(dict.fromkeys(task.route for task, _ in asking)))

    def _note_answer(self, task: Task, wish: SlotWish, grant: Grant) -> None:
        key = wish.slot.key
        route = key.route
        self._asking_keys.discard(key)
        self._asking_count[route] -= 1
        if not self._asking_count[route]:
            del self._asking_count[route]
        if grant is Grant.HELD:
            if _pop(self._resting, key) is None:
                self._short.pop(route, None)  # A new one: others may get theirs.
            self._claim(key)
            self.held.setdefault(route, {})[key] = wish.slot.checksum
            self._users[key] = task.origin
            self.used_up.discard(route)
            return
        self._short[route] = wish.events_max, self._clock.monotonic_s() + SHORT_S
        if grant is Grant.USED_UP:
            self.used_up.add(route)

    def _go_on(self) -> None:
        if self._failing:
            self._failing = False
            self._report("counts-again", {})
        self._armed = False
        self._look_on()

    def _look_on(self) -> None:
        """Ask again where there is something to say, or be idle."""
        waiting = self._given_up or self._laid or self._gone or self._counted
        if waiting or (self._asking and not self._stopped):
            self._arm()
        else:
            self._call_idle()

    def _call_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for then in waiting:
            then()

    def _fail(self, error: StoreError) -> None:
        """Nobody is sent without a slot; those that need none go on."""
        if not self._failing:
            self._failing = True
            self._report("counts-unavailable", {"error": str(error)})
        if self._stopped:
            self._armed = False
            self._call_idle()  # What was not told leaves deliveries in doubt, as after a crash.
        else:
            self._timers.call_later(RETRY_S, self._run)


def _pop(slots: dict[str, dict[DoneKey, int]], key: DoneKey) -> Slot | None:
    mine = slots.get(key.route, {})
    checksum = mine.pop(key, None)
    if checksum is None:
        return None
    if not mine:
        del slots[key.route]
    return Slot(key, checksum)


def claims(
    cursor: int, done: dict[DoneKey, int], rows: list[RetryRow], lags: list[LagRow]
) -> Callable[[Slot], Claim]:
    """Who claims the slots that were there when an owner began.

    Args:
        cursor: Where the live reader begins.
        done: Outcomes of the journal, with the checksums of their records.
        rows: Retry rows.
        lags: Lags.
    """
    waiting = {row.key: row.checksum for row in rows if not row.done and row.leg is Leg.EVENT}
    # On its way to the dead letter sink a match needs no slot.
    over = done | {row.key: row.checksum for row in rows if row.key not in waiting}
    by_route: dict[str, list[LagRow]] = {}
    for lag in lags:
        by_route.setdefault(lag.route, []).append(lag)

    def claim_of(slot: Slot) -> Claim:
        key = slot.key
        if key in waiting:
            return Claim.ROW if waiting[key] == slot.checksum else Claim.NONE
        if over.get(key) == slot.checksum:
            return Claim.NONE
        offset, index = key.offset, key.index
        # What a lag has, it has alone: its row may be ahead of the cursor.
        mine = [lag for lag in by_route.get(key.route, ()) if lag.covers(offset, index)]
        ahead = any(lag.holds(offset, index) for lag in mine) if mine else offset >= cursor
        return Claim.READER if ahead else Claim.NONE

    return claim_of
