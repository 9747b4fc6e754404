"""Routes that are backfilled: each goes over the log again, as fast as its sink takes it.

A route is backfilled when its sink takes no more (DESIGN rule 3), or when it begins in the past.
One durable row stands for all that it has yet to do, and the live cursor passes. When the
backfill reaches the live position, the route joins there: from that offset on the live
reader has it again, and the backfill ends once what is under way below is finished.

There may be thousands at once (a sink that many routes share is down; many routes begin in the
past), so nothing here looks at all of them: those with something to do take turns, the others
rest until their sink has room or their time comes.
"""

import heapq
from collections.abc import Callable
from typing import TypeAlias

from distributary.core.engine.limits import EngineLimits
from distributary.core.engine.ports import Records
from distributary.core.flow import Task
from distributary.core.outcome import BackfillRow
from distributary.partitions._backfill import Backfill, Offers

SLICE_RECORDS = 64
"""Records looked at before the loop gets its turn: some 0.3 ms."""
SLICE_CHUNKS = 8
"""Chunks read before the loop gets its turn: each costs some 0.2 ms, its search included."""
Name: TypeAlias = tuple[str, int]


class Readers:
    """Readers of the partition, found again by where they stand.

    Args:
        make: Opens one.
        open_max: Most that are open.
    """

    def __init__(self, make: Callable[[], Records], open_max: int) -> None:
        self._make = make
        self._open_max = open_max
        self._open: list[tuple[int, Records]] = []  # where each stands; the last was used last
        self.chunk_count = 0
        """Chunks read so far."""

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """As ``Records.read_chunk``."""
        reader = self._take(from_offset)
        self.chunk_count += 1
        after = from_offset
        try:
            chunk, after = reader.read_chunk(from_offset, bytes_max)
        finally:
            self._open.append((after, reader))
        return chunk, after

    def _take(self, from_offset: int) -> Records:
        for index, (place, _) in enumerate(self._open):
            if place == from_offset:
                return self._open.pop(index)[1]
        if len(self._open) < self._open_max:
            return self._make()
        return self._open.pop(0)[1]

    def close(self) -> None:
        """Let the files go."""
        for _, reader in self._open:
            reader.close()
        self._open.clear()


