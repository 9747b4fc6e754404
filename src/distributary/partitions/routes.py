"""The routes in force at an offset of the log, and the follower that applies their changes.

A route record damaged on the medium is restored from the store, or the partition stops; it is never
skipped (DESIGN rule 4, route records): a missed change would send events to the wrong subscribers,
or to none.
"""

import contextlib
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from distributary.core.errors import EventError, LogDamagedError, StoreError
from distributary.core.files import write_atomically
from distributary.core.flow import Logged, RecordKind, RouteRecord, decode_route
from distributary.core.route import (
    SNAPSHOT_HEADING_BYTES,
    IndexMatcher,
    Matcher,
    RouteTable,
    snapshot_seq,
)
from distributary.partitions.ports import Records

_ROUTE: Final = int(RecordKind.ROUTE)
_CACHE_HEADER = struct.Struct("<QI")
"""Offset of the routes, and checksum of the snapshot; a checksum of the header follows, since the
header is updated in place."""
_CACHE_HEADER_BYTES = _CACHE_HEADER.size + 4

ROUTES_AT_BYTES: Final = _CACHE_HEADER_BYTES + SNAPSHOT_HEADING_BYTES
"""Of the beginning of a cache file, which tell its ``RoutesAt``."""
CHANGES_AT_ONCE: Final = 10_000
"""Changes that are read from the store at a time."""


Question: TypeAlias = Callable[[Records], list[RouteRecord]]
"""Finds route changes that the log lost, reading the partition through its argument; blocks."""


class RoutesAt(NamedTuple):
    """Which routes are in force at an offset of a partition: a fact of the log, which stays.

    Attributes:
        offset: The offset.
        seq: Number of the last change below it.
    """

    offset: int
    seq: int


class RouteHistory(Protocol):
    """Every change of a route that the control process has appended to the log."""

    def last_seq(self) -> int:
        """Returns the last change whose record is in every partition; 0: none."""

    def newest_seq(self) -> int:
        """Returns the last change made, whether or not its record is in the log yet; 0: none."""

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Returns changes with ``after_seq < seq < before_seq``, in order.

        Raises:
            StoreError: The store cannot be read now.
            StoreTrimmedError: The store has deleted some of them: the partition stops.
        """


class RouteFollower:
    """A route table that follows the log.

    Args:
        records: Reader of the partition.
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
        self._since = at_offset
        self._changed_at: dict[str, int] = {}

    @property
    def span(self) -> tuple[int, int]:
        """Lowest and highest offset at which the routes in force are those of the table."""
        return self._since, self._next

    def changed_at(self, route: str) -> int:
        """Returns the offset of the last change of *route*; 0: before the live path began."""
        return self._changed_at.get(route, 0)

    def begins(self, logged: Logged | None, lost: Sequence[RouteRecord]) -> list[RouteRecord]:
        """Returns those of *lost* and the change in *logged* that are new and begin in the past."""
        changes = list(lost)
        if logged is not None and logged.kind == _ROUTE:
            changes.append(_decode(logged))
        last = self.table.last_seq
        return [each for each in changes if each.seq > last and each.begin_ms is not None]

    def pass_plain(self, logged: Logged) -> bool:
        """Pass *logged* if it is no route record and follows the last record, as nearly all do.

        Returns False otherwise, without effect: then call ``asks_before`` and ``pass_record``.
        """
        offset = logged.offset
        if logged.kind == _ROUTE or offset > self._next:
            return False
        self._next = offset + 1
        return True

    def asks_before(self, logged: Logged) -> Question | None:
        """Returns what to look up before the live path may pass *logged*; None: nothing.

        Changes may be lost where offsets or change numbers have a gap. The look-up blocks.

        Raises:
            LogDamagedError: The route record cannot be read.
        """
        if logged.kind == RecordKind.ROUTE:
            last, seq = self.table.last_seq, _decode(logged).seq
            # Whatever lay in a hole has its number between.
            return partial(self._between, last, seq) if seq > last + 1 else None
        if logged.offset <= self._next:
            return None  # Nearly always.
        return partial(self._lost, self.table.last_seq, logged.offset)

    def asks_gap(self, to_offset: int) -> Question | None:
        """As ``asks_before``, for a hole up to *to_offset*."""
        return (
            partial(self._lost, self.table.last_seq, to_offset) if to_offset > self._next else None
        )

    def asks_lost(self, route: str, after_seq: int, gap_end: int) -> Question:
        """Returns a look-up of changes of *route* after *after_seq*, lost in a hole to *gap_end*.

        For a backfill, which reaches the hole independently of the live path.
        """

        def ask(records: Records) -> list[RouteRecord]:
            lost = self._lost(after_seq, gap_end, records)
            return [record for record in lost if record.uid == route]

        return ask

    def pass_record(
        self, logged: Logged, lost: list[RouteRecord] | None = None
    ) -> Sequence[RouteRecord]:
        """Pass *logged* on the live path; returns the route changes applied.

        These are the lost changes, then the one of *logged* if it is a route record. Repeated
        changes (rolled forward twice) are left out. Call it for every record, in order.

        Args:
            logged: The record.
            lost: The result of ``asks_before``; None: look it up here.
        """
        if lost is None:
            question = self.asks_before(logged)
            lost = [] if question is None else question(self._records)
        self._next = logged.offset + 1
        if logged.kind == RecordKind.ROUTE:
            lost = [*lost, _decode(logged)]
        return self._take(lost, logged.offset) if lost else ()

    def pass_change(self, logged: Logged) -> None:
        """Apply a route record while the table is built, which reads no other records."""
        self._next = logged.offset + 1
        self._apply(logged)

    def reach(self, offset: int) -> None:
        """Finish building the table at *offset*: restore changes lost below it."""
        self._restore(offset)
        self._next = offset

    def pass_gap(
        self, to_offset: int, lost: list[RouteRecord] | None = None
    ) -> Sequence[RouteRecord]:
        """Pass a hole; returns the changes that were lost in it.

        Args:
            to_offset: End of the hole.
            lost: The result of ``asks_gap``; None: look it up here.
        """
        if to_offset <= self._next:
            return ()
        if lost is None:
            lost = self._lost(self.table.last_seq, to_offset, self._records)
        self._next = to_offset
        return self._take(lost, to_offset)

    def _apply(self, logged: Logged) -> list[RouteRecord]:
        record = _decode(logged)
        lost: list[RouteRecord] = []
        if record.seq > self.table.last_seq + 1:
            lost = self._history.between(self.table.last_seq, record.seq)
        return self._take([*lost, record], logged.offset)

    def _between(self, after_seq: int, before_seq: int, _records: Records) -> list[RouteRecord]:
        return self._history.between(after_seq, before_seq)

    def _restore(self, gap_end: int) -> list[RouteRecord]:
        return self._take(self._lost(self.table.last_seq, gap_end, self._records), gap_end)

    def _lost(self, after_seq: int, gap_end: int, records: Records) -> list[RouteRecord]:
        """Returns changes after *after_seq* whose records were lost in a hole to *gap_end*."""
        # Where no change is newer, none can be missing: the log, which may be a long backlog, is
        # not looked through for the next one.
        if self._history.newest_seq() <= after_seq:
            return []
        return self._history.between(after_seq, self._first_seq_from(gap_end, records))

    def _first_seq_from(self, offset: int, records: Records) -> int:
        """Returns the number of the first change whose record is at *offset* or above."""
        # Asked before the log is scanned: a change that is appended meanwhile has its record
        # above the gap, and the scan finds it or the number excludes it.
        before = self._history.last_seq() + 1
        for logged in records.kinds(offset, records.durable_end(), RecordKind.ROUTE):
            return decode_route(logged.body).seq
        return before

    def _take(self, records: list[RouteRecord], at_offset: int) -> list[RouteRecord]:
        """Apply *records*; returns those not applied before."""
        applied = [record for record in records if self.table.apply(record)]
        for record in applied:
            self._changed_at[record.uid] = at_offset
            self._since = at_offset + 1
        return applied


