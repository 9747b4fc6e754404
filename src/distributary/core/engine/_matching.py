"""Matches a record of the live reader: makes a task for each route that its events match."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from distributary.core.engine._outcomes import Outcomes
from distributary.core.engine.state import PartitionState
from distributary.core.errors import EventError
from distributary.core.flow import (
    TOLD,
    AddressedEvents,
    DoneKey,
    Logged,
    Origin,
    Position,
    Stage,
    Task,
    events_of,
)

# Constants: in Python 3.11 a member read from its enumeration costs as much as several calls.
_PRIMARY: Final = Stage.PRIMARY
_LIVE: Final = Origin.LIVE


class Matching:
    """The matcher of the live reader: records in, tasks out, completed matches left out.

    Args:
        state: Of the partition; its follower has the routes in force at the live reader.
        outcomes: Voids the row of a match whose log position was reused.
    """

    def __init__(self, state: PartitionState, outcomes: Outcomes) -> None:
        self._partition = state.partition
        self._table = state.follower.table
        self._backfills = state.backfills
        self._meter = state.meter
        self._report, self._warn = state.effects.report, state.effects.warn
        self._slice_tasks = state.limits.slice_tasks
        self._void = outcomes.void
        self._seen_before: dict[DoneKey, int] = {}
        self._seen_until = 0

    def load(self, seen: dict[DoneKey, int]) -> None:
        """Load the matches with an outcome or a row at the start, with their checksums."""
        self._seen_before = seen
        self._seen_until = max((key.offset + 1 for key in seen), default=0)

    def tasks(self, logged: Logged) -> list[Task] | Iterator[Task]:
        """The matches of a record that are not done and that no backfill covers.

        Returns:
            A list; of many matches a lazy iterator, which must be exhausted before the next record
            is taken and before a backfill joins.
        """
        try:
            held = events_of(logged)
        except EventError as error:
            # Intact (the checksums hold), but no known version wrote it: report, count, skip.
            self._meter.add("undecodable_records_total")
            self._warn("undecodable-record", {"offset": logged.offset, "error": str(error)})
            return []
        if held is None:
            return []
        return self._tick(logged, held) if held.route else self._events(logged, held)

    def _events(self, logged: Logged, held: AddressedEvents) -> list[Task] | Iterator[Task]:
        """The matches of published events, for all routes of their address."""
        address, ttls, events, carried, _ = held
        self._meter.counters["events_read_total"] += len(events)
        match = self._table.match
        offset, logged_ms, checksum, _, _ = logged
        backfills = self._backfills.by_route
        covers = self._backfills.covers
        tasks: list[Task] = []
        # The hot path of most events: each call for every match costs noticeable time.
        for index, event in enumerate(events):
            routes = match(event, address)
            if not routes:
                continue
            if len(tasks) + len(routes) > self._slice_tasks:
                self._meter.counters["matches_total"] += len(tasks)
                return chain(tasks, self._rest(logged, index, held))
            place = tuple.__new__(Position, (self._partition, offset, index))
            for route in routes:
                if route in backfills and covers(route, offset, index):
                    continue
                task = Task(
                    place,
                    checksum,
                    route,
                    event,
                    _PRIMARY,
                    1,
                    logged_ms,
                    _LIVE,
                    ttls[index],
                    carried,
                )
                if offset >= self._seen_until or not self.is_done(task):
                    tasks.append(task)
        self._meter.counters["matches_total"] += len(tasks)
        return tasks

    def _rest(self, logged: Logged, first: int, held: AddressedEvents) -> Iterator[Task]:
        """Like ``_events`` from the event *first* on, one match at a time."""
        address, ttls, events, carried, _ = held
        backfills = self._backfills.by_route
        counters = self._meter.counters
        for index in range(first, len(events)):
            event = events[index]
            place = Position(self._partition, logged.offset, index)
            for route in self._table.match(event, address):
                if route in backfills and self._backfills.covers(route, logged.offset, index):
                    continue
                task = Task(
                    place,
                    logged.checksum,
                    route,
                    event,
                    Stage.PRIMARY,
                    1,
                    logged.time_ms,
                    Origin.LIVE,
                    ttls[index],
                    carried,
                )
                if logged.offset >= self._seen_until or not self.is_done(task):
                    counters["matches_total"] += 1
                    yield task

    def _tick(self, logged: Logged, held: AddressedEvents) -> list[Task]:
        """The match of a timer event: only its own route, by the filters in force here."""
        (event,) = held.events
        route = held.route
        self._meter.counters["events_read_total"] += 1
        if route not in self._table:
            self._meter.add('dropped_total{reason="route-deleted"}')
            fields = {"route": route, "offset": logged.offset, "reason": "route-deleted"}
            self._report("tick-dropped", fields)
            return []
        if self._backfills.covers(route, logged.offset, 0):
            return []
        if held.address != TOLD and not self._table.matches(route, event):
            return []
        task = Task(
            Position(self._partition, logged.offset, 0),
            logged.checksum,
            route,
            event,
            Stage.PRIMARY,
            1,
            logged.time_ms,
            Origin.LIVE,
            about_route=held.address == TOLD,
        )
        if self.is_done(task):
            return []
        self._meter.counters["matches_total"] += 1
        return [task]

    def is_done(self, task: Task) -> bool:
        """True for a match that had its outcome, or a row, at the start.

        A differing checksum voids it: the log lost that record and reused its position.
        """
        position = task.position
        key = DoneKey(position.offset, position.index, task.route)
        checksum = self._seen_before.get(key)
        if checksum is not None and checksum != task.checksum:
            self._void(key)
        return checksum == task.checksum
