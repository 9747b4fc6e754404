"""Routes that lag: each reads the log again by itself, as fast as its sink takes it.

A route lags when its sink takes no more (DESIGN rule 3), or when it begins in the past. One
durable row stands for all that it has yet to do, and the live cursor passes. When the
catch-up reader reaches the live position, the route joins there: from that offset on the live
reader has it again, and the lag ends once what is under way below is finished.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from distributary.errors import EventError
from distributary.event import record as event_record
from distributary.flow import (
    Kind,
    Leg,
    Logged,
    Origin,
    Position,
    RouteRecord,
    Task,
    decode_route,
    encode_route,
)
from distributary.log import iter_frames
from distributary.outcome import LagRow, Mark
from distributary.pipeline._ports import Records
from distributary.pipeline._tracker import Tracker
from distributary.route import WalkMatcher

CHUNK_BYTES = 64 * 1024
"""Read at once for a lagging route: some sixty events, bounded memory per route, and a turn of the
loop that no other sink notices."""
SLICE_RECORDS = 64
"""Records looked at before the loop gets its turn: some 0.3 ms."""


class Offers(Protocol):
    """What a lag needs from the owner."""

    def offer_catch_up(self, task: Task) -> bool:
        """Hand a task over; False where its sink takes none now."""
        ...

    def is_done(self, task: Task) -> bool:
        """True for a match that had its outcome, or a row, before the last restart."""
        ...

    def lost_changes(self, route: str, after_seq: int, gap_end: int) -> list[RouteRecord]:
        """Changes of *route* whose records the medium lost in a hole that ends at *gap_end*."""
        ...


class Lag:
    """One lagging route.

    Args:
        partition: Partition number.
        row: Where it begins.
        records: A reader of its own (it keeps its place).
        offers: The owner.
    """

    def __init__(self, partition: int, row: LagRow, records: Records, offers: Offers) -> None:
        self.route = row.route
        self.start = row.start
        self.to_offset = row.to_offset
        self._partition = partition
        self._records = records
        self._offers = offers
        self._matcher = WalkMatcher()
        self._record = decode_route(row.record)
        self._deleted = self._record.op == "delete"
        if not self._deleted:
            self._matcher.put(self._record)
        # Encoded once: what is durable of every lag is looked at for each flush.
        self._history: list[tuple[int, bytes]] = [(-1, encode_route(self._record))]
        self._tracker = Tracker(Mark(row.from_offset, 0))
        self._start_index = row.start_index
        self._next = row.from_offset
        self._frames: Iterator[Logged] = iter(())
        self._frames_end = row.from_offset
        self._peeked: Logged | None = None
        self._tasks: list[Task] = []
        self._saved = row

    @property
    def next_offset(self) -> int:
        """The record that it will look at next; all below are handed over."""
        return self._next

    @property
    def joined(self) -> bool:
        """True once the live reader has the route again."""
        return self.to_offset is not None

    @property
    def ended(self) -> bool:
        """True when everything up to where it joined is finished."""
        return (
            self.to_offset is not None
            and self._next >= self.to_offset
            and not self._tasks
            and not self._tracker.open_count
        )

    def row(self) -> LagRow | None:
        """The durable row as it stands now; None where it has not moved since it was asked."""
        mark = self._tracker.mark().offset
        row = LagRow(
            self.route,
            self.start,
            self._start_index,
            mark,
            self.to_offset,
            self._record_bytes(mark),
        )
        if row == self._saved:
            return None
        self._saved = row
        return row

    def covers(self, offset: int, index: int) -> bool:
        """True where a match of its route at this place is (or was) the lag's to deliver."""
        if self.to_offset is not None and offset >= self.to_offset:
            return False
        return offset > self.start or (offset == self.start and index >= self._start_index)

    @property
    def begins(self) -> tuple[int, int]:
        """Offset and index of the first event that is its own."""
        return self.start, self._start_index

    def floor(self) -> int:
        """The lowest record that it still needs."""
        return self._tracker.mark().offset

    def _record_bytes(self, mark: int) -> bytes:
        # The route as it stood at the mark: changes between the mark and the reading position
        # are read again after a restart, since their records lie there.
        while len(self._history) > 1 and self._history[1][0] < mark:
            del self._history[0]
        return self._history[0][1]

    def finish(self, task: Task) -> None:
        """*task* needs no more care here."""
        self._tracker.finish(task)

    def close(self) -> None:
        """Let its reader go."""
        self._frames = iter(())
        self._records.close()

    def join(self, offset: int) -> None:
        """The live reader has the route from *offset* on."""
        self.to_offset = offset

    def advance(self, limit: int, live: int) -> bool:
        """Hand over what lies before *live*, looking at no more than *limit* records.

        Returns:
            True where there is more to do at once; False where the sink takes no more, or where
            *live* (or the end) is reached.
        """
        end = live if self.to_offset is None else min(self.to_offset, live)
        while limit > 0:
            while self._tasks:
                if not self._offers.offer_catch_up(self._tasks[-1]):
                    return False
                self._tasks.pop()
            if self._next >= end:
                return False
            logged = self._peeked or next(self._frames, None)
            self._peeked = None
            if logged is None:
                if not self._read(end):
                    return False
            elif logged.offset >= end:
                self._peeked = logged  # Not ours yet: what lies before it is a gap.
                self._pass_gap(end)
            else:
                self._take(logged)
                limit -= 1
        return True

    def _pass_gap(self, to_offset: int) -> None:
        if to_offset > self._next:
            self._look_into_hole(to_offset)
            self._next = to_offset
            self._tracker.skip_to(to_offset)

    def _look_into_hole(self, end: int) -> None:
        """A change of the route that the medium lost is restored, never skipped (DESIGN rule 4)."""
        for record in self._offers.lost_changes(self.route, self._record.seq, end):
            self._change(end - 1, record)

    def _read(self, end: int) -> bool:
        """Get the next chunk; False where the log has no more now."""
        self._pass_gap(min(self._frames_end, end))
        if self._next >= end:
            return True
        chunk, after = self._records.read_chunk(self._next, CHUNK_BYTES)
        if after <= self._next:
            return False
        self._frames = iter_frames(chunk, verify=False)  # verified when it was read
        self._frames_end = after
        return True

    def _take(self, logged: Logged) -> None:
        if logged.offset > self._next:
            self._look_into_hole(logged.offset)
        tasks: list[Task] = []
        if logged.kind == Kind.EVENTS and not self._deleted:
            tasks = self._match(logged)
        elif logged.kind == Kind.ROUTE:
            self._change(logged.offset, decode_route(logged.body))
        self._tracker.take(logged.offset, logged.checksum, tasks)
        self._next = logged.offset + 1
        tasks.reverse()
        self._tasks = tasks

    def _change(self, offset: int, record: RouteRecord) -> None:
        if record.uid != self.route or record.seq <= self._record.seq:
            return
        self._record = record
        self._history.append((offset, encode_route(record)))
        if record.op == "delete":
            self._deleted = True
        else:
            self._matcher.put(record)

    def _match(self, logged: Logged) -> list[Task]:
        try:
            events = event_record.decode(logged.body)
        except EventError:
            return []  # The live reader has counted and reported it.
        first = self._start_index if logged.offset == self.start else 0
        tasks = [
            Task(
                Position(self._partition, logged.offset, index),
                logged.checksum,
                self.route,
                event,
                Leg.EVENT,
                1,
                logged.time_ms,
                Origin.CATCH_UP,
            )
            for index, event in enumerate(events)
            if index >= first and self._matcher.match(event)
        ]
        return [task for task in tasks if not self._offers.is_done(task)]


