"""One backfill: rereads the log for one route, from where the route fell behind."""

from collections.abc import Iterator

from distributary.core.engine.limits import ROW_TASK_BYTES
from distributary.core.engine.tracker import Tracker
from distributary.core.errors import EventError
from distributary.core.flow import (
    TOLD,
    Logged,
    Mark,
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
from distributary.core.outcome.rows import BackfillRow
from distributary.core.route import WalkMatcher


class Backfill:
    """The replay cursor of one route: its position, its filters there, its unfinished matches.

    Args:
        partition: Partition number.
        row: Its durable row: where it begins or continues.

    Attributes:
        tasks: Unsent matches of the last record; the next one to send is last.
        reading: Whether it waits for the records from ``next_offset`` on, which it has requested.
        matched_at: Offset of a record that has matches and waits to be taken; -1: none is known.
        gave_back: Whether that record was taken, and its unsent matches were let go.
    """

    def __init__(self, partition: int, row: BackfillRow) -> None:
        self.route = row.route
        self.start = row.start
        self.to_offset = row.to_offset
        self.tasks: list[Task] = []
        self.reading = False
        self.matched_at = -1
        self._partition = partition
        self._matcher = WalkMatcher()
        self._record = decode_route(row.record)
        self._deleted = self._record.op == "delete"
        if not self._deleted:
            self._matcher.put(self._record)
        # Encoded once: each flush compares the durable row of every backfill.
        self._history: list[tuple[int, bytes]] = [(-1, encode_route(self._record))]
        self._tracker = Tracker(Mark(row.from_offset, 0))
        self._start_index = row.start_index
        self._next = row.from_offset
        self._records: Iterator[Logged] = iter(())
        self._records_end = row.from_offset
        self._peeked: Logged | None = None
        self._saved = row
        self._record_bytes_held = 0
        self._again_from = -1

    @property
    def name(self) -> tuple[str, int]:
        """Route and start: its key within the partition."""
        return self.route, self.start

    @property
    def next_offset(self) -> int:
        """Offset of the next record; all records below are matched."""
        return self._next

    @property
    def gave_back(self) -> bool:
        return self._again_from >= 0

    @property
    def held_bytes(self) -> int:
        """Memory of the unsent matches, about."""
        return self._record_bytes_held + ROW_TASK_BYTES * len(self.tasks) if self.tasks else 0

    @property
    def route_seq(self) -> int:
        """Number of the newest change of its route that it has read."""
        return self._record.seq

    @property
    def joined(self) -> bool:
        """True once the route has joined the live reader."""
        return self.to_offset is not None

    @property
    def ended(self) -> bool:
        """True when every match below the joining offset is finished."""
        return (
            self.to_offset is not None
            and self._next >= self.to_offset
            and not self.tasks
            and not self._tracker.open_count
        )

    def row(self) -> BackfillRow | None:
        """The current durable row; None if unchanged since the last call."""
        row = self._row_at(self._tracker.mark().offset)
        if row == self._saved:
            return None
        self._saved = row
        return row

    def last_row(self) -> BackfillRow:
        """The final row of an ended backfill, which has nothing left to read."""
        assert self.to_offset is not None
        return self._row_at(self.to_offset)

    def _row_at(self, mark: int) -> BackfillRow:
        record = self._record_bytes(mark)
        return BackfillRow(self.route, self.start, self._start_index, mark, self.to_offset, record)

    def covers(self, offset: int, index: int) -> bool:
        """True where this backfill delivers (or has delivered) a match at this position."""
        if self.to_offset is not None and offset >= self.to_offset:
            return False
        return offset > self.start or (offset == self.start and index >= self._start_index)

    @property
    def begins(self) -> tuple[int, int]:
        """Offset and index of the first event that it covers."""
        return self.start, self._start_index

    def floor(self) -> int:
        """Offset of the lowest record that it still needs."""
        return self._tracker.mark().offset

    @property
    def finished_count(self) -> int:
        """Finished matches above its mark, which a crash would repeat.

        May include some below the mark until ``floor`` is called.
        """
        return self._tracker.finished_count

    def open_before(self, finished_count: int) -> list[Task]:
        """Sent matches that keep the mark from passing *finished_count* finished ones."""
        # Unsent matches get no row: they may still end with the backfill.
        end = self._next - 1 if self.tasks else self._next
        return self._tracker.open_before(finished_count, end)

    def _record_bytes(self, mark: int) -> bytes:
        # The route as of the mark: a restart reads later changes again from their records.
        while len(self._history) > 1 and self._history[1][0] < mark:
            del self._history[0]
        return self._history[0][1]

    def finish(self, task: Task) -> bool:
        """Mark *task* as finished; False if it already was."""
        return self._tracker.finish(task)

    def holds(self, task: Task) -> bool:
        """True where the mark waits for *task*."""
        return self._tracker.holds(task)

    def join(self, offset: int) -> None:
        """Return the route to the live reader from *offset* on."""
        self.to_offset = offset

    # -- records ------------------------------------------------------------------------------

    def bring(self, records: Iterator[Logged], to_offset: int) -> bool:
        """Accept the *records* from ``next_offset`` to *to_offset*; False if there are none yet."""
        self.reading = False
        self._records, self._records_end = records, to_offset
        return to_offset > self._next

    def let_go(self) -> None:
        """Free the buffered records; those not taken yet are read again."""
        self._records = iter(())
        self._records_end = self._next
        self._peeked = None

    def peek(self, end: int) -> tuple[Logged | None, int]:
        """The next record below *end*.

        Returns:
            The record and its offset; or None and an offset: the buffer is empty, and there is no
            record from ``next_offset`` up to that offset, if it is higher.
        """
        logged = self._peeked = self._peeked or next(self._records, None)
        if logged is None:
            return None, min(self._records_end, end)
        return (logged, logged.offset) if logged.offset < end else (None, end)

    def pass_hole(self, to_offset: int, lost: list[RouteRecord]) -> None:
        """Skip a gap in the log up to *to_offset*; apply *lost*, the route changes in it.

        A lost change of a route is restored, never skipped (DESIGN rule 4, route records).
        """
        for record in lost:
            self._change(to_offset - 1, record)
        if self.gave_back:
            self._again_from = -1
            self._tracker.complete()
        self._next = to_offset
        self._tracker.skip_to(to_offset)

    def take(self, logged: Logged, tasks: list[Task]) -> None:
        """Pass the record that ``peek`` returned; *tasks* are its matches, to be sent."""
        self._peeked = None
        if self.gave_back:
            tasks = [task for task in tasks if task.position.index >= self._again_from]
            self._again_from = -1
            for task in tasks:
                self._tracker.add(task)
            self._tracker.complete()
        else:
            self._tracker.take(logged.offset, logged.checksum, tasks)
        self._record_bytes_held = len(logged.body)
        self._next = logged.offset + 1
        self.tasks = tasks[::-1]

    def give_back(self) -> None:
        """Let the unsent matches go; their record is read and decoded again.

        A match has the same index then, since nothing behind that record has been read.
        """
        position = self.tasks[-1].position
        self._tracker.give_back(self.tasks)
        self._again_from = position.index
        self._next = self.matched_at = position.offset
        self.tasks = []
        self.let_go()

    def match(self, logged: Logged, archived_to: int) -> list[Task]:
        """The matches of a record; none if the record changes the route.

        Args:
            logged: The record.
            archived_to: Records below are in an archive alone, which is found by its stretches: the
                first one may begin before the time from which the route gets events. In the log
                offsets decide, since clocks are set back.
        """
        if logged.kind == RecordKind.ROUTE:
            self._change(logged.offset, decode_route(logged.body))
            return []
        if self._deleted:
            return []
        if logged.offset < archived_to and logged.time_ms < (self._record.begin_ms or 0):
            return []
        first = self._start_index if logged.offset == self.start else 0
        try:
            held = events_for(logged, self._record.address, self.route)
        except EventError:
            return []  # The live reader has already counted and reported it.
        if held is None:
            return []
        return [
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
                held.address == TOLD,
            )
            for index, event in enumerate(held.events)
            if index >= first and (held.address == TOLD or self._matcher.match(event))
        ]

    def _change(self, offset: int, record: RouteRecord) -> None:
        if record.uid != self.route or record.seq <= self._record.seq:
            return
        self._record = record
        self._history.append((offset, encode_route(record)))
        if record.op == "delete":
            self._deleted = True
        else:
            self._matcher.put(record)
