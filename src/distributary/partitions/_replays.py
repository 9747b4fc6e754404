"""Replays: events of the log that are sent again to an existing subscription, a slice at a time.

Each event of the range that the newest filters match is a match once more, which is retried and
ended like any other; the run keeps a position for all of them, not a row for each. A replay stays
below the committed offset and below what a backfill of its route still has to deliver: those
matches have their first outcome yet to come.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from distributary.core.demand import Demand
from distributary.core.engine.limits import ROW_TASK_BYTES
from distributary.core.engine.machine import Engine
from distributary.core.engine.reservations import key_of
from distributary.core.engine.state import PartitionState
from distributary.core.errors import EventError, LogError, StoreError
from distributary.core.flow import (
    TOLD,
    DoneKey,
    Logged,
    Origin,
    Position,
    RouteRecord,
    Stage,
    Task,
    events_for,
)
from distributary.core.outcome import RunRow
from distributary.core.route import IndexMatcher, Matcher
from distributary.partitions._flusher import Flusher
from distributary.partitions._past_readers import PastReaders
from distributary.partitions._run import Run
from distributary.partitions.context import PartitionContext
from distributary.partitions.recalls import Kept

SLICE_RECORDS: Final = 2_048
"""Records of the log looked at in one slice: some 20 ms of a thread."""
SLICE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records with matches after which a slice ends: one may have 1 MiB. All replays share it,
since what they have chosen is in memory."""

CLOCK_SLACK_MS: Final = 1_000
"""Records whose time is this far ahead of the clock were stamped before it was set back: times of
the log never fall. Receivers of several machines differ by less."""

# Constants: in Python 3.11 a member read from its enumeration costs as much as several calls.
_PRIMARY: Final = Stage.PRIMARY
_REPLAY: Final = Origin.REPLAY


class _Found(NamedTuple):
    """What a slice of the log holds for a route.

    Attributes:
        tasks: Its matches, in order.
        size: Bytes that they hold in memory, about.
        at: The next record.
        archived_to: Records below are in the archive alone.
        oldest_ms: When the oldest record was appended, if records of the run before it are gone;
            None: none is.
        lost: Records passed whose events are missing, as first and after the last.
    """

    tasks: list[Task]
    size: int
    at: int
    archived_to: int
    oldest_ms: int | None = None
    lost: Sequence[tuple[int, int]] = ()