class CatchUp:
    """All lagging routes of a partition.

    Args:
        live: Gives the next record of the live reader.
        comfortable: True where the sink of a route has room enough to join.
        ended: Called with the name of a lag that is finished.
    """

    def __init__(
        self,
        *,
        live: Callable[[], int],
        comfortable: Callable[[str], bool],
        ended: Callable[[tuple[str, int]], None],
    ) -> None:
        self._live = live
        self._comfortable = comfortable
        self._ended = ended
        self._lags: dict[tuple[str, int], Lag] = {}
        self.by_route: dict[str, list[Lag]] = {}
        """Lags of each route that has any; the last one may be open, the others have joined."""
        self._newest: dict[str, tuple[int, int]] = {}  # where the last lag of a route began

    def add(self, lag: Lag) -> None:
        """Begin, or go on with, a lag."""
        self._lags[lag.route, lag.start] = lag
        lags = self.by_route.setdefault(lag.route, [])
        lags.append(lag)
        lags.sort(key=lambda found: found.start)
        self._newest[lag.route] = max(lag.begins, self._newest.get(lag.route, lag.begins))

    def began_after(self, route: str, offset: int, index: int) -> bool:
        """True where a lag of *route* began behind this place, since this owner did."""
        return self._newest.get(route, (0, 0)) > (offset, index)

    def covers(self, route: str, offset: int, index: int) -> bool:
        """True where a lag has this match, so that the live reader must pass it."""
        return any(lag.covers(offset, index) for lag in self.by_route.get(route, ()))

    def lagging(self, route: str) -> bool:
        """True while a lag of *route* has not joined the live reader."""
        return any(not lag.joined for lag in self.by_route.get(route, ()))

    def _remove(self, name: tuple[str, int]) -> None:
        lag = self._lags.pop(name)
        lags = self.by_route[lag.route]
        lags.remove(lag)
        if not lags:
            del self.by_route[lag.route]
        lag.close()
        self._ended(name)

    def close(self) -> None:
        """The owner goes: let every lag's reader go. The durable rows stay."""
        for lag in self._lags.values():
            lag.close()
        self._lags.clear()
        self.by_route.clear()

    def finish(self, task: Task) -> None:
        """A match that a lag brought needs no more care there."""
        offset = task.position.offset
        for lag in reversed(self.by_route.get(task.route, ())):
            if lag.start <= offset:
                lag.finish(task)
                return
        # The route was deleted meanwhile, and its lags with it.

    def advance(self) -> bool:
        """Let lags go on a little; True where at least one has more to do at once.

        They share one slice of records, and who had a part of it is last the next time.
        """
        more = False
        left = SLICE_RECORDS
        for name, lag in list(self._lags.items()):
            if left <= 0:
                return True
            before = lag.next_offset
            more |= lag.advance(left, self._live())
            if lag.next_offset > before:
                left -= lag.next_offset - before
                self._lags[name] = self._lags.pop(name)
            if not lag.joined and lag.next_offset >= self._live() and self._comfortable(lag.route):
                lag.join(self._live())
            if lag.ended:
                self._remove(name)
        return more

    def drop(self, route: str) -> list[tuple[int, int]]:
        """The route is deleted: its lags end where they are.

        Returns:
            For each lag the offsets from which and to which its matches were not delivered.
        """
        left: list[tuple[int, int]] = []
        for name in [name for name in self._lags if name[0] == route]:
            lag = self._lags[name]
            end = self._live() if lag.to_offset is None else lag.to_offset
            left.append((lag.floor(), end))
            self._remove(name)
        self._newest.pop(route, None)
        return left

    def rows(self) -> tuple[LagRow, ...]:
        """Durable rows of the lags that moved since this was asked."""
        rows = (lag.row() for lag in self._lags.values())
        return tuple(row for row in rows if row is not None)

    def floor(self) -> int | None:
        """The lowest record that a lag still needs."""
        return min((lag.floor() for lag in self._lags.values()), default=None)

    def floors(self) -> dict[str, int]:
        """For each lagging route the lowest record that its lags still need."""
        return {route: min(lag.floor() for lag in lags) for route, lags in self.by_route.items()}

    def needs(self, route: str, offset: int) -> bool:
        """True where a lag of *route* may read the record at *offset* again after a restart."""
        return any(lag.floor() <= offset for lag in self.by_route.get(route, ()))

    def __len__(self) -> int:
        return len(self._lags)
