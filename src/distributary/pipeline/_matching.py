"""What the live reader makes of a record: the tasks of the routes that see its events."""

from collections.abc import Callable, Sequence

from distributary.errors import EventError
from distributary.event import Event
from distributary.event import record as event_record
from distributary.flow import (
    TTL_MAX,
    Kind,
    Leg,
    Logged,
    Origin,
    Position,
    Task,
    decode_addressed,
    decode_tick,
)
from distributary.meter import Meter
from distributary.outcome import DoneKey
from distributary.pipeline._catch_up import CatchUp
from distributary.route import RouteTable

Report = Callable[[str, dict[str, object]], None]


class Matching:
    """Matches the records of one partition.

    Args:
        partition: Partition number.
        table: The routes that stand where the live reader is.
        catch_up: Knows which matches are a lag's.
        meter: Counts.
        report: Tells people.
        void: Called with a match that stands in the way: its position was used again.
    """

    def __init__(
        self,
        partition: int,
        table: RouteTable,
        catch_up: CatchUp,
        *,
        meter: Meter,
        report: Report,
        void: Callable[[DoneKey], None],
    ) -> None:
        self._partition = partition
        self._table = table
        self._catch_up = catch_up
        self._meter = meter
        self._report = report
        self._void = void
        self._seen_before: dict[DoneKey, int] = {}
        self._seen_until = 0

    def load(self, seen: dict[DoneKey, int]) -> None:
        """Matches that had an outcome, or a row, when this owner began; with their checksums."""
        self._seen_before = seen
        self._seen_until = max((key.offset + 1 for key in seen), default=0)

    def tasks(self, logged: Logged) -> list[Task]:
        """The matches of a record that are the live reader's and not done."""
        try:
            if logged.kind == Kind.EVENTS:
                return self._events(logged, event_record.decode(logged.body))
            if logged.kind in (Kind.ADDRESSED, Kind.CARRIED):
                address, ttls, events, carried = decode_addressed(logged.body)
                return self._events(logged, events, address, ttls, carried)
            if logged.kind == Kind.TICK:
                return self._tick(logged)
        except EventError as error:
            # Written whole (the checksums hold) but by nobody we know: said, counted, passed.
            self._meter.add("undecodable_records_total")
            self._report("undecodable-record", {"offset": logged.offset, "error": str(error)})
        return []

    def _events(
        self,
        logged: Logged,
        events: Sequence[Event],
        address: str = "",
        ttls: Sequence[int] | None = None,
        carried: bytes = b"",
    ) -> list[Task]:
        """Events that were published to *address*; *ttls* None: all have all their passes."""
        offset, logged_ms, checksum, _, _ = logged
        self._meter.counters["events_read_total"] += len(events)
        tasks: list[Task] = []
        lags = self._catch_up.by_route
        covers = self._catch_up.covers
        match = self._table.match
        for index, event in enumerate(events):
            for route in match(event, address):
                if route in lags and covers(route, offset, index):
                    continue
                task = Task(
                    Position(self._partition, offset, index),
                    checksum,
                    route,
                    event,
                    Leg.EVENT,
                    1,
                    logged_ms,
                    Origin.LIVE,
                    TTL_MAX if ttls is None else ttls[index],
                    carried,
                )
                if offset >= self._seen_until or not self.is_done(task):
                    tasks.append(task)
        self._meter.counters["matches_total"] += len(tasks)
        return tasks

    def _tick(self, logged: Logged) -> list[Task]:
        """The event of a timer: its own route alone sees it, by the filters that stand here."""
        tick = decode_tick(logged.body)
        route = tick.uid
        self._meter.counters["events_read_total"] += 1
        if route not in self._table:
            self._meter.add('dropped_total{reason="route-deleted"}')
            fields = {"route": route, "offset": logged.offset, "reason": "route-deleted"}
            self._report("tick-dropped", fields)
            return []
        if self._catch_up.covers(route, logged.offset, 0):
            return []
        if not self._table.matches(route, tick.event):
            return []
        task = Task(
            Position(self._partition, logged.offset, 0),
            logged.checksum,
            route,
            tick.event,
            Leg.EVENT,
            1,
            logged.time_ms,
            Origin.LIVE,
        )
        if self.is_done(task):
            return []
        self._meter.counters["matches_total"] += 1
        return [task]

    def is_done(self, task: Task) -> bool:
        """True for a match that had its outcome, or a row, before this owner began.

        Void where the checksum differs: the log lost that record and used its position again.
        """
        position = task.position
        key = DoneKey(position.offset, position.index, task.route)
        checksum = self._seen_before.get(key)
        if checksum is not None and checksum != task.checksum:
            self._void(key)
        return checksum == task.checksum
