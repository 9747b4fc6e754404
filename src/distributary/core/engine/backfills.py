"""The backfilled routes of a partition: what each covers, whose turn it is, what is durable.

A route is backfilled when its sink takes no more (DESIGN rule 3), or when it begins in the past.
One durable row stands for all that it has yet to get, and the live cursor passes. When the backfill
reaches the live position, the route joins there: from that offset on the live reader has it again,
and the backfill ends once what is under way below is finished.

There may be thousands at once (a sink that many routes share is down; many routes begin in the
past), so nothing here looks at all of them: those with something to do take turns, the others
rest until their sink has room or their time comes, or await what they have asked for.
"""

import heapq
from typing import TypeAlias

from distributary.core.engine._backfill import Backfill
from distributary.core.engine.effects import Effects
from distributary.core.engine.limits import EngineLimits
from distributary.core.flow import Task
from distributary.core.outcome.rows import BackfillRow

Name: TypeAlias = tuple[str, int]
"""Of a backfill: its route, and the record where it began."""


class Backfills:
    """All backfills of a partition.

    Args:
        partition: Partition number.
        limits: Of the engine.
        effects: Is told which rows are not needed any more.
    """

    def __init__(self, partition: int, limits: EngineLimits, effects: Effects) -> None:
        self._partition = partition
        self._limits = limits
        self._effects = effects
        self._all: dict[Name, Backfill] = {}
        self.by_route: dict[str, list[Backfill]] = {}
        """Those of each route that has any; the last one may be open, the others have joined."""
        self._newest: dict[str, tuple[int, int]] = {}  # where the last one of a route began
        self._fed: dict[Name, None] = {}  # what they asked for has come: first in turn
        self._turns: dict[Name, None] = {}  # those that may have something to do, in their order
        self._resting: dict[Name, str | None] = {}  # others, with the sink that refused
        self._refused: dict[str, dict[Name, None]] = {}  # those by sink
        self._moved: dict[Name, Backfill] = {}  # whose durable row may be behind
        self._floors: dict[str, int] = {}
        self._stuck: dict[Name, Backfill] = {}  # with much that is finished above an open match
        self._over: dict[str, list[BackfillRow]] = {}  # ended, and perhaps to be met again
        self._over_until: list[tuple[int, Name]] = []

    def add(self, row: BackfillRow) -> None:
        """Begin a backfill, or go on with one; remember one that has ended."""
        if row.to_offset is not None and row.from_offset >= row.to_offset:
            self._remember(row, row.to_offset)
            return
        # A restart behind an ended one may begin it anew, an event earlier: its row is this one's.
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
        """Forget an ended backfill, if it is there (and joined at *until*)."""
        rows = self._over.get(name[0], [])
        left = [row for row in rows if row.name != name or until not in {None, row.to_offset}]
        if left:
            self._over[name[0]] = left
        else:
            self._over.pop(name[0], None)
        return len(left) < len(rows)

    # -- asked by the live reader -------------------------------------------------------------

    def began_after(self, route: str, offset: int, index: int) -> bool:
        """True where a backfill of *route* began behind this place, since this owner did."""
        return self._newest.get(route, (0, 0)) > (offset, index)

    def began_before(self, route: str, offset: int) -> bool:
        """True where a backfill of *route* began before *offset*, even if it has ended since."""
        mine = (*self.by_route.get(route, ()), *self._over.get(route, ()))
        return any(one.start < offset for one in mine)

    def covers(self, route: str, offset: int, index: int) -> bool:
        """True where a backfill has this match, so that the live reader must pass it."""
        return any(one.covers(offset, index) for one in self.by_route.get(route, ()))

    def backfilling(self, route: str) -> bool:
        """True while a backfill of *route* has not joined the live reader."""
        return any(not one.joined for one in self.by_route.get(route, ()))

    # -- taking turns -------------------------------------------------------------------------

    @property
    def waits_for_turn(self) -> bool:
        """True where at least one has something to do."""
        return bool(self._fed or self._turns)

    def next_turn(self) -> Backfill | None:
        """Whose turn it is; it must be put back. None: nobody has anything to do."""
        turns = self._fed or self._turns
        if not turns:
            return None
        name = next(iter(turns))
        del turns[name]
        return self._all[name]

    def put_back(self, backfill: Backfill) -> None:
        """It has more to do, after all others."""
        self._turns[backfill.name] = None

    def get(self, name: Name) -> Backfill | None:
        """The backfill of this name; None: it has ended, or its route is deleted."""
        return self._all.get(name)

    def feed(self, backfill: Backfill) -> None:
        """What it asked for has come."""
        self._fed[backfill.name] = None

    def rest(self, backfill: Backfill, refused_by: str | None) -> None:
        """It has nothing to do until *refused_by* has room, where that is known, or time passes."""
        self._resting[backfill.name] = refused_by
        if refused_by is not None:
            self._refused.setdefault(refused_by, {})[backfill.name] = None
        self.spare(backfill)

    def spare(self, backfill: Backfill) -> None:
        """It does nothing for a while: let its memory go where there are many."""
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
        """Time has passed: those that have rested longest look again."""
        for _ in range(min(len(self._resting), self._limits.wake_count)):
            self._wake(next(iter(self._resting)))

    def wake_for(self, uri: str) -> None:
        """The sink *uri* has room: those that it refused longest ago try again."""
        names = self._refused.get(uri, {})
        for _ in range(min(len(names), self._limits.slice_backfills)):
            self._wake(next(iter(names)))

    def moved(self, backfill: Backfill) -> None:
        """It has passed records, or has joined."""
        self._moved[backfill.name] = backfill

    # -- matches ------------------------------------------------------------------------------

    def finish(self, task: Task) -> bool:
        """A match that a backfill brought needs no more care; False where that was so already."""
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
        """True where a backfill waits for *task*, which it has brought."""
        backfill = self._of(task)
        return backfill is not None and backfill.holds(task)

    def _of(self, task: Task) -> Backfill | None:
        """The backfill that brought *task*; None: it went with its route."""
        offset = task.position.offset
        mine = reversed(self.by_route.get(task.route, ()))
        return next((one for one in mine if one.start <= offset), None)

    @property
    def _finished_max(self) -> int:
        """Finished matches that one backfill may have above its mark."""
        limits = self._limits
        return max(limits.finished_least, limits.finished_max // max(len(self._all), 1))

    def stuck(self) -> list[Task]:
        """Open matches that must become rows, so that what is finished behind them is passed."""
        found: list[Task] = []
        stuck, self._stuck = self._stuck, {}
        for backfill in stuck.values():
            backfill.floor()
            if backfill.finished_count > self._finished_max:
                found += backfill.open_before(max(backfill.finished_count // 2, 1))
        return found

    # -- ending -------------------------------------------------------------------------------

    def end(self, backfill: Backfill, durable: int) -> None:
        """It is finished; remembered where a restart at *durable* might meet its beginning."""
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
        del self._all[name]
        self.by_route[route].remove(backfill)
        if self.by_route[route]:
            self._note_floor(route)
        else:
            del self.by_route[route], self._floors[route]

    def forgettable(self, cursor: int) -> list[Name]:
        """Those that have ended and that nothing can ask about: the durable *cursor* is past them.

        One that begins in the past begins where its route's record is met. Were it forgotten
        before the cursor has passed that, a restart would begin it again.
        """
        found: list[Name] = []
        while self._over_until and self._over_until[0][0] <= cursor:
            until, name = heapq.heappop(self._over_until)
            if self._forget(name, until):
                found.append(name)
        return found

    def drop(self, route: str, live: int) -> list[tuple[int, int]]:
        """The route is deleted: its backfills end where they are.

        Returns:
            For each the offsets from which and to which its matches were not delivered.
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
        """Durable rows of those that moved since this was asked."""
        moved, self._moved = self._moved, {}
        rows: list[BackfillRow] = []
        for backfill in moved.values():
            row = backfill.row()
            if row is not None:
                rows.append(row)
                self._note_floor(backfill.route)
        return tuple(rows)

    def floor(self) -> int | None:
        """The lowest record that a backfill still needed when ``rows`` was asked last."""
        return min(self._floors.values(), default=None)

    def floors(self) -> dict[str, int]:
        """The same for each route."""
        return dict(self._floors)

    def needs(self, route: str, offset: int) -> bool:
        """True where a backfill of *route* may read the record at *offset* after a restart."""
        return any(one.floor() <= offset for one in self.by_route.get(route, ()))

    def __len__(self) -> int:
        return len(self._all)
