"""The backfilled routes of a partition: which matches they cover, their turns, their durable rows.

A route is backfilled when its sink is saturated (DESIGN rule 3, a slow sink) or when it starts in
the past. One durable row covers all its outstanding matches, so the live cursor passes them. When
the backfill reaches the live position, the route joins the live reader from that offset on, and the
backfill ends once its matches below are finished.

There may be thousands at once (a sink of many routes is down; many routes start in the past), so
nothing here scans all of them: runnable ones take turns, the others rest until their sink has room
or some time has passed, or wait for records.
"""

import heapq
from typing import TypeAlias

from distributary.core.engine._backfill import Backfill
from distributary.core.engine.effects import Effects
from distributary.core.engine.limits import EngineLimits
from distributary.core.flow import Task
from distributary.core.outcome.rows import BackfillRow

Name: TypeAlias = tuple[str, int]
"""Key of a backfill: its route and the offset where it began."""


class Backfills:
    """The registry of a partition's backfills, with their run queue.

    Args:
        partition: Partition number.
        limits: Of the engine.
        effects: Writes rows, and deletes those that are not needed any more.
    """

    def __init__(self, partition: int, limits: EngineLimits, effects: Effects) -> None:
        self._partition = partition
        self._limits = limits
        self._effects = effects
        self._all: dict[Name, Backfill] = {}
        self.by_route: dict[str, list[Backfill]] = {}
        """The backfills of each route, oldest first; all but the last have joined."""
        self._newest: dict[str, tuple[int, int]] = {}  # start of the last one of each route
        self._fed: dict[Name, None] = {}  # their records have arrived: first in turn
        self._turns: dict[Name, None] = {}  # runnable ones, in order
        self._resting: dict[Name, str | None] = {}  # others, with the sink that refused
        self._refused: dict[str, dict[Name, None]] = {}  # those by sink
        self._held: dict[Name, int] = {}  # bytes of unsent matches of those that rest
        self._held_bytes = 0
        self._moved: dict[Name, Backfill] = {}  # their durable row may be out of date
        self._floors: dict[str, int] = {}
        self._stuck: dict[Name, Backfill] = {}  # many finished matches above an open one
        self._over: dict[str, list[BackfillRow]] = {}  # ended; a restart may meet their start
        self._over_until: list[tuple[int, Name]] = []

    def add(self, row: BackfillRow) -> None:
        """Begin or continue a backfill; remember an ended one."""
        if row.to_offset is not None and row.from_offset >= row.to_offset:
            self._remember(row, row.to_offset)
            return
        # A restart before an ended one may begin it again, an event earlier: this row replaces it.
        self._forget(row.name)
        backfill = self._all[row.name] = Backfill(self._partition, row)
        mine = self.by_route.setdefault(row.route, [])
        mine.append(backfill)
        mine.sort(key=lambda found: found.start)
        self._note_floor(row.route)
        self._newest[row.route] = max(backfill.begins, self._newest.get(row.route, (0, 0)))
        self._turns[row.name] = None

    def _note_floor(self, route: str) -> None:
        self._floors[route] = min(backfill.floor() for backfill in self.by_route[route])

    def _remember(self, row: BackfillRow, until: int) -> None:
        self._over.setdefault(row.route, []).append(row)
        heapq.heappush(self._over_until, (until, row.name))

    def _forget(self, name: Name, until: int | None = None) -> bool:
        """Forget an ended backfill that joined at *until* (None: anywhere); False if none is."""
        rows = self._over.get(name[0], [])
        left = [row for row in rows if row.name != name or until not in {None, row.to_offset}]
        if left:
            self._over[name[0]] = left
        else:
            self._over.pop(name[0], None)
        return len(left) < len(rows)

    # -- asked by the live reader -------------------------------------------------------------

    def began_after(self, route: str, offset: int, index: int) -> bool:
        """True if this owner began a backfill of *route* after this position."""
        return self._newest.get(route, (0, 0)) > (offset, index)

    def began_before(self, route: str, offset: int) -> bool:
        """True if a backfill of *route*, running or ended, began before *offset*."""
        mine = (*self.by_route.get(route, ()), *self._over.get(route, ()))
        return any(one.start < offset for one in mine)

    def covers(self, route: str, offset: int, index: int) -> bool:
        """True if a backfill covers this match, so that the live reader must skip it."""
        return any(one.covers(offset, index) for one in self.by_route.get(route, ()))

    def backfilling(self, route: str) -> bool:
        """True while a backfill of *route* has not joined the live reader."""
        return any(not one.joined for one in self.by_route.get(route, ()))

    # -- taking turns -------------------------------------------------------------------------

    @property
    def waits_for_turn(self) -> bool:
        """True if at least one is runnable."""
        return bool(self._fed or self._turns)

    def next_turn(self) -> Backfill | None:
        """Remove and return the next runnable backfill; None: there is none."""
        turns = self._fed or self._turns
        if not turns:
            return None
        name = next(iter(turns))
        del turns[name]
        self._release(name)
        return self._all[name]

    def may_hold(self, backfill: Backfill) -> bool:
        """True if *backfill* may keep its unsent matches until its next turn."""
        size = backfill.held_bytes
        if self._held_bytes + size > self._limits.backfill_tasks_bytes_max:
            return False
        self._held[backfill.name] = size
        self._held_bytes += size
        return True

    def _release(self, name: Name) -> None:
        self._held_bytes -= self._held.pop(name, 0)

    def put_back(self, backfill: Backfill) -> None:
        """Put *backfill* at the end of the run queue."""
        self._turns[backfill.name] = None

    def get(self, name: Name) -> Backfill | None:
        """The backfill with this name; None: it has ended, or its route is deleted."""
        return self._all.get(name)

    def feed(self, backfill: Backfill) -> None:
        """Make *backfill* runnable: its records have arrived."""
        self._fed[backfill.name] = None

    def rest(self, backfill: Backfill, refused_by: str | None) -> None:
        """Let *backfill* rest until *refused_by* (if known) has room, or some time has passed."""
        self._resting[backfill.name] = refused_by
        if refused_by is not None:
            self._refused.setdefault(refused_by, {})[backfill.name] = None
        self.spare(backfill)

    def spare(self, backfill: Backfill) -> None:
        """Free the buffer of an idle *backfill* if there are many."""
        if len(self._all) > self._limits.chunks_max:
            backfill.let_go()

    def _wake(self, name: Name) -> None:
        refused_by = self._resting.pop(name)
        if refused_by is not None:
            names = self._refused[refused_by]
            del names[name]
            if not names:
                del self._refused[refused_by]
        self._turns[name] = None

    def wake(self) -> None:
        """Make those that have rested longest runnable; called at each tick."""
        for _ in range(min(len(self._resting), self._limits.wake_count)):
            self._wake(next(iter(self._resting)))

    def wake_for(self, uri: str) -> None:
        """Make those that the sink *uri* refused longest ago runnable: it has room."""
        names = self._refused.get(uri, {})
        for _ in range(min(len(names), self._limits.slice_backfills)):
            self._wake(next(iter(names)))

    def moved(self, backfill: Backfill) -> None:
        """Note that *backfill* has advanced or joined, so its row may have to be written."""
        self._moved[backfill.name] = backfill

    # -- matches ------------------------------------------------------------------------------

    def finish(self, task: Task) -> bool:
        """Mark a backfilled match as finished; False if it already was."""
        backfill = self._of(task)
        if backfill is None or not backfill.finish(task):
            return False
        self.moved(backfill)
        if backfill.finished_count > self._finished_max:
            self._stuck[backfill.name] = backfill
        if backfill.joined and backfill.name in self._resting:
            self._wake(backfill.name)  # It may have ended.
        return True

    def holds(self, task: Task) -> bool:
        """True if the backfill of *task* still waits for it."""
        backfill = self._of(task)
        return backfill is not None and backfill.holds(task)

    def _of(self, task: Task) -> Backfill | None:
        """The backfill that *task* comes from; None: deleted with its route."""
        offset = task.position.offset
        mine = reversed(self.by_route.get(task.route, ()))
        return next((one for one in mine if one.start <= offset), None)

    @property
    def _finished_max(self) -> int:
        """Most finished matches of one backfill above its mark."""
        limits = self._limits
        return max(limits.finished_least, limits.finished_max // max(len(self._all), 1))

    def stuck(self) -> list[Task]:
        """Open matches that must become rows so that marks can pass finished ones above them."""
        found: list[Task] = []
        stuck, self._stuck = self._stuck, {}
        for backfill in stuck.values():
            backfill.floor()
            if backfill.finished_count > self._finished_max:
                found += backfill.open_before(max(backfill.finished_count // 2, 1))
        return found

    # -- ending -------------------------------------------------------------------------------

    def end(self, backfill: Backfill, durable: int) -> None:
        """End *backfill*; remember it if a restart at *durable* could meet its start again."""
        self._remove(backfill)
        row = backfill.last_row()
        if durable >= row.from_offset:
            self._effects.end_backfill(row.name)
        else:
            self._effects.put_backfill(row)
            self._remember(row, row.from_offset)

    def _remove(self, backfill: Backfill) -> None:
        name, route = backfill.name, backfill.route
        if name in self._resting:
            self._wake(name)
        for known in (self._fed, self._turns, self._moved, self._stuck):
            known.pop(name, None)
        self._release(name)
        del self._all[name]
        self.by_route[route].remove(backfill)
        if self.by_route[route]:
            self._note_floor(route)
        else:
            del self.by_route[route], self._floors[route]

    def forgettable(self, cursor: int) -> list[Name]:
        """Forget and return the ended ones that the durable *cursor* has passed.

        A backfill with a start in the past is begun by its route's record. If it were forgotten
        before the cursor has passed that record, a restart would begin it again.
        """
        found: list[Name] = []
        while self._over_until and self._over_until[0][0] <= cursor:
            until, name = heapq.heappop(self._over_until)
            if self._forget(name, until):
                found.append(name)
        return found

    def drop(self, route: str, live: int) -> list[tuple[int, int]]:
        """End the backfills of a deleted route where they are.

        Returns:
            For each, the first offset whose matches were not delivered, and the end.
        """
        left: list[tuple[int, int]] = []
        for backfill in list(self.by_route.get(route, ())):
            end = live if backfill.to_offset is None else backfill.to_offset
            left.append((backfill.floor(), end))
            self._remove(backfill)
            self._effects.end_backfill(backfill.name)
        for row in self._over.pop(route, ()):
            self._effects.end_backfill(row.name)
        self._newest.pop(route, None)
        return left

    # -- what is durable ----------------------------------------------------------------------

    def rows(self) -> tuple[BackfillRow, ...]:
        """Durable rows that have changed since the last call."""
        moved, self._moved = self._moved, {}
        rows: list[BackfillRow] = []
        for backfill in moved.values():
            row = backfill.row()
            if row is not None:
                rows.append(row)
                self._note_floor(backfill.route)
        return tuple(rows)

    def floor(self) -> int | None:
        """The lowest record that a backfill needed at the last call of ``rows``."""
        return min(self._floors.values(), default=None)

    def floors(self) -> dict[str, int]:
        """As ``floor``, for each route."""
        return dict(self._floors)

    def needs(self, route: str, offset: int) -> bool:
        """True if a backfill of *route* may read the record at *offset* after a restart."""
        return any(one.floor() <= offset for one in self.by_route.get(route, ()))

    def __len__(self) -> int:
        return len(self._all)
