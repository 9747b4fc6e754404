"""The publisher of a simulation: makes events, and remembers their hop limits and headers."""

import random
from collections.abc import Sequence

from distributary.core.event import Event
from distributary.core.event import carried as event_carried
from distributary.core.event import record as event_record
from distributary.core.flow import (
    TTL_DEFAULT,
    Position,
    RecordKind,
    RouteRecord,
    Stage,
    Task,
    TimerEvent,
    encode_addressed,
    encode_carried,
    encode_timer_event,
)
from distributary.testing.binary_form import in_binary_form
from distributary.testing.memory_log import MemoryLog
from kit.simulation.naive_routes import matches, published
from kit.simulation.outcome_checker import OutcomeChecker
from kit.simulation.sinks import origin_id

__all__ = ["Publisher", "expect_history"]


class Publisher:
    """Makes records of events; no two events have the same id.

    Args:
        chance: Draws their data.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._ttls: dict[str, int] = {}  # by event id, where they are not ``TTL_DEFAULT``
        self._carried: dict[str, bytes] = {}  # by event id, where there is any
        self._event_count = 0
        self._tick_count = 0

    def record(
        self, types: Sequence[str], address: str, ttl: int
    ) -> tuple[int, bytes, list[Event]]:
        """Kind and body of a record with an event of each of *types*, and the events.

        They go to *address*; the first of them has *ttl* passes left. With every second record
        that has one of these goes a header field. Every second record of one event with data is in
        binary form.
        """
        events = [self._event(name) for name in types]
        in_binary = len(events) == 1 and events[0].data and self._event_count % 2 == 0
        body = event_record.encode([in_binary_form(events[0])] if in_binary else events)
        if not address and ttl == TTL_DEFAULT:
            return RecordKind.EVENTS, body, events
        self._ttls[str(events[0].attributes["id"])] = ttl
        ttls = (ttl, *[TTL_DEFAULT] * (len(events) - 1))
        if self._event_count % 4 < 2:
            return RecordKind.ADDRESSED, encode_addressed(address, ttls, body), events
        carried = b"traceparent: %d\r\nknative-n: 1\r\n" % self._event_count
        self._carried.update((str(event.attributes["id"]), carried) for event in events)
        return RecordKind.CARRIED, encode_carried(address, ttls, body, carried), events

    def timer_event(self, route: str, name: str) -> tuple[bytes, Event]:
        """Body of a record with the next event of the timer of *route*, and the event."""
        event = self._event(name)
        self._tick_count += 1
        return encode_timer_event(TimerEvent(route, 1, self._tick_count, event)), event

    def _event(self, name: str) -> Event:
        self._event_count += 1
        data = self._chance.randbytes(self._chance.randrange(40))
        identity = f"e{self._event_count}"
        return Event({"specversion": "1.0", "id": identity, "source": "/s", "type": name}, data)

    def check_task(self, task: Task) -> None:
        """Assert that *task* has its event's hop limit and headers, however often it was reread."""
        name = origin_id(task.event)
        expected = self._ttls.get(name, TTL_DEFAULT)
        assert task.ttl == expected, f"{task.ttl} passes left, not {expected}"
        carried = self._carried.get(name, b"")
        if task.stage is Stage.REPLY:
            carried = event_carried.trace(carried)
        assert task.carried == carried, f"{task.carried!r} go along, not {carried!r}"


def expect_history(
    log: MemoryLog, checker: OutcomeChecker, record: RouteRecord, begin_ms: int
) -> None:
    """Expect outcomes of what the log holds since *begin_ms* for the new route of *record*."""
    end = log.durable_end()
    for logged in log.read(log.offset_at(begin_ms), end):
        address, events = published(logged)
        for index, event in enumerate(events):
            position = Position(0, logged.offset, index)
            if not checker.is_noted(position) or address != record.address:
                continue
            if matches(record, event.attributes):
                checker.expect(position, record.uid, event, created_at=end)
