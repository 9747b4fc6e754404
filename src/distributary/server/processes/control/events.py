"""The search for events, wired to the data directory."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final

import sqlalchemy as sa

from distributary.core.database import StorePlace
from distributary.core.errors import StoreTrimmedError
from distributary.core.flow import Position, RouteRecord
from distributary.core.log.taken import OnceLimits
from distributary.core.route import BlindMatcher, RouteTable
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.datadir.shared_signs import signs_of
from distributary.partitions import DirectoryTargets
from distributary.partitions.ports import Records
from distributary.partitions.routes import RouteHistory, follow_from, saved_table
from distributary.server.processes.control.views import Views
from distributary.server.processes.pipeline.history import is_own
from distributary.server.settings import Settings
from distributary.subscriptions.events import EventPlaces, Events
from distributary.subscriptions.store.store import Store

ROUTES_HELD_MAX: Final = 20_000
"""Routes that stay in memory between two questions: some 8 MB. More are read each time, which takes
some 10 us each."""


class RoutesNow:
    """``subscriptions.events.Routes``: the newest record of each route.

    Args:
        paths: Paths of the data directory.
        url: Of the resource store.
        records: Returns a reader of a partition.
    """

    def __init__(self, paths: DataDir, url: sa.URL, records: Callable[[int], Records]) -> None:
        self._paths = paths
        self._records = records
        self._url = url
        self._may_be_written = signs_of(self._url)
        self._held: RouteTable | None = None
        self._lock = Lock()

    def follow(self) -> None:
        """See ``Routes``: reads if the store may have been written and the routes are in memory."""
        if self._held is not None and self._may_be_written():
            self.one("")

    def at(self, address: str, most: int) -> Iterable[RouteRecord]:
        """See ``Routes``."""
        with self._brought_up() as table:
            return list(islice(table.records_at(address), most))

    def one(self, uid: str) -> RouteRecord | None:
        """See ``Routes``."""
        with self._brought_up() as table:
            return table.record(uid)

    @contextlib.contextmanager
    def _brought_up(self) -> Iterator[RouteTable]:
        """A table of all changes up to now; nobody else uses it meanwhile."""
        changes = DirectoryTargets(self._url)
        try:
            with self._lock:
                table = self._held
                self._held = None  # whatever fails in between has left it half changed
                try:
                    table = _grown(table or self._saved(), changes)
                except StoreTrimmedError:
                    table = self._followed(changes)
                if len(table) <= ROUTES_HELD_MAX:
                    self._held = table
                yield table
        finally:
            changes.close()

    def _saved(self) -> RouteTable:
        """The routes that the owner of the first partition has saved; none where it has not yet."""
        found = saved_table(self._paths.routes(0))
        return RouteTable(BlindMatcher) if found is None else _restored(found[1])

    def _followed(self, changes: RouteHistory) -> RouteTable:
        """The routes by the log, where the store no longer has all changes since."""
        records = self._records(0)
        try:
            end = records.durable_end()
            follower = follow_from(self._paths.routes(0), records, changes, end, BlindMatcher)
            return _grown(follower.table, changes)
        finally:
            records.close()


def _restored(snapshot: bytes) -> RouteTable:
    return RouteTable.restore(snapshot, BlindMatcher)


def _grown(table: RouteTable, changes: RouteHistory) -> RouteTable:
    for record in changes.between(table.last_seq, changes.newest_seq() + 1):
        table.apply(record)
    return table


def events_of_server(
    settings: Callable[[], Settings],
    paths: DataDir,
    history: str,
    store: Store,
    *,
    views: Views,
    place: StorePlace,
) -> Events:
    """Returns the search for events.

    Args:
        settings: Returns the settings; how many attempts have rows may change.
        paths: Paths of the data directory.
        history: Where history lies, as ``place_of`` returns it.
        store: Addresses and names.
        views: Read the log, and what owners keep.
        place: Where the resource store lies.
    """
    indexed = settings().event_index == "on"
    here = [Path(history)] if history.startswith("/") else []
    # The folder of a node has what was written while this one led, on this machine.
    seen_whole = settings().log is None or not is_own(history, paths)

    def attempts() -> str:
        if not history:
            return "none"
        return settings().log_attempts if here and seen_whole else "elsewhere"

    def once() -> OnceLimits | None:
        now = settings()
        # Where one process appends, no repeat is in the log.
        return now.once if now.log is not None and now.once_window_s else None

    pages = [MappedStatusPage(paths.status_page(n)) for n in range(len(views.deliveries))]

    def waits(position: Position) -> AbstractSet[str] | None:
        number, offset, index = position
        if number >= len(pages) or pages[number][StatusField.COMMITTED_OFFSET] <= offset:
            return None
        return views.deliveries[number].awaiting(offset, index)

    places = EventPlaces(
        views.searched(indexed=indexed),
        [*here, paths.history_outbox] if history else [],
        views.waiting_rows,
        attempts,
        once,
        waits,
    )
    return Events(places, store, RoutesNow(paths, place.url, views.records), views.publisher)
