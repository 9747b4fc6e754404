"""One backfilled route: a reader of its own goes over the log again, for that route alone."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from distributary.core.engine.tracker import Tracker
from distributary.core.errors import EventError
from distributary.core.flow import (
    Logged,
    Origin,
    Position,
    RecordKind,
    RouteRecord,
    Stage,
    Task,
    decode_route,
    encode_route,
    events_for,
)
from distributary.core.journal import Mark
from distributary.core.log import iter_frames
from distributary.core.outcome import BackfillRow
from distributary.core.route import WalkMatcher
from distributary.partitions._resources import HISTORY

CHUNK_BYTES = 64 * 1024
"""Read at once for a route that is backfilled: some sixty events, bounded memory per route, and a
turn of the loop that no other sink notices."""

ReadChunk = Callable[[int, int], tuple[bytes, int]]
"""``Records.read_chunk``."""


class Offers(Protocol):
    """What a backfill needs from the owner."""

    def offer_backfill(self, task: Task) -> str | None:
        """Hand a task over; the URI of its sink where that takes none now, else None."""
        ...

    def is_done(self, task: Task) -> bool:
        """True for a match that had its outcome, or a row, before the last restart."""
        ...

    def lost_changes(self, route: str, after_seq: int, gap_end: int) -> list[RouteRecord] | None:
        """Changes of *route* whose records the medium lost in a hole that ends at *gap_end*.

        None: they are being looked for. Ask again.
        """
        ...

    def note_hole(self, route: str, first: int, end: int) -> None:
        """A backfill of *route* has met no records from *first* up to *end*."""
        ...


class Advance(NamedTuple):
    """What came of a backfill's turn.

    Attributes:
        more: There is more to do at once.
        refused_by: The sink that takes no more; None: the live reader, or the end, is reached.
    """

    more: bool
    refused_by: str | None = None


class Backfill:
    """One backfilled route.

    Args:
        partition: Partition number.
        row: Where it begins.
        read_chunk: Reads the partition.
        offers: The owner.
    """

    def __init__(
        self, partition: int, row: BackfillRow, read_chunk: ReadChunk, offers: Offers
    ) -> None:
        self.route = row.route
        self.start = row.start
        self.to_offset = row.to_offset
        self._partition = partition
        self._read_chunk = read_chunk
        self._offers = offers
        self._matcher = WalkMatcher()
        self._record = decode_route(row.record)
        self._deleted = self._record.op == "delete"
        if not self._deleted:
            self._matcher.put(self._record)
        # Encoded once: what is durable of every backfill is looked at for each flush.
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
    def name(self) -> tuple[str, int]:
        """What names it within its partition."""
        return self.route, self.start

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

    def row(self) -> BackfillRow | None:
        """The durable row as it stands now; None where it has not moved since it was asked."""
        row = self._row_at(self._tracker.mark().offset)
        if row == self._saved:
            return None
        self._saved = row
        return row

    def last_row(self) -> BackfillRow:
        """The row of a backfill that has ended: nothing is left of it."""
        assert self.to_offset is not None
        return self._row_at(self.to_offset)

    def _row_at(self, mark: int) -> BackfillRow:
        record = self._record_bytes(mark)
        return BackfillRow(self.route, self.start, self._start_index, mark, self.to_offset, record)

    def covers(self, offset: int, index: int) -> bool:
        """True where a match of its route at this place is (or was) the backfill's to deliver."""
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

    @property
    def finished_count(self) -> int:
        """How many finished matches it would meet again after a crash: none below its mark.

        Some of those below are counted until ``floor`` is asked.
        """
        return self._tracker.finished_count

    def open_before(self, finished_count: int) -> list[Task]:
        """Matches handed over that keep the mark from passing *finished_count* finished ones."""
        # What is not handed over yet is no row's: it may still end with the backfill.
        end = self._next - 1 if self._tasks else self._next
        return self._tracker.open_before(finished_count, end)

    def _record_bytes(self, mark: int) -> bytes:
        # The route as it stood at the mark: changes between the mark and the reading position
        # are read again after a restart, since their records lie there.
        while len(self._history) > 1 and self._history[1][0] < mark:
            del self._history[0]
        return self._history[0][1]

    def finish(self, task: Task) -> bool:
        """*task* needs no more care here; False where that was so already."""
        return self._tracker.finish(task)

    def holds(self, task: Task) -> bool:
        """True where the mark waits for *task*."""
        return self._tracker.holds(task)

    def let_go_of_chunk(self) -> None:
        """Give the chunk's memory back; what is left of it is read again."""
        self._frames = iter(())
        self._frames_end = self._next
        self._peeked = None

    def join(self, offset: int) -> None:
        """The live reader has the route from *offset* on."""
        self.to_offset = offset

    def advance(self, limit: int, live: int) -> Advance:
        """Hand over what lies before *live*, looking at no more than *limit* records."""
        end = live if self.to_offset is None else min(self.to_offset, live)
        while limit > 0:
            while self._tasks:
                refused_by = self._offers.offer_backfill(self._tasks[-1])
                if refused_by is not None:
                    return Advance(more=False, refused_by=refused_by)
                self._tasks.pop()
            if self._next >= end:
                return Advance(more=False)
            logged = self._peeked or next(self._frames, None)
            self._peeked = None
            if logged is None:
                over = self._read(end)
                if over is not None:
                    return over
            elif logged.offset >= end:
                self._peeked = logged  # Not ours yet: what lies before it is a gap.
                if not self._pass_gap(end):
                    return Advance(more=False, refused_by=HISTORY)
            elif not self._pass_gap(logged.offset):
                self._peeked = logged
                return Advance(more=False, refused_by=HISTORY)
            else:
                self._take(logged)
                limit -= 1
        return Advance(more=True)

    def _pass_gap(self, to_offset: int) -> bool:
        """Go by a hole in the log; False while it is not known what changed in there.

        A change of the route that the medium lost is restored, never skipped (DESIGN rule 4).
        """
        if to_offset <= self._next:
            return True
        lost = self._offers.lost_changes(self.route, self._record.seq, to_offset)
        if lost is None:
            return False
        self._offers.note_hole(self.route, self._next, to_offset)
        for record in lost:
            self._change(to_offset - 1, record)
        self._next = to_offset
        self._tracker.skip_to(to_offset)
        return True

    def _read(self, end: int) -> Advance | None:
        """Get the next chunk; why the backfill's turn is over, where it is."""
        if not self._pass_gap(min(self._frames_end, end)):
            return Advance(more=False, refused_by=HISTORY)
        if self._next >= end:
            return None
        chunk, after = self._read_chunk(self._next, CHUNK_BYTES)
        if after <= self._next:
            return Advance(more=False)
        self._frames = iter_frames(chunk, verify=False)  # verified when it was read
        self._frames_end = after
        return None

    def _take(self, logged: Logged) -> None:
        tasks: list[Task] = []
        if logged.kind == RecordKind.ROUTE:
            self._change(logged.offset, decode_route(logged.body))
        elif not self._deleted:
            tasks = self._match(logged)
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
        first = self._start_index if logged.offset == self.start else 0
        try:
            held = events_for(logged, self._record.address, self.route)
        except EventError:
            return []  # The live reader has counted and reported it.
        if held is None:
            return []
        tasks = [
            Task(
                Position(self._partition, logged.offset, index),
                logged.checksum,
                self.route,
                event,
                Stage.PRIMARY,
                1,
                logged.time_ms,
                Origin.BACKFILL,
                held.ttls[index],
                held.carried,
            )
            for index, event in enumerate(held.events)
            if index >= first and self._matcher.match(event)
        ]
        return [task for task in tasks if not self._offers.is_done(task)]