def _decode(logged: Logged) -> RouteRecord:
    try:
        return decode_route(logged.body)
    except EventError as error:
        raise LogDamagedError(
            f"the route record at offset {logged.offset} cannot be read: {error}"
        ) from error


def save_table(path: Path, at_offset: int, snapshot: bytes) -> None:
    """Write the routes at *at_offset* to the cache beside the journal; not synced."""
    write_atomically(path, _cache_header(at_offset, zlib.crc32(snapshot)) + snapshot)


def move_table(path: Path, at_offset: int) -> None:
    """Move the offset of the cached routes to *at_offset*: no change lies between.

    Writes 16 bytes, whatever the number of routes, and saves a start the search for changes.
    """
    with path.open("r+b") as file:
        found = _cache_header_of(file.read(_CACHE_HEADER_BYTES))
        if found is not None:
            file.seek(0)
            file.write(_cache_header(at_offset, found[1]))


def note_table(path: Path, last_seq: int, at_offset: int) -> None:
    """Move the offset of the cache at *path*, if its last change is *last_seq*.

    Called when an owner ends: the next one then has nothing to search.
    """
    kept = kept_at(path)
    if kept is not None and kept.seq == last_seq and kept.offset < at_offset:
        with contextlib.suppress(OSError):  # it only shortens a start
            move_table(path, at_offset)


def _cache_header(at_offset: int, checksum: int) -> bytes:
    header = _CACHE_HEADER.pack(at_offset, checksum)
    return header + zlib.crc32(header).to_bytes(4, "little")


def _cache_header_of(content: bytes) -> tuple[int, int] | None:
    if len(content) < _CACHE_HEADER_BYTES:
        return None
    at_offset, checksum = _CACHE_HEADER.unpack_from(content)
    expected = _cache_header(at_offset, checksum)
    return (at_offset, checksum) if content[:_CACHE_HEADER_BYTES] == expected else None


def kept_at(path: Path) -> RoutesAt | None:
    """Returns offset and last change of the cache at *path*; None: none, or it is unreadable.

    Costs the same for any number of routes.
    """
    try:
        with path.open("rb") as file:
            return routes_at_of(file.read(ROUTES_AT_BYTES))
    except OSError:
        return None


