"""The routes that stand at a place in the log, and keeping up with their changes.

A route record that was damaged on the medium is restored from the store, or the partition
stops; it is never skipped (DESIGN rule 4): a missed change would send events to the wrong
subscribers, or to none.
"""

import struct
import zlib
from pathlib import Path
from typing import Protocol

from distributary.errors import EventError, LogDamagedError
from distributary.flow import Kind, Logged, RouteRecord, decode_route
from distributary.pipeline._ports import Records
from distributary.route import RouteTable

_CACHE_HEADER = struct.Struct("<QI")


class RouteHistory(Protocol):
    """Every change of a route that the control process has put into the log."""

    def last_seq(self) -> int:
        """The last change that stands in every partition; 0: none."""
        ...

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Changes with ``after_seq < seq < before_seq``, in order.

        Raises ``StoreError`` where that cannot be known: the partition stops.
        """
        ...


class RouteFollower:
    """A route table that follows the log.

    Args:
        records: The partition.
        history: Restores changes that the medium lost.
        table: The routes at *at_offset*.
        at_offset: Every route record below it has been applied.
    """

    def __init__(
        self, records: Records, history: RouteHistory, table: RouteTable, at_offset: int
    ) -> None:
        self.table = table
        self._records = records
        self._history = history
        self._next = at_offset
        self._changed_at: dict[str, int] = {}

    def changed_at(self, route: str) -> int:
        """Where the filters of *route* that stand now were met; 0: before the live path began."""
        return self._changed_at.get(route, 0)

    def pass_record(self, logged: Logged) -> RouteRecord | None:
        """The live path has come to *logged*; the change that it holds, where it is one.

        Call it for every record, in order: a hole in the offsets is looked into.
        """
        if logged.offset > self._next:
            self._restore(logged.offset)
        self._next = logged.offset + 1
        if logged.kind != Kind.ROUTE:
            return None
        change = self._apply(logged)
        self._changed_at[change.uid] = logged.offset
        return change

    def pass_change(self, logged: Logged) -> None:
        """A route record, while the table is being built: other records are not looked at."""
        self._next = logged.offset + 1
        self._apply(logged)

    def reach(self, offset: int) -> None:
        """The table is built up to *offset*: restore what no record below it told of."""
        self._restore(offset)
        self._next = offset

    def pass_gap(self, to_offset: int) -> None:
        """There is nothing (any more) between the last record and *to_offset*."""
        if to_offset > self._next:
            self._restore(to_offset)
            self._next = to_offset

    def _apply(self, logged: Logged) -> RouteRecord:
        try:
            record = decode_route(logged.body)
        except EventError as error:
            raise LogDamagedError(
                f"the route record at offset {logged.offset} cannot be read: {error}"
            ) from error
        if record.seq > self.table.last_seq + 1:
            self._take(self._history.between(self.table.last_seq, record.seq), logged.offset)
        self.table.apply(record)
        return record

    def lost_changes(self, route: str, after_seq: int, gap_end: int) -> list[RouteRecord]:
        """Changes of *route* after *after_seq* whose records lay in a hole that ends at *gap_end*.

        For a reader of its own that comes by the hole at another time (a lag).
        """
        lost = self._history.between(after_seq, self._first_seq_from(gap_end))
        return [record for record in lost if record.uid == route]

    def _restore(self, gap_end: int) -> None:
        before = self._first_seq_from(gap_end)
        self._take(self._history.between(self.table.last_seq, before), gap_end)

    def _first_seq_from(self, offset: int) -> int:
        """Number of the first change whose record stands at *offset* or above."""
        # Asked before the log is scanned: a change that is appended meanwhile has its record
        # above the gap, and the scan finds it or the number excludes it.
        before = self._history.last_seq() + 1
        for logged in self._records.kinds(offset, self._records.durable_end(), Kind.ROUTE):
            return decode_route(logged.body).seq
        return before

    def _take(self, records: list[RouteRecord], at_offset: int) -> None:
        for record in records:
            self.table.apply(record)
            self._changed_at[record.uid] = at_offset


def save_table(path: Path, at_offset: int, snapshot: bytes) -> None:
    """Keep the routes at *at_offset* beside the journal: a cache, so nothing is synced."""
    content = _CACHE_HEADER.pack(at_offset, zlib.crc32(snapshot)) + snapshot
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.rename(path)


def _load_cache(path: Path) -> tuple[int, bytes] | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if len(content) < _CACHE_HEADER.size:
        return None
    at_offset, checksum = _CACHE_HEADER.unpack_from(content)
    snapshot = content[_CACHE_HEADER.size :]
    return (at_offset, snapshot) if zlib.crc32(snapshot) == checksum else None


def _snapshot(records: Records) -> tuple[int, bytes] | None:
    try:
        return records.route_snapshot()
    except LogDamagedError:
        # Damaged on the medium: the cache may do, else the store restores every change since the
        # first, or refuses and so stops the partition (DESIGN rule 4).
        return None


def follow_from(path: Path, records: Records, history: RouteHistory, offset: int) -> RouteFollower:
    """The routes that stand at *offset*: from the nearest snapshot below it, and the log.

    Args:
        path: Where ``save_table`` keeps its cache.
        records: The partition.
        history: Restores changes that the medium lost.
        offset: Where the live path begins.
    """
    table, at_offset = RouteTable(), 0
    for found in (_snapshot(records), _load_cache(path)):
        if found is not None and at_offset <= found[0] <= offset:
            at_offset, table = found[0], RouteTable.restore(found[1])
    follower = RouteFollower(records, history, table, at_offset)
    for logged in records.kinds(at_offset, offset, Kind.ROUTE):
        follower.pass_change(logged)
    follower.reach(offset)
    return follower