class Replays:
    """Takes slices of replays; a ``RunKind``.

    Args:
        context: Ports of the consumer.
        flusher: Makes what it does durable, with the progress of the run.
        state: Holds the waiting rows and the backfills.
        engine: Attempts rows.
    """

    def __init__(
        self, context: PartitionContext, flusher: Flusher, state: PartitionState, engine: Engine
    ) -> None:
        self._context = context
        self._store = context.ownership.store
        self._flusher = flusher
        self._state = state
        self._engine = engine
        self._readers = PastReaders(context.kept, context.clock)

    def tick(self) -> None:
        """Close readers that nobody needs any more."""
        if self._readers.has_idle():
            self._context.aside.run(self._readers.close_idle, _ignore)

    def close(self) -> None:
        """Close all readers, after the read under way."""
        self._context.aside.run(self._readers.close, _ignore)

    def begin(self, demand: Demand) -> RunRow:
        since_ms, until_ms = _time(demand)
        records = self._context.kept()
        try:
            start, end = records.start(), records.durable_end()
            first = min(max(records.before(since_ms), start), end)
            last = max(first, min(records.after(until_ms), end))
            now_ms = self._context.clock.wall_ms()
            if demand.details.until_ms is None and records.after(now_ms + CLOCK_SLACK_MS) < end:
                last = end  # the clock was set back: what came since has the time of before
            oldest_ms = None
            if start > 0 and first == start:
                oldest = records.oldest_ms()
                begins_ms = demand.asked_ms if oldest is None else oldest
                oldest_ms = begins_ms if begins_ms > since_ms else None
        except LogError as error:
            raise StoreError(str(error)) from error
        finally:
            records.close()
        row = RunRow(demand.seq, first, last, 0, 0, done=False)
        return self._store.begin_run_as(row._replace(total=last - first, oldest_ms=oldest_ms))

    def take(self, run: Run, count: int, then: Callable[[RunRow | None], None]) -> None:
        record = self._context.follower.table.record(run.demand.route)
        end = self._end(run)
        if run.row.at >= run.row.through and not _is_under_way(run):
            row = run.row._replace(done=True)
            self._context.timers.call_later(0.0, lambda: then(row))
            return
        if record is None or end <= run.row.at or run.row.at >= run.row.through:
            self._context.timers.call_later(0.0, lambda: then(run.row))
            return
        # With an archive it keeps nothing of the log, so no budget ends it.
        cut = 0 if self._context.recalls is not None else cut_of(self._state, run)
        found: list[_Found] = []

        def work() -> None:
            try:
                with self._readers.of(run.demand.seq) as records:
                    found.append(self._look(run, record, records, count, (cut, end)))
            except LogError as error:
                raise StoreError(str(error)) from error

        def done(error: StoreError | None) -> None:
            then(None if error is not None else self._take(run, *found))

        self._context.aside.run(work, done)

    def _end(self, run: Run) -> int:
        """The record at which the replay must wait, or ends."""
        end = min(run.row.through, self._flusher.durable_mark.offset)
        if run.demand.details.dry:
            return run.row.through
        durable = self._flusher.durable_floor(run.demand.route)
        if durable is not None:
            end = min(end, durable)
        for backfill in self._state.backfills.by_route.get(run.demand.route, ()):
            end = min(end, backfill.floor())
        return end

    def _look(
        self, run: Run, record: RouteRecord, records: Kept, count: int, span: tuple[int, int]
    ) -> _Found:
        """Find at most about *count* matches in the records of *span*; blocks."""
        cut, end = span
        matcher = IndexMatcher()  # parses what the filters name alone
        matcher.put(record)
        tasks: list[Task] = []
        first = at = max(run.row.at, cut)
        archived_to = records.archived_to()
        through, holes = end, list[tuple[int, int]]()
        # What is missing below that is lost: by the medium, or by retention. What is behind the end
        # that the log shows is not: it is read when it is shown.
        end = min(end, first + SLICE_RECORDS, records.durable_end())
        end = records.readable_to(first, end)
        size, size_max = 0, SLICE_BYTES // max(1, len(self._state.replays.all))
        read = records.read(at, end)
        if self._context.once is not None and at >= archived_to:
            read = self._context.once.judge(read, at)
        for looked, logged in enumerate(read, 1):
            if logged.offset != at:
                holes.append((at, logged.offset))
                at = logged.offset
            if logged.offset < archived_to and not _is_in(logged, run.demand):
                matched = []  # An archive is found by its stretches: they begin earlier, end later.
            else:
                matched = self._matches(run, record, matcher, logged)
            if tasks and len(tasks) + len(matched) > count:
                end = logged.offset
                break
            tasks += matched
            at = logged.offset + 1
            size += len(logged.body) if matched else 0
            if len(tasks) >= count or size >= size_max or looked >= SLICE_RECORDS:
                end = at
                break
        if archived_to <= first < records.archived_to() or records.readable_to(first, end) < end:
            return _Found([], 0, first, archived_to)  # Deleted meanwhile: read from the archive.
        if at < end:
            holes.append((at, end))
            at = end
        start, oldest_ms = first, None
        if holes and holes[0][0] == first < (start := records.start()):
            # Deleted since it was asked for; or the archive was, or is not named any more.
            at, oldest_ms = max(at, min(start, through)), records.oldest_ms()
        # In what is recalled, most holes are records that are no events.
        lost = records.lost(first, at) if first < archived_to else _above(holes, start)
        size += ROW_TASK_BYTES * len(tasks)
        return _Found(tasks, size, at, archived_to, oldest_ms, lost)

    def _matches(
        self, run: Run, record: RouteRecord, matcher: Matcher, logged: Logged
    ) -> list[Task]:
        try:
            held = events_for(logged, record.address, record.uid)
        except EventError:
            return []  # The live reader has counted and reported it.
        if held is None:
            return []
        partition = self._context.partition
        return [
            Task(
                Position(partition, logged.offset, index),
                logged.checksum,
                record.uid,
                event,
                _PRIMARY,
                1,
                logged.time_ms,
                _REPLAY,
                held.ttls[index],
                held.carried,
                held.address == TOLD,
                run.row.seq,
            )
            for index, event in enumerate(held.events)
            if matcher.match(event) and run.chooses(event)
        ]

    def _take(self, run: Run, found: _Found) -> RunRow:
        row, dry = run.row, run.demand.details.dry
        sent, met = 0, []
        fresh: dict[DoneKey, Task] = {}
        clock = self._context.clock
        self._engine.at(clock.monotonic_s(), clock.wall_ms())
        rows, replay = self._state.rows, run.replay
        rows.archived_to = max(rows.archived_to, found.archived_to)
        tasks = found.tasks if replay is None else replay.not_counted(found.tasks)
        for task in tasks:
            _, offset, index = task.position
            key = tuple.__new__(DoneKey, (offset, index, task.route))
            if replay is not None and replay.was_done(task):
                sent += 1
                continue
            if replay is not None and key in self._state.replays.open:
                met.append(key)
                continue
            if key in rows.rows:
                continue  # It waits for an attempt already.
            sent += 1
            if replay is None:
                continue
            if key in rows.finished:
                # One of it has ended, and would be deleted with a later one.
                self._engine.replay_as_row(replay, task)
                run.took(1)
            else:
                fresh[key] = task
        # Another replay may be cancelled; this one's position says that they are sent.
        self._engine.meet_replays(met)
        if dry:
            run.took(sent)
        at = max(found.at, row.at)
        for lost in _above(list(found.lost), row.missing_to or 0):  # What it let go is read again.
            row = row.passing(*lost)
        row = row._replace(
            at=at,
            looked=row.looked + at - row.at,
            selected=row.selected + len(tasks),
            handled=row.handled + sent,
            passed=row.passed + len(tasks) - sent,
            done=dry and at >= row.through,
            oldest_ms=row.oldest_ms if found.oldest_ms is None else found.oldest_ms,
        )
        if replay is not None:
            others = [] if len(fresh) == len(tasks) else [*map(key_of, tasks)]
            self._state.replays.take(
                replay, fresh, row, found.size, [key for key in others if key not in fresh]
            )
        return row


def _ignore(_error: StoreError | None) -> None:
    """Closing a reader loses nothing."""


def _is_under_way(run: Run) -> bool:
    """Whether matches of the run are not sent, or have no outcome and no row yet."""
    return run.replay is not None and not run.replay.idle


def _is_in(logged: Logged, demand: Demand) -> bool:
    """Whether a record was appended in the time of a replay; its end by ``through`` if none is."""
    since_ms, until_ms = _time(demand)
    return since_ms <= logged.time_ms and (
        demand.details.until_ms is None or logged.time_ms < until_ms
    )


def _time(demand: Demand) -> tuple[int, int]:
    """The time of a replay: from the first one, before the second, milliseconds."""
    until_ms = demand.details.until_ms
    return demand.details.since_ms or 0, demand.asked_ms + 1 if until_ms is None else until_ms


def _above(holes: list[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """The parts of *holes* from the record *start* on."""
    return [(max(first, start), end) for first, end in holes if start < end]


def cut_of(state: PartitionState, run: Run) -> int:
    """The record below which budgets of the log have given up what waits for the route of *run*."""
    target = state.targets.get(run.demand.route)
    namespace = None if target is None else target.namespace
    return max(state.cuts.everybody, state.cuts.of(namespace))
