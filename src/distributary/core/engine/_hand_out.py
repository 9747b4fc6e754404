"""Where a match goes: to its sink's lane, to a lag of its route, or into a row.

The owner hands over what the live reader and the lags bring. The rules: a slow sink lags alone
(DESIGN rule 3), a match goes where the newest revision says (rule 5), and of a counted
subscription only those are sent that hold a slot.
"""

from collections import Counter, deque
from collections.abc import Callable

from distributary.core.deliver import Admission, Dispatcher
from distributary.core.engine._catch_up import CatchUp
from distributary.core.engine._lag_budget import LagLimit
from distributary.core.engine._ledger import Ledger
from distributary.core.engine._parking import waits_for_resume
from distributary.core.engine._patience import Patience
from distributary.core.engine._resources import waits_for_resource
from distributary.core.engine._settle import Settle
from distributary.core.engine._slots import Slots, waits_for_slot
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.surroundings import Surroundings
from distributary.core.flow import Leg, Origin, Task, encode_route
from distributary.core.outcome import LagRow


class HandOut:
    """Hands tasks out, and holds back what its sink is worth waiting for.

    Args:
        around: Ports of the owner.
        dispatcher: Its lanes.
        catch_up: Its lags.
        slots: Of counted subscriptions.
        settle: Drops tasks, and keeps them as rows.
        ledger: Makes lags durable.
        unseen: Whether a route without a target may have one that was not read yet.
        passed: Tells the live reader that it need not wait for a task: a lag has it.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        dispatcher: Dispatcher,
        catch_up: CatchUp,
        slots: Slots,
        settle: Settle,
        ledger: Ledger,
        unseen: Callable[[str], bool],
        passed: Callable[[Task], object],
    ) -> None:
        self._follower = around.follower
        self._targets = around.targets
        self._meter = around.meter
        self._report = around.report
        self._dispatcher = dispatcher
        self._catch_up = catch_up
        self._slots = slots
        self._settle = settle
        self._ledger = ledger
        self._unseen = unseen
        self._passed = passed
        self.limit = LagLimit(around, settle)
        """How far routes may lag."""
        self._held: deque[Task] = deque()
        self._held_count: Counter[str] = Counter()  # by route
        self._furthest: dict[str, tuple[int, int]] = {}  # of counted routes: offset and index
        self._patience = Patience(around.clock, dispatcher, around.targets.all_go_to)

    # -- the live reader's --------------------------------------------------------------------

    @property
    def holds_back(self) -> bool:
        """True where a task waits for its lane before the next record may be taken."""
        return bool(self._held)

    def take(self, task: Task) -> None:
        """Hand a live task out, or hold it back behind those that are held back."""
        if self._held or not self._offer(task):
            self._held.append(task)
            self._held_count[task.route] += 1

    def offer_held(self) -> bool:
        """Hand out what is held back; False where its lane is worth a moment's patience."""
        held = self._held
        while held:
            if not self._offer(held[0]):
                return False
            task = held.popleft()
            self._held_count[task.route] -= 1
            if not self._held_count[task.route]:
                del self._held_count[task.route]
        return True

    def _offer(self, task: Task) -> bool:
        """Hand a live task out; False where its lane is worth a moment's patience."""
        if self._has_lag(task):
            self._leave_to_lag(task)
            return True
        target = self._targets.get(task.route)
        if target is None:
            if self._unseen(task.route):
                self._yield(task, waits_for_resource(task.route))
            else:
                self._settle.drop(task)
            return True
        if task.route in self._settle.parking.parked:
            self._yield(task, waits_for_resume(task.route))
            return True
        if target.events_max is not None and self._holds_slot(task):
            self._note_place(task)
            return self._send(task, target)
        if self._settle.waiting.crowded(task.route):
            self._yield(task, target.sink.lane)
        elif target.events_max is None:
            if task.route in self._furthest:  # It was counted a moment ago.
                self._note_place(task)
            return self._send(task, target)
        elif not self._slots.ask(task, target.events_max):
            self._yield(task, waits_for_slot(task.route))
        else:
            self._note_place(task)
        return True

    def _note_place(self, task: Task) -> None:
        """Answers of the store let later matches of a counted route overtake earlier ones."""
        place = task.position[1:]
        self._furthest[task.route] = max(place, self._furthest.get(task.route, place))

    def forget(self, route: str) -> None:
        """The route is deleted."""
        self._furthest.pop(route, None)

    def _send(self, task: Task, target: RouteTarget) -> bool:
        uri = self._settle.replies.crowded(target)
        if uri is None:
            uri = target.sink.lane
            admission = self._dispatcher.offer(task, target.sink)
            if admission is Admission.ADMITTED:
                return True
            if admission is Admission.OPEN:
                self._settle.failing.refused(task.route, target.sink.uri)
                self._yield(task, uri)
                return True
        if self._patience.worth(uri):
            return False
        self._yield(task, uri)
        return True

    def _has_lag(self, task: Task) -> bool:
        """True where a lag has the live task: it need not be sent here."""
        if task.route not in self._catch_up.by_route or task.origin is not Origin.LIVE:
            return False  # Most tasks: asked for every one of them.
        _, offset, index = task.position
        return self._catch_up.covers(task.route, offset, index) and not self._settle.is_row(task)

    def _leave_to_lag(self, task: Task) -> None:
        """The lag's row stands for *task* now; there it asks again for what it holds here."""
        self._slots.give_up(task)
        self._passed(task)

    def _yield(self, task: Task, uri: str) -> None:
        """The lane of *task* does not take it: its lag has it, or a new lag, or a row."""
        if task.origin is not Origin.LIVE or self._settle.is_row(task):
            self._settle.park(task, uri)
        elif self._has_lag(task):
            self._leave_to_lag(task)
        elif self._catch_up.lagging(task.route):
            self._settle.park(task, uri)  # It lies before the lag.
        else:
            self._begin_lag(task, uri)

    def _begin_lag(self, task: Task, uri: str) -> None:
        """The sink of *task* takes no more: its route lags from here on (DESIGN rule 3)."""
        record = self._follower.table.record(task.route)
        offset, index = task.position.offset, task.position.index
        if record is None:
            self._settle.drop(task)
            return
        if (
            offset < self._follower.changed_at(task.route)
            or self._catch_up.began_after(task.route, offset, index)
            or (offset, index) < self._furthest.get(task.route, (0, 0))
        ):
            # The filters of today did not stand there, and a lag's row holds no others; or what
            # lies behind was another lag's, or is sent, and this one would read it again.
            self._settle.park(task, uri)
            return
        row = LagRow(task.route, offset, index, offset, None, encode_route(record))
        self._catch_up.add(row)
        self._ledger.put_lag(row)
        self._leave_to_lag(task)
        self._meter.add("lags_begun_total")
        self._report("route-lags", {"route": task.route, "from": offset})

    # -- a lag's ------------------------------------------------------------------------------

    def offer_catch_up(self, task: Task) -> str | None:
        """Hand out a task that a lag brought; what it waits for where it is not taken now."""
        if task.position.offset < self.limit.cut:
            self.limit.give_up(task)
            return None
        if task.route in self._settle.parking.parked:
            return waits_for_resume(task.route)
        return self._offer_catch_up(task)

    def _offer_catch_up(self, task: Task) -> str | None:
        target = self._targets.get(task.route)
        if target is None:
            return self._without_target(task)
        if target.events_max is not None and not self._holds_slot(task):
            return self._ask_for_catch_up(task, target.events_max)
        if target.events_max is None and self._settle.waiting.crowded(task.route):
            return target.sink.lane
        crowded = self._settle.replies.crowded(target)
        if crowded is not None:
            return crowded
        if self._dispatcher.offer(task, target.sink) is Admission.ADMITTED:
            return None
        return target.sink.lane

    def _without_target(self, task: Task) -> str | None:
        """What a lag's task waits for; None: nothing, it is dropped, and its lag goes with it."""
        if self._unseen(task.route):
            return waits_for_resource(task.route)
        self._settle.drop(task)
        return None

    def _ask_for_catch_up(self, task: Task, events_max: int) -> str | None:
        route = task.route
        crowded = self._settle.waiting.crowded(route)
        if not crowded and self._slots.ask(task, events_max):
            return None
        if self._slots.awaited(route):
            # A match further on holds a slot, in doubt: the lag must come there, or nobody gets
            # it. Where it lies too far away it counts as delivered.
            if not crowded:
                self._settle.park(task, waits_for_slot(task.route))
                return None
            for slot in self._slots.write_off(route):
                self._ledger.count(slot)
        return waits_for_slot(route)

    def may_join(self, route: str) -> bool:
        """True where the live path can have *route* again: it stands there, and has room."""
        if route not in self._follower.table:
            return False  # It is being replayed, and a restart went back behind its creation.
        if route in self._held_count or route in self._settle.parking.parked:
            return False  # The lag has those: they must meet it before it is gone.
        if self._settle.waiting.crowded(route, 0.5) or self._slots.busy(route):
            return False
        target = self._targets.get(route)
        if target is None:
            return not self._unseen(route)
        if self._settle.replies.crowded(target) is not None:
            return False
        return self._patience.comfortable(target.sink.lane)

    # -- slots --------------------------------------------------------------------------------

    def _holds_slot(self, task: Task) -> bool:
        return task.route in self._slots.held and self._slots.holds(task)

    def take_answer(self, task: Task, *, granted: bool) -> None:
        """The store has said whether a task that asked holds its slot now."""
        if self._settle.is_row(task):
            self._settle.go_on(task, granted=granted)
        elif self._has_lag(task):
            self._leave_to_lag(task)
        elif self._targets.get(task.route) is None:
            self._settle.drop(task)  # Nothing keeps its record any more: no row may need it.
        elif not granted:
            self._settle.park(task, waits_for_slot(task.route))
        elif task.origin is Origin.CATCH_UP:
            refused_by = self.offer_catch_up(task)
            if refused_by is not None:
                self._settle.park(task, refused_by)
        elif not self._offer(task):
            target = self._targets.get(task.route)
            self._yield(task, "" if target is None else target.sink.lane)

    # -- changes ------------------------------------------------------------------------------

    def yield_closed_lanes(self) -> None:
        """What waits behind an open breaker must not hold the cursor (DESIGN rule 3)."""
        for uri in self._dispatcher.cut_off():
            for task in self._dispatcher.take_queued(uri):
                if task.leg is Leg.REPLY:
                    self._settle.replies.hand_back(task)
                else:
                    self._yield(task, uri)

    def take_back(self, route: str, uri: str) -> None:
        """*route* is parked: what waits in its lane waits for that; the others' tasks go back."""
        for task in self._dispatcher.take_queued(uri):
            target = self._targets.get(task.route)
            if task.leg is Leg.REPLY:
                self._settle.replies.hand_back(task)
            elif target is None:
                self._settle.drop(task)
            elif task.route == route and task.leg is Leg.EVENT:
                self._yield(task, waits_for_resume(route))
            else:
                to = target.sink if task.leg is Leg.EVENT else target.dead_letter or target.sink
                if self._dispatcher.offer_retry(task, to) is not Admission.ADMITTED:
                    self._yield(task, uri)

    def offer_anew(self) -> None:
        """Resources changed: what waits goes where the newest revision says (DESIGN rule 5)."""
        changed = self._targets.changed_uris()
        for uri in changed:
            # Rows, not held tasks: what came later may be on its way to the new sink, and a lag
            # that began at one of these would read it again.
            for task in self._dispatcher.take_queued(uri):
                if task.leg is Leg.REPLY:
                    self._settle.replies.hand_back(task)
                elif self._targets.get(task.route) is None:
                    self._settle.drop(task)
                else:
                    self._settle.park(task, uri)
        for uri in changed:
            self._settle.room(uri)
