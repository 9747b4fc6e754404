"""The routes that stand at a place in the log, and keeping up with their changes.

A route record that was damaged on the medium is restored from the store, or the partition
stops; it is never skipped (DESIGN rule 4): a missed change would send events to the wrong
subscribers, or to none.
"""

import contextlib
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

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

_CACHE_HEADER = struct.Struct("<QI")
"""Where the routes stand, and the checksum of the snapshot; its own checksum follows, since it is
written again in place."""
_CACHE_HEADER_BYTES = _CACHE_HEADER.size + 4


Question: TypeAlias = Callable[[Records], list[RouteRecord]]
"""Finds changes that the log lost; blocks, and reads the partition through what it is given."""


class RouteHistory(Protocol):
    """Every change of a route that the control process has put into the log."""

    def last_seq(self) -> int:
        """The last change that stands in every partition; 0: none."""

    def newest_seq(self) -> int:
        """The last change that was made, whether or not it stands in the log yet; 0: none."""

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Changes with ``after_seq < seq < before_seq``, in order.

        Raises ``StoreError`` where that cannot be read now, and ``StoreTrimmedError`` where it
        cannot be known any more: the partition stops.
        """


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

    def first_since(self, time_ms: int) -> int:
        """The first record of *time_ms* or later; the end of the log where there is none."""
        return max(self._records.offset_at(time_ms), self._records.start())

    def pass_plain(self, logged: Logged) -> bool:
        """Pass *logged* if it changes no route and follows the last one; False: nothing is done.

        Nearly every record is such a one. For the others ask with ``asks_before``, and pass them
        with ``pass_record``.
        """
        offset = logged.offset
        if logged.kind == RecordKind.ROUTE or offset > self._next:
            return False
        self._next = offset + 1
        return True

    def asks_before(self, logged: Logged) -> Question | None:
        """What must be known before the live path may pass *logged*; None: nothing.

        Changes may be missing where there is a hole before it, or numbers are. Who asks blocks.

        Raises:
            LogDamagedError: It is a route record that cannot be read.
        """
        if logged.kind == RecordKind.ROUTE:
            last, seq = self.table.last_seq, _decode(logged).seq
            # Whatever lay in a hole has its number between.
            return partial(self._between, last, seq) if seq > last + 1 else None
        if logged.offset <= self._next:
            return None  # Nearly always.
        return partial(self._lost, self.table.last_seq, logged.offset)

    def asks_gap(self, to_offset: int) -> Question | None:
        """As ``asks_before``, where there is no record before *to_offset*."""
        return (
            partial(self._lost, self.table.last_seq, to_offset) if to_offset > self._next else None
        )

    def asks_lost(self, route: str, after_seq: int, gap_end: int) -> Question:
        """Changes of *route* after *after_seq* whose records lay in a hole that ends at *gap_end*.

        For a reader of its own that comes by the hole at another time (a backfill).
        """

        def ask(records: Records) -> list[RouteRecord]:
            lost = self._lost(after_seq, gap_end, records)
            return [record for record in lost if record.uid == route]

        return ask

    def pass_record(
        self, logged: Logged, lost: list[RouteRecord] | None = None
    ) -> Sequence[RouteRecord]:
        """The live path has come to *logged*; the changes that stand from here on.

        That is the one which it holds, if it is one, and before it those whose records were lost.
        A change that stood already (rolled forward twice) is not among them.

        Call it for every record, in order: a hole in the offsets is looked into.

        Args:
            logged: The record.
            lost: What ``asks_before`` has found; None: ask here.
        """
        if lost is None:
            question = self.asks_before(logged)
            lost = [] if question is None else question(self._records)
        self._next = logged.offset + 1
        if logged.kind == RecordKind.ROUTE:
            lost = [*lost, _decode(logged)]
        return self._take(lost, logged.offset) if lost else ()

    def pass_change(self, logged: Logged) -> None:
        """A route record, while the table is being built: other records are not looked at."""
        self._next = logged.offset + 1
        self._apply(logged)

    def reach(self, offset: int) -> None:
        """The table is built up to *offset*: restore what no record below it told of."""
        self._restore(offset)
        self._next = offset

    def pass_gap(
        self, to_offset: int, lost: list[RouteRecord] | None = None
    ) -> Sequence[RouteRecord]:
        """There is nothing (any more) up to *to_offset*; the changes that were lost there.

        Args:
            to_offset: Where the next record may stand.
            lost: What ``asks_gap`` has found; None: ask here.
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
        """Changes after *after_seq* whose records lay in a hole that ends at *gap_end*."""
        # Where no change is newer, none can be missing: the log, which may be a long backlog, is
        # not looked through for the next one.
        if self._history.newest_seq() <= after_seq:
            return []
        return self._history.between(after_seq, self._first_seq_from(gap_end, records))

    def _first_seq_from(self, offset: int, records: Records) -> int:
        """Number of the first change whose record stands at *offset* or above."""
        # Asked before the log is scanned: a change that is appended meanwhile has its record
        # above the gap, and the scan finds it or the number excludes it.
        before = self._history.last_seq() + 1
        for logged in records.kinds(offset, records.durable_end(), RecordKind.ROUTE):
            return decode_route(logged.body).seq
        return before

    def _take(self, records: list[RouteRecord], at_offset: int) -> list[RouteRecord]:
        """Apply *records*; those of them that were not applied before."""
        applied = [record for record in records if self.table.apply(record)]
        for record in applied:
            self._changed_at[record.uid] = at_offset
        return applied


