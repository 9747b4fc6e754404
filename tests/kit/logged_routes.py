"""A log with route records in it, and the store of their changes."""

from pathlib import Path

from distributary.core.clock import Clock
from distributary.core.flow import RecordKind, RouteRecord, encode_route
from distributary.core.route import RouteTable
from distributary.partitions.routes import RouteFollower, follow_from, save_table
from distributary.testing.memory_log import MemoryLog
from distributary.testing.simulated_ports import SimulatedTargets


def put(seq: int, uid: str, *types: str, revision: int = 1) -> RouteRecord:
    """A change."""
    return RouteRecord(seq=seq, op="put", uid=uid, revision=revision, types=types)


def delete(seq: int, uid: str) -> RouteRecord:
    """A deletion."""
    return RouteRecord(seq=seq, op="delete", uid=uid, revision=1)


class Place:
    """A log with routes in it, the store, and the cache of an owner."""

    def __init__(self, clock: Clock, folder: Path) -> None:
        self.log = MemoryLog(clock)
        self.history = SimulatedTargets()
        self.path = folder / "routes"

    def change(self, record: RouteRecord, *, in_log: bool = True) -> int:
        """Make a change; returns the offset of its record, which the log may have lost."""
        self.history.changes.append(record)
        if in_log:
            return self.log.append([(RecordKind.ROUTE, encode_route(record))])
        return -1

    def event(self) -> int:
        """Append an event."""
        return self.log.append([(RecordKind.EVENTS, b"")])

    def follow(self, offset: int | None = None) -> RouteFollower:
        """The routes at *offset*; None: at the end."""
        end = self.log.durable_end() if offset is None else offset
        return follow_from(self.path, self.log, self.history, end)


def kept(place: Place, at_offset: int) -> RouteTable:
    """Keep the routes that stand at *at_offset*, as an owner does; their table."""
    table = place.follow(at_offset).table
    save_table(place.path, at_offset, table.snapshot())
    return table
