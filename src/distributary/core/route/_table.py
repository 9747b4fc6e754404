"""The route table: the routes in force at one offset of the log, from the route records below."""

import re
import sys
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from distributary.core.errors import EventError, LogDamagedError, LogFormatError
from distributary.core.event import Event
from distributary.core.flow import RouteRecord, decode_route, encode_route
from distributary.core.route._index import IndexMatcher
from distributary.core.route._matcher import Matcher, WalkMatcher

SNAPSHOT_FORMAT: Final = 1
"""Format of ``RouteTable.snapshot``; raised where an older reader would misread a newer one."""

SNAPSHOT_HEADING_BYTES: Final = 80
"""Bytes at the start of a snapshot that hold its heading: two numbers of 20 digits, with names."""

_HEADING: Final = re.compile(rb'\{"format":(\d{1,20}),"last_seq":(\d{1,20}),"routes":\[')

ALONE_COUNT_MAX: Final = 4_096
"""Routes whose own filter is kept compiled for ``matches``: some 10 MB. With more timers than that,
a filter that is needed again is recompiled in some 50 us."""


class _Heading(msgspec.Struct, frozen=True):
    format: int


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    last_seq: int
    routes: list[msgspec.Raw]


class RouteTable:
    """The routes that apply to the next event of a partition.

    A pure function of the log: the same records give the same table, whether they are applied one
    by one, from a snapshot onwards, or partly twice (DESIGN rule 4, route records). Every partition
    holds every route record in the same order, so each partition's owner has a table.

    Each address has its own matcher, so no route sees an event of another address, or costs it
    anything.

    Records are kept encoded: a third of the size of objects, and ready for snapshots.

    Pure: no I/O, no clock. Not safe for use by two threads at once.

    Args:
        make_matcher: Builds the empty matcher of the default broker's routes.
    """

    def __init__(self, make_matcher: Callable[[], Matcher] = IndexMatcher) -> None:
        self._matcher = make_matcher()
        self._elsewhere: dict[str, Matcher] = {}  # by address, of the others; none is empty
        self._addresses: dict[str, str] = {}  # by uid, of the routes there
        self._bodies: dict[str, bytes] = {}  # by uid, in the order of arrival at their addresses
        self._alone: dict[str, WalkMatcher] = {}
        self._last_seq = 0

    @property
    def last_seq(self) -> int:
        """Number of the newest applied change; 0: none yet."""
        return self._last_seq

    def apply(self, record: RouteRecord) -> bool:
        """Apply the next route record of the log.

        Returns:
            False if the change is in the table already (rolled forward twice): nothing happens.

        Raises:
            ResourceError: Its filters cannot be compiled (written by a newer version, or a bug).
                The table has not changed. Stop the partition; never skip the record.
        """
        if record.seq <= self._last_seq:
            return False
        self._alone.pop(record.uid, None)
        if record.op == "put":
            self._put(record)
        else:
            self._remove(record.uid)
        self._last_seq = record.seq
        return True

    def _put(self, record: RouteRecord) -> None:
        uid, address = record.uid, sys.intern(record.address)
        found = self._matcher_of(address)
        matcher = self._matcher.another() if found is None else found
        matcher.put(record)
        if uid in self._bodies and self._addresses.get(uid, "") != address:
            self._remove(uid)  # at another address it is a new route: last in the order
        if address:
            self._elsewhere[address] = matcher
            self._addresses[uid] = address
        # a copy: the encoder's own bytes have a third of spare capacity
        self._bodies[uid] = bytes(memoryview(encode_route(record)))

    def _remove(self, uid: str) -> None:
        self._bodies.pop(uid, None)
        address = self._addresses.pop(uid, "")
        matcher = self._matcher_of(address)
        assert matcher is not None
        matcher.remove(uid)
        if address and not len(matcher):
            del self._elsewhere[address]

    def _matcher_of(self, address: str) -> Matcher | None:
        return self._elsewhere.get(address) if address else self._matcher

    def match(self, event: Event, address: str = "") -> tuple[str, ...]:
        """Return the uids of the routes that match *event*, in the order of arrival at *address*.

        Args:
            event: The event.
            address: Where it was published: uid of a Broker or Channel; empty: the default broker.
        """
        if not address:
            return self._matcher.match(event)
        matcher = self._elsewhere.get(address)
        return () if matcher is None else matcher.match(event)

    def matches(self, uid: str, event: Event) -> bool:
        """Whether the route *uid*, if it is here, matches *event*, published at any address.

        Tests no other route.
        """
        alone = self._alone.get(uid)
        if alone is None:
            record = self.record(uid)
            if record is None:
                return False
            if len(self._alone) >= ALONE_COUNT_MAX:
                self._alone.clear()
            alone = self._alone[uid] = WalkMatcher()
            alone.put(record)
        return bool(alone.match(event))

    def __contains__(self, uid: str) -> bool:
        """Whether the route *uid* is in the table."""
        return uid in self._bodies

    def record(self, uid: str) -> RouteRecord | None:
        """Return the newest record of the route; None: there is no such route here."""
        body = self._bodies.get(uid)
        return None if body is None else decode_route(body)

    def records(self) -> Iterator[RouteRecord]:
        """Yield the newest record of every route, in the order of arrival at their addresses."""
        return map(decode_route, self._bodies.values())

    def records_at(self, address: str) -> Iterator[RouteRecord]:
        """Yield the newest record of every route that listens at *address*, in their order."""
        elsewhere = self._addresses
        for uid, body in self._bodies.items():
            if elsewhere.get(uid, "") == address:
                yield decode_route(body)

    def __len__(self) -> int:
        return len(self._bodies)

    def snapshot(self) -> bytes:
        """Encode the table as the body of a ``ROUTE_SNAPSHOT`` (JSON, for people who read the log).

        Equal tables give equal bytes.
        """
        return self.frozen()()

    def frozen(self) -> Callable[[], bytes]:
        """Return a function that makes the snapshot of the present table, in any thread.

        Costs about 1 ms for 100,000 routes here; the function joins their bytes.
        """
        last_seq, bodies = self._last_seq, list(self._bodies.values())
        heading = b'{"format":%d,"last_seq":%d,"routes":[' % (SNAPSHOT_FORMAT, last_seq)
        return lambda: heading + b",".join(bodies) + b"]}"

    @classmethod
    def restore(
        cls, body: bytes, make_matcher: Callable[[], Matcher] = IndexMatcher
    ) -> "RouteTable":
        """Rebuild the table that ``snapshot`` encoded; later records apply to it as before.

        Raises:
            LogFormatError: A newer version wrote it. Upgrade.
            LogDamagedError: *body* is not a snapshot. Use another one or the store.
            ResourceError: A filter in it cannot be compiled; see ``apply``.
        """
        content = _decode(body)
        table = cls(make_matcher)
        # One by one, each freed at once: together they are larger than the table.
        content.routes.reverse()
        while content.routes:
            record = _decode_one(content.routes.pop())
            fault = table._fault_of(record, content.last_seq)
            if fault:
                raise LogDamagedError(f"not a route snapshot: {fault}")
            table._put(record)
        table._last_seq = content.last_seq
        return table

    def _fault_of(self, record: RouteRecord, last_seq: int) -> str:
        if record.op != "put":
            return "a route that was deleted"
        if record.uid in self._bodies:
            return "a duplicate route"
        if not 0 < record.seq <= last_seq:
            return "a route with a number beyond the snapshot's"
        return ""


def snapshot_seq(heading: bytes) -> int | None:
    """Return the number of the last change in a snapshot that begins with *heading*.

    None: it is not of this version.
    """
    found = _HEADING.match(heading[:SNAPSHOT_HEADING_BYTES])
    return int(found[2]) if found is not None and int(found[1]) == SNAPSHOT_FORMAT else None


def _decode(body: bytes) -> _Snapshot:
    try:
        found = msgspec.json.decode(body, type=_Heading).format
        if found > SNAPSHOT_FORMAT:
            raise LogFormatError(
                f"a route snapshot of format {found}; this version reads {SNAPSHOT_FORMAT}: upgrade"
            )
        content = msgspec.json.decode(body, type=_Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # RecursionError: raised by the decoder for JSON that is nested too deep
        raise LogDamagedError(f"not a route snapshot: {error}") from error
    if content.format < 1 or content.last_seq < 0:
        raise LogDamagedError("not a route snapshot: format or last_seq out of range")
    return content


def _decode_one(raw: msgspec.Raw) -> RouteRecord:
    try:
        return decode_route(bytes(raw))
    except (EventError, UnicodeDecodeError) as error:
        raise LogDamagedError(f"not a route snapshot: {error}") from error