def _decode(logged: Logged) -> RouteRecord:
    try:
        return decode_route(logged.body)
    except EventError as error:
        raise LogDamagedError(
            f"the route record at offset {logged.offset} cannot be read: {error}"
        ) from error


def save_table(path: Path, at_offset: int, snapshot: bytes) -> None:
    """Keep the routes at *at_offset* beside the journal: a cache, so nothing is synced."""
    write_atomically(path, _cache_header(at_offset, zlib.crc32(snapshot)) + snapshot)


def move_table(path: Path, at_offset: int) -> None:
    """The routes kept by ``save_table`` stand at *at_offset* too: no change lies between.

    So a start need not look for changes since they were kept; and it costs 16 bytes, however many
    routes there are.
    """
    with path.open("r+b") as file:
        found = _cache_header_of(file.read(_CACHE_HEADER_BYTES))
        if found is not None:
            file.seek(0)
            file.write(_cache_header(at_offset, found[1]))


def note_table(path: Path, last_seq: int, at_offset: int) -> None:
    """Routes kept at *path* that are those of the change *last_seq* stand further on too.

    Called when an owner ends: the next one then has nothing to look through.
    """
    kept = kept_at(path)
    if kept is not None and kept[1] == last_seq and kept[0] < at_offset:
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


def kept_at(path: Path) -> tuple[int, int] | None:
    """Offset and number of the last change of the routes that ``save_table`` keeps at *path*.

    Costs the same however many routes there are. None: nothing (readable) is kept.
    """
    try:
        with path.open("rb") as file:
            header = _cache_header_of(file.read(_CACHE_HEADER_BYTES))
            last_seq = snapshot_seq(file.read(SNAPSHOT_HEADING_BYTES))
    except OSError:
        return None
    return None if header is None or last_seq is None else (header[0], last_seq)


def _load_cache(path: Path) -> tuple[int, bytes] | None:
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
) -> RouteFollower:
    """The routes that stand at *offset*: from the nearest snapshot below it, and the log.

    Args:
        path: Where ``save_table`` keeps its cache.
        records: The partition.
        history: Restores changes that the medium lost.
        offset: Where the live path begins.
        make_matcher: Builds the empty matcher of the table.
    """
    at_offset, newest = 0, None
    for found in (_snapshot(records), _load_cache(path)):
        if found is not None and at_offset <= found[0] <= offset:
            at_offset, newest = found
    table = RouteTable(make_matcher) if newest is None else RouteTable.restore(newest, make_matcher)
    follower = RouteFollower(records, history, table, at_offset)
    for logged in records.kinds(at_offset, offset, RecordKind.ROUTE):
        follower.pass_change(logged)
    follower.reach(offset)
    return follower


def follow_on(
    table: RouteTable, path: Path, records: Records, history: RouteHistory, offset: int
) -> RouteFollower | None:
    """The routes that stand at *offset*, from a *table* that was built before: nothing is compiled.

    *table* is that of any partition: all hold the same changes in the same order, so how far it
    is, is told by the number of its last change.

    Args:
        table: Changed, or to be thrown away where the answer is None.
        path: See ``follow_from``.
        records: The partition.
        history: See ``follow_from``.
        offset: Where the live path begins.

    Returns:
        None where *table* is newer than *offset*, or what came since cannot be told.
    """
    kept = kept_at(path)
    if kept is None or not records.start() <= kept[0] <= offset:
        return None
    at_offset, standing = kept
    changes = list(records.kinds(at_offset, offset, RecordKind.ROUTE))
    if changes:
        standing = max(standing, decode_route(changes[-1].body).seq)
    if table.last_seq > standing:
        return None
    follower = RouteFollower(records, history, table, at_offset)
    try:
        for record in history.between(table.last_seq, kept[1] + 1):
            table.apply(record)
    except StoreError:
        return None
    for logged in changes:
        follower.pass_change(logged)
    follower.reach(offset)
    return follower