def routes_at_of(content: bytes) -> RoutesAt | None:
    """Returns what a cache file says whose first ``ROUTES_AT_BYTES`` are given; None: nothing."""
    header = _cache_header_of(content)
    last_seq = snapshot_seq(content[_CACHE_HEADER_BYTES:ROUTES_AT_BYTES])
    return None if header is None or last_seq is None else RoutesAt(header[0], last_seq)


def saved_table(path: Path) -> tuple[int, bytes] | None:
    """Returns offset and snapshot of the cache at *path*; None: none, or it is unreadable."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    header = _cache_header_of(content)
    if header is None:
        return None
    at_offset, checksum = header
    snapshot = content[_CACHE_HEADER_BYTES:]
    return (at_offset, snapshot) if zlib.crc32(snapshot) == checksum else None


def _snapshot(records: Records) -> tuple[int, bytes] | None:
    try:
        return records.route_snapshot()
    except LogDamagedError:
        # Damaged on the medium: the cache may do, else the store restores every change since the
        # first, or refuses and so stops the partition (DESIGN rule 4).
        return None


def follow_from(
    path: Path,
    records: Records,
    history: RouteHistory,
    offset: int,
    make_matcher: Callable[[], Matcher] = IndexMatcher,
    *,
    known: RoutesAt | None = None,
) -> RouteFollower:
    """Builds the routes in force at *offset*, from the nearest snapshot below it and the log.

    A log that is elsewhere has to be fetched whole for its few route records. So where somebody has
    read it before, the changes come from the store, and only what follows from the log.

    Args:
        path: Cache file of ``save_table``.
        records: Reader of the partition.
        history: Restores changes that the medium lost.
        offset: Start of the live path.
        make_matcher: Makes an empty matcher.
        known: Of the partition, as somebody has told it who has read the log; None: nobody has.
    """
    at_offset, newest = 0, None
    for found in (_snapshot(records), saved_table(path)):
        if found is not None and at_offset <= found[0] <= offset:
            at_offset, newest = found
    table = RouteTable(make_matcher) if newest is None else RouteTable.restore(newest, make_matcher)
    if known is not None and at_offset < known.offset <= offset:
        with contextlib.suppress(StoreError):  # the log has them all
            if _bring_on(table, history, known.seq):
                at_offset = known.offset
    follower = RouteFollower(records, history, table, at_offset)
    for logged in records.kinds(at_offset, offset, RecordKind.ROUTE):
        follower.pass_change(logged)
    follower.reach(offset)
    return follower


def _bring_on(table: RouteTable, history: RouteHistory, seq: int) -> bool:
    """Apply the changes up to *seq* that the store has; whether it has all of them."""
    while table.last_seq < seq:
        first = table.last_seq + 1
        end = min(first + CHANGES_AT_ONCE, seq + 1)
        changes = history.between(first - 1, end)
        if [change.seq for change in changes] != list(range(first, end)):
            return False
        for change in changes:
            table.apply(change)
    return table.last_seq == seq


def follow_again(
    table: RouteTable,
    span: tuple[int, int],
    records: Records,
    history: RouteHistory,
    offset: int,
) -> RouteFollower | None:
    """Follows the partition on that *table* has followed before, in this process.

    Args:
        table: Modified unless the result is None.
        span: Of its last follower.
        records: Reader of the same partition.
        history: Restores changes.
        offset: Start of the live path.

    Returns:
        None where *table* is newer than *offset*, or retention has deleted records above it.
    """
    since, at_offset = span[0], min(span[1], offset)
    if since > offset or at_offset < records.start():
        return None
    follower = RouteFollower(records, history, table, at_offset)
    for logged in records.kinds(at_offset, offset, RecordKind.ROUTE):
        follower.pass_change(logged)
    follower.reach(offset)
    return follower


def follow_on(
    table: RouteTable,
    kept: RoutesAt | None,
    records: Records,
    history: RouteHistory,
    offset: int,
) -> RouteFollower | None:
    """Brings an existing *table* to *offset*, without compiling routes again.

    *table* may be of any partition: all have the same changes in the same order, so the number of
    its last change tells its state.

    Args:
        table: Modified; discard it where the result is None.
        kept: Of the partition, from a cache file or as somebody has told it.
        records: Reader of the partition.
        history: Restores changes.
        offset: Start of the live path.

    Returns:
        None where *table* is newer than *offset*, or the changes since are unknown.
    """
    if kept is None or not records.start() <= kept.offset <= offset:
        return None
    at_offset, standing = kept
    changes = list(records.kinds(at_offset, offset, RecordKind.ROUTE))
    if changes:
        standing = max(standing, decode_route(changes[-1].body).seq)
    if table.last_seq > standing:
        return None
    follower = RouteFollower(records, history, table, at_offset)
    try:
        for record in history.between(table.last_seq, kept.seq + 1):
            table.apply(record)
    except StoreError:
        return None
    for logged in changes:
        follower.pass_change(logged)
    follower.reach(offset)
    return follower
