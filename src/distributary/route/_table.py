"""The routes that stand at one point of the log: route records applied in log order."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from distributary.errors import LogDamagedError, LogFormatError
from distributary.event import Event
from distributary.flow import RouteRecord
from distributary.route._matcher import Matcher, WalkMatcher

SNAPSHOT_FORMAT: Final = 1
"""Format of ``RouteTable.snapshot``; raised where an older reader would misread a newer one."""


class _Heading(msgspec.Struct, frozen=True):
    format: int


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    last_seq: int
    routes: tuple[RouteRecord, ...]


class RouteTable:
    """The routes that see the next event of a partition.

    A function of the log alone: the same records give the same table, whether they are applied
    one by one, from a snapshot onwards, or partly twice (DESIGN rule 4). Every partition holds
    every route record in the same order, so each partition's owner has its own table.

    Pure: no I/O, no clock. Not safe for use by two threads at once.

    Args:
        make_matcher: Builds the empty matcher that holds the routes.
    """

    def __init__(self, make_matcher: Callable[[], Matcher] = WalkMatcher) -> None:
        self._matcher = make_matcher()
        self._last_seq = 0

    @property
    def last_seq(self) -> int:
        """Number of the last change that is in the table; 0: none yet."""
        return self._last_seq

    def apply(self, record: RouteRecord) -> bool:
        """Apply the next route record of the log.

        Returns:
            False where the change is in the table already (rolled forward twice): nothing happens.

        Raises:
            ResourceError: Its filters cannot be compiled (written by a newer version, or a bug).
                The table has not changed. Stop the partition; never skip the record.
        """
        if record.seq <= self._last_seq:
            return False
        if record.op == "put":
            self._matcher.put(record)
        else:
            self._matcher.remove(record.uid)
        self._last_seq = record.seq
        return True

    def match(self, event: Event) -> tuple[str, ...]:
        """Uids of the routes that *event* matches, in the order in which they were created."""
        return self._matcher.match(event)

    def record(self, uid: str) -> RouteRecord | None:
        """The newest record of the route; None: there is no such route here."""
        return self._matcher.record(uid)

    def records(self) -> Iterable[RouteRecord]:
        """The newest record of every route, in the order in which the routes were created."""
        return self._matcher.records()

    def __len__(self) -> int:
        return len(self._matcher)

    def snapshot(self) -> bytes:
        """The table as the body of a ``ROUTE_SNAPSHOT``: JSON, so that people can read the log.

        Equal tables give equal bytes.
        """
        routes = tuple(self._matcher.records())
        content = _Snapshot(format=SNAPSHOT_FORMAT, last_seq=self._last_seq, routes=routes)
        return msgspec.json.encode(content)

    @classmethod
    def restore(
        cls, body: bytes, make_matcher: Callable[[], Matcher] = WalkMatcher
    ) -> "RouteTable":
        """The table that ``snapshot`` wrote; later records apply to it as to the first one.

        Raises:
            LogFormatError: A newer version wrote it. Upgrade.
            LogDamagedError: *body* is not a snapshot. Use another one or the store.
            ResourceError: A filter in it cannot be compiled; see ``apply``.
        """
        content = _decode(body)
        table = cls(make_matcher)
        for record in content.routes:
            table._matcher.put(record)
        table._last_seq = content.last_seq
        return table


def _decode(body: bytes) -> _Snapshot:
    try:
        found = msgspec.json.decode(body, type=_Heading).format
        if found > SNAPSHOT_FORMAT:
            raise LogFormatError(
                f"a route snapshot of format {found}; this version reads {SNAPSHOT_FORMAT}: upgrade"
            )
        content = msgspec.json.decode(body, type=_Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # RecursionError: what the decoder says of JSON that is nested too deep
        raise LogDamagedError(f"not a route snapshot: {error}") from error
    fault = _inconsistency(content)
    if fault:
        raise LogDamagedError(f"not a route snapshot: {fault}")
    return content


def _inconsistency(content: _Snapshot) -> str:
    if content.format < 1 or content.last_seq < 0:
        return "format or last_seq out of range"
    if any(record.op != "put" for record in content.routes):
        return "a route that was deleted"
    if len({record.uid for record in content.routes}) != len(content.routes):
        return "a route that stands twice"
    if any(not 0 < record.seq <= content.last_seq for record in content.routes):
        return "a route with a number beyond the snapshot's"
    return ""