class PartitionBackfills:
    """All backfilled routes of a partition.

    Args:
        partition: Partition number.
        make_records: Opens a reader.
        offers: The owner.
        live: Gives the next record of the live reader.
        may_join: True where the live reader may have a route again.
        ended: Called with the last row of a backfill that is finished; True where that must be
            remembered, since a restart might meet its beginning again.
        dropped: Called with the name of a backfill whose route is deleted.
        limits: Of the engine.
    """

    def __init__(
        self,
        *,
        partition: int,
        make_records: Callable[[], Records],
        offers: Offers,
        live: Callable[[], int],
        may_join: Callable[[str], bool],
        ended: Callable[[BackfillRow], bool],
        dropped: Callable[[Name], None],
        limits: EngineLimits,
    ) -> None:
        self._partition = partition
        self._limits = limits
        self._readers = Readers(make_records, limits.readers_max)
        self._offers = offers
        self._live = live
        self._may_join = may_join
        self._ended = ended
        self._dropped = dropped
        self._by_name: dict[Name, Backfill] = {}
        self.by_route: dict[str, list[Backfill]] = {}
        """Backfills of each route that has any; the last one may be open, the others have
        joined."""
        self._newest: dict[str, tuple[int, int]] = {}  # where the last backfill of a route began
        self._turns: dict[Name, None] = {}  # those that may have something to do, in their order
        self._resting: dict[Name, str | None] = {}  # the others, with the sink that refused
        self._refused: dict[str, dict[Name, None]] = {}  # those by sink
        self._moved: dict[Name, Backfill] = {}  # whose durable row may be behind
        self._floors: dict[str, int] = {}
        self._stuck: dict[Name, Backfill] = {}  # with much that is finished above an open match
        self._over: dict[str, list[BackfillRow]] = {}  # ended, and perhaps to be met again
        self._over_until: list[tuple[int, Name]] = []

    def add(self, row: BackfillRow) -> None:
        """Begin a backfill, or go on with one; remember one that has ended."""
        if row.to_offset is not None and row.from_offset >= row.to_offset:
            self._remember(row)
            return
        # A restart behind an ended backfill may begin it anew, an event earlier: its row is this
        # one's.
        self._forget(row.name)
        backfill = Backfill(self._partition, row, self._readers.read_chunk, self._offers)
        self._by_name[backfill.name] = backfill
        backfills = self.by_route.setdefault(backfill.route, [])
        backfills.append(backfill)
        backfills.sort(key=lambda found: found.start)
        self._floors[backfill.route] = min(backfill.floor() for backfill in backfills)
        self._newest[backfill.route] = max(
            backfill.begins, self._newest.get(backfill.route, backfill.begins)
        )
        self._turns[backfill.name] = None

    def _remember(self, row: BackfillRow) -> None:
        assert row.to_offset is not None
        self._over.setdefault(row.route, []).append(row)
        heapq.heappush(self._over_until, (row.to_offset, row.name))

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
        return any(backfill.start < offset for backfill in self.by_route.get(route, ())) or any(
            row.start < offset for row in self._over.get(route, ())
        )

    def covers(self, route: str, offset: int, index: int) -> bool:
        """True where a backfill has this match, so that the live reader must pass it."""
        return any(backfill.covers(offset, index) for backfill in self.by_route.get(route, ()))

    def backfilling(self, route: str) -> bool:
        """True while a backfill of *route* has not joined the live reader."""
        return any(not backfill.joined for backfill in self.by_route.get(route, ()))

    # -- taking turns -------------------------------------------------------------------------

    def advance(self) -> bool:
        """Let backfills go on a little; True where at least one has more to do at once.

        They share one slice of records, and who had a part of it is last the next time.
        """
        left = SLICE_RECORDS
        chunks_max = self._readers.chunk_count + SLICE_CHUNKS
        for _ in range(min(len(self._turns), self._limits.slice_backfills)):
            if left <= 0 or self._readers.chunk_count >= chunks_max:
                break
            name = next(iter(self._turns))
            del self._turns[name]
            backfill = self._by_name[name]
            before = backfill.next_offset
            turn = backfill.advance(left, self._live())
            left -= backfill.next_offset - before
            if backfill.next_offset > before:
                self._moved[name] = backfill
            live = self._live()
            if (
                not backfill.joined
                and backfill.next_offset >= live
                and self._may_join(backfill.route)
            ):
                backfill.join(live)
                self._moved[name] = backfill
            if backfill.ended:
                self._end(backfill)
            elif turn.more:
                self._turns[name] = None
            else:
                self._rest(backfill, turn.refused_by)
        return bool(self._turns)

    def _rest(self, backfill: Backfill, refused_by: str | None) -> None:
        self._resting[backfill.name] = refused_by
        if refused_by is not None:
            self._refused.setdefault(refused_by, {})[backfill.name] = None
        if len(self._by_name) > self._limits.chunks_max:
            backfill.let_go_of_chunk()

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

    def finish(self, task: Task) -> bool:
        """Note that a match of a backfill is finished; False where that was noted already."""
        backfill = self._backfill_of(task)
        if backfill is None or not backfill.finish(task):
            return False
        self._moved[backfill.name] = backfill
        if backfill.finished_count > self._finished_max:
            self._stuck[backfill.name] = backfill
        if backfill.joined and backfill.name in self._resting:
            self._wake(backfill.name)  # It may have ended.
        return True

    def holds(self, task: Task) -> bool:
        """True where a backfill waits for *task*, which it has brought."""
        backfill = self._backfill_of(task)
        return backfill is not None and backfill.holds(task)

    def _backfill_of(self, task: Task) -> Backfill | None:
        """The backfill that brought *task*; None: it went with its route."""
        offset = task.position.offset
        backfills = reversed(self.by_route.get(task.route, ()))
        return next((backfill for backfill in backfills if backfill.start <= offset), None)

    @property
    def _finished_max(self) -> int:
        """Finished matches that one backfill may have above its mark."""
        limits = self._limits
        return max(limits.finished_least, limits.finished_max // max(len(self._by_name), 1))

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

    def _end(self, backfill: Backfill) -> None:
        self._remove(backfill)
        row = backfill.last_row()
        if self._ended(row):
            self._remember(row)

    def _remove(self, backfill: Backfill) -> None:
        name = backfill.name
        if name in self._resting:
            self._wake(name)
        self._turns.pop(name, None)
        self._moved.pop(name, None)
        self._stuck.pop(name, None)
        del self._by_name[name]
        backfills = self.by_route[backfill.route]
        backfills.remove(backfill)
        if backfills:
            self._floors[backfill.route] = min(other.floor() for other in backfills)
        else:
            del self.by_route[backfill.route], self._floors[backfill.route]
        if not self._by_name:
            self._readers.close()

    def forgettable(self, cursor: int) -> list[Name]:
        """Name the ended backfills that nothing asks about: the durable *cursor* has passed them.

        A backfill that begins in the past begins where its route's record is met. Were it forgotten
        before the cursor has passed that, a restart would begin it again.
        """
        found: list[Name] = []
        while self._over_until and self._over_until[0][0] <= cursor:
            until, name = heapq.heappop(self._over_until)
            if self._forget(name, until):
                found.append(name)
        return found

    def drop(self, route: str) -> list[tuple[int, int]]:
        """The route is deleted: its backfills end where they are.

        Returns:
            For each backfill the offsets from which and to which its matches were not delivered.
        """
        left: list[tuple[int, int]] = []
        for backfill in list(self.by_route.get(route, ())):
            end = self._live() if backfill.to_offset is None else backfill.to_offset
            left.append((backfill.floor(), end))
            self._remove(backfill)
            self._dropped(backfill.name)
        for row in self._over.pop(route, ()):
            self._dropped(row.name)
        self._newest.pop(route, None)
        return left

    def close(self) -> None:
        """The owner goes: let the readers go. The durable rows stay."""
        self._readers.close()
        self._by_name.clear()
        self.by_route.clear()

    # -- what is durable ----------------------------------------------------------------------

    def rows(self) -> tuple[BackfillRow, ...]:
        """Durable rows of the backfills that moved since this was asked."""
        moved, self._moved = self._moved, {}
        rows: list[BackfillRow] = []
        for backfill in moved.values():
            row = backfill.row()
            if row is not None:
                rows.append(row)
                backfills = self.by_route[backfill.route]
                self._floors[backfill.route] = min(other.floor() for other in backfills)
        return tuple(rows)

    def floor(self) -> int | None:
        """The lowest record that a backfill still needed when ``rows`` was asked last."""
        return min(self._floors.values(), default=None)

    def floors(self) -> dict[str, int]:
        """The same for each backfilled route."""
        return dict(self._floors)

    def needs(self, route: str, offset: int) -> bool:
        """Whether a backfill of *route* may read the record at *offset* again after a restart."""
        return any(backfill.floor() <= offset for backfill in self.by_route.get(route, ()))

    def __len__(self) -> int:
        return len(self._by_name)
