"""A log of real files with events in it, for what searches events."""

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import (
    TTL_DEFAULT,
    Position,
    RecordKind,
    RouteRecord,
    TimerEvent,
    encode_addressed,
    encode_timer_event,
)
from distributary.core.log import Appender, open_folder
from distributary.core.log.indexer import Indexer
from distributary.testing.virtual import VirtualClock


class ListedRoutes:
    """``subscriptions.events.Routes`` as a test wants them.

    Attributes:
        records: The routes.
        followed: Released whenever changes are asked for.
    """

    def __init__(self, *records: RouteRecord) -> None:
        self.records = list(records)
        self.followed = threading.Semaphore(0)

    def follow(self) -> None:
        """Tell of the call."""
        self.followed.release()

    def at(self, address: str, most: int) -> list[RouteRecord]:
        """The first *most* at *address*."""
        return [record for record in self.records if record.address == address][:most]

    def one(self, uid: str) -> RouteRecord | None:
        """The one with *uid*."""
        return next((record for record in self.records if record.uid == uid), None)


class EventLog:
    """The log in *log_dir*, open for appending; close it.

    Args:
        log_dir: Made by this.
        partitions: How many.
        segment_bytes: Length of a segment.

    Attributes:
        clock: Stamps the records; 1 ms later after each.
    """

    def __init__(self, log_dir: Path, partitions: int = 2, segment_bytes: int = 1 << 16) -> None:
        open_folder(log_dir, partitions)
        self.log_dir = log_dir
        self.clock = VirtualClock()
        self._appenders = [
            Appender.open(log_dir, number, clock=self.clock, segment_bytes=segment_bytes)
            for number in range(partitions)
        ]

    def close(self) -> None:
        """Close the files."""
        for appender in self._appenders:
            appender.close()

    def append(self, *events: Event, partition: int = 0, address: str = "") -> Position:
        """Append one record; returns the position of the first event."""
        body = event_record.encode(events)
        kind = RecordKind.EVENTS
        if address:
            kind = RecordKind.ADDRESSED
            body = encode_addressed(address, (TTL_DEFAULT,) * len(events), body)
        return self._append(kind, body, partition)

    def tick(self, uid: str, event: Event, partition: int = 0) -> Position:
        """Append an event of the timer of the route *uid*."""
        body = encode_timer_event(TimerEvent(uid, 1, 1, event))
        return self._append(RecordKind.TIMER_EVENT, body, partition)

    def _append(self, kind: RecordKind, body: bytes, partition: int) -> Position:
        self.clock.jump(1)
        return Position(partition, self._appenders[partition].append([(kind, body)]), 0)

    def index(self, folder: Path, partition: int = 0) -> None:
        """Make the index as far as it goes."""
        indexer = Indexer(self.log_dir, partition, folder, piece_bytes=1024)
        while indexer.turn(self.clock.wall_ms()):
            pass
        indexer.close()


def numbered(number: int, data: bytes | None = None, **attributes: Any) -> Event:
    """An event with its own id."""
    given: Mapping[str, Any] = {"id": f"e-{number}", "source": "/shop", "type": "com.example.order"}
    return Event({"specversion": "1.0", **given, **attributes}, data)


def ids(listed: Iterable[Mapping[str, Any]]) -> list[str]:
    """The ids of a list of events, as the API answers it."""
    return [each["event"]["id"] for each in listed]
