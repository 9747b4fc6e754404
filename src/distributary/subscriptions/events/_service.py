"""Finds events and their ways for people: few at a time, so that nothing else waits for them."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from distributary.core.errors import (
    DistributaryError,
    LogUnavailableError,
    NotFoundError,
    RequestError,
)
from distributary.core.flow import Logged, Position
from distributary.core.journal_frames import HistoryBlock
from distributary.core.log.finder import SearchedLog, read_one
from distributary.core.log.taken import OnceLimits
from distributary.core.tenant import BROKER_NAME, is_lifecycle, path_in
from distributary.core.turns import Places
from distributary.history.attempts import EventRows
from distributary.history.newest import Newest, NewestRows
from distributary.subscriptions.events._query import EventPage, EventQuery, FoundEvent
from distributary.subscriptions.events._search import Scope, decoded, earlier_of, search
from distributary.subscriptions.events._way import EventWay, Routes, matches_of
from distributary.subscriptions.store.store import Store

THREADS: Final = 2
"""Searches at a time: each occupies a core for a tenth of a second. Namespaces take turns."""
WAITING_MAX: Final = 32
"""Searches that wait or run; more are answered 503."""
WAITING_OF_ONE_MAX: Final = 16
"""Those of one namespace: a tenant that asks without end leaves room for the others."""
OWNERS_MAX: Final = 50_000
"""Routes whose namespace is remembered, some 150 bytes each: a log may have timers of that many,
and a question to the store for each takes a hundred times as long as its record."""
FOLLOWED_EVERY_S: Final = 5.0
"""Interval at which changes of routes are read: 15 us each, which nobody waits for then."""
SERVER: Final = "server"
"""Who publishes on Brokers ``lifecycle``: nobody else may."""
_GONE: Final = "retention has deleted the event at this position: the log begins later"
_Result = TypeVar("_Result")


class EventPlaces(NamedTuple):
    """Where events, their index and their history are.

    Attributes:
        log: The log, with the index of each partition.
        history: Local folders with files of the history; empty: there is none.
        waiting: Returns the rows of a partition that files may not hold yet.
        attempts: Returns which attempts have rows; see ``EventWay``.
        waits: Returns the routes for which the event at a position still waits; None: not known, or
            its partition has not passed it.
        once: Returns the window within which readers of the log find repeats; None: they find none.
    """

    log: SearchedLog
    history: Sequence[Path]
    waiting: Callable[[int], Sequence[HistoryBlock]]
    attempts: Callable[[], str]
    once: Callable[[], OnceLimits | None] = lambda: None
    waits: Callable[[Position], AbstractSet[str] | None] = lambda _position: None


class AskedRoute(NamedTuple):
    """The route to which the way of an event is told; neither: to all.

    Attributes:
        subscription: Id of its subscription.
        route: Its uid, where it has no subscription of the Subscriptions API.
    """

    subscription: str | None = None
    route: str | None = None


ANY_ROUTE: Final = AskedRoute()


class Events:
    """Searches the events of namespaces.

    Args:
        places: Where they are.
        store: Addresses, and names of routes.
        routes: The routes as they are now.
        publisher: Returns who published the event at a position; None: unknown.
    """

    def __init__(
        self,
        places: EventPlaces,
        store: Store,
        routes: Routes,
        publisher: Callable[[Position], str | None] = lambda _position: None,
    ) -> None:
        self._places = places
        self._store = store
        self._routes = routes
        self._publisher = publisher
        self._newest = NewestRows(places.history, places.waiting)
        self._rows = EventRows(places.history, places.waiting) if places.history else None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="events")
        self._turns = Places(THREADS)
        self._waiting: Counter[str] = Counter()
        self._owners: dict[str, str] = {}

    def close(self) -> None:
        """End the threads; call it once nobody asks any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def keep_prepared(self) -> None:
        """Load what the first question would wait for, and read routes as they change.

        Call it once there is time. It runs until it is cancelled.
        """
        run = asyncio.get_running_loop().run_in_executor
        await run(self._threads, self._prepare)
        while True:
            await asyncio.sleep(FOLLOWED_EVERY_S)
            await run(self._threads, self._follow)

    def _prepare(self) -> None:
        with contextlib.suppress(DistributaryError, OSError):  # whoever asks is told
            if self._rows is not None:
                self._rows.prepare()
            self._routes.one("")

    def _follow(self) -> None:
        with contextlib.suppress(DistributaryError, OSError):  # as above
            self._routes.follow()

    async def find(self, asked: EventQuery) -> tuple[EventPage, list[str | None]]:
        """Find events of a namespace, and who published each.

        Raises:
            NotFoundError: The namespace has no such Broker or Channel.
            ResourceError: The cursor is invalid.
            RequestError: Too many searches wait.
            DistributaryError: The log or the store cannot be read.
        """
        return await self._run(asked.namespace, lambda: self._find(asked))

    async def way(
        self, position: Position, namespace: str, asked: AskedRoute = ANY_ROUTE
    ) -> EventWay:
        """The way of the event at *position*, to all routes or to one of them.

        Raises:
            NotFoundError: The namespace has no event there, or no such route; or retention has
                deleted the event.
            RequestError: Too many searches wait.
            DistributaryError: The log, the history or the store cannot be read.
        """
        return await self._run(namespace, lambda: self._way(position, namespace, asked))

    async def attempts(self, id_: str, namespace: str, limit: int) -> Newest:
        """The newest recorded attempts of the subscription with this id, at most *limit*.

        Raises:
            NotFoundError: The namespace has no such subscription.
            RequestError: Too many searches wait.
            DistributaryError: The history or the store cannot be read.
        """

        def work() -> Newest:
            uid = self._store.find(id_, namespace).uid
            return self._newest.of(uid, self._places.log.partitions, limit)

        return await self._run(namespace, work)

    async def _run(self, namespace: str, work: Callable[[], _Result]) -> _Result:
        waiting = self._waiting
        if waiting.total() >= WAITING_MAX or waiting[namespace] >= WAITING_OF_ONE_MAX:
            raise RequestError("unavailable", "Too many searches for events wait.")
        waiting[namespace] += 1
        try:
            async with self._turns.one(namespace):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            waiting[namespace] -= 1
            if not waiting[namespace]:
                del waiting[namespace]

    def _find(self, asked: EventQuery) -> tuple[EventPage, list[str | None]]:
        named = asked.broker is not None or asked.channel is not None
        paths = self._store.addresses(asked.namespace)
        if named:
            path = _path_of(asked)
            paths = {address: each for address, each in paths.items() if each == path}
            if not paths:
                raise NotFoundError(f"there is no Broker or Channel at {path}")
        scope = Scope(paths, lambda uid: self._is_of(uid, asked.namespace), timers=not named)
        page = search(self._places.log, asked, scope)
        return page, [self._by(hit) for hit in page.items]

    def _by(self, found: FoundEvent) -> str | None:
        if is_lifecycle(found.address):
            return SERVER
        return None if found.route else self._publisher(found.position)

    def _is_of(self, uid: str, namespace: str) -> bool:
        owner = self._owners.get(uid)
        if owner is None:
            name = self._store.route_names([uid]).get(uid)
            if len(self._owners) >= OWNERS_MAX:
                self._owners.clear()
            # Of a deleted one too: no uid is used again.
            owner = self._owners[uid] = "" if name is None else name.namespace
        return owner == namespace

    def _way(self, position: Position, namespace: str, asked: AskedRoute) -> EventWay:
        found, alone = self._found(position, namespace)
        only = asked.route
        if asked.subscription is not None:
            only = self._store.find(asked.subscription, namespace).uid
        elif only is not None and not self._is_of(only, namespace):
            raise NotFoundError("there is no route of this namespace with this uid")
        rows, attempts = [], self._places.attempts()
        waits = self._places.waits(position)  # before the rows: what ends meanwhile has one
        if self._rows is not None:
            rows = self._rows.rows(position, found.time_ms)
        limits = self._places.once() if alone and not found.route and not rows else None
        earlier = None if limits is None else earlier_of(self._places.log, found, limits)
        if earlier is not None:
            return EventWay(
                found, self._by(found), (), more=False, attempts=attempts, repeats=earlier
            )
        matches, more = matches_of(found, rows, self._routes, self._store, only, waits=waits)
        return EventWay(found, self._by(found), matches, more, attempts)

    def _found(self, position: Position, namespace: str) -> tuple[FoundEvent, bool]:
        """The event at *position*, if it is of the namespace; whether its record has no other."""
        logged = self._read(position)
        events = None if logged is None else decoded(logged)
        if logged is None or events is None or position.index >= len(events.events):
            raise _unknown()
        paths = self._store.addresses(namespace)
        scope = Scope(paths, lambda uid: self._is_of(uid, namespace), timers=True)
        if not scope.holds(events):
            raise _unknown()
        found = scope.found(position.partition, logged, events)
        return found[position.index], len(found) == 1

    def _read(self, position: Position) -> Logged | None:
        if position.partition >= self._places.log.partitions:
            return None
        try:
            reader = self._places.log.open(position.partition)
        except LogUnavailableError:
            return None  # nothing was ever appended to it
        try:
            if position.offset < reader.start():
                raise NotFoundError(_GONE)
            return read_one(reader, position.offset)
        finally:
            reader.close()


def _unknown() -> NotFoundError:
    return NotFoundError("there is no event of this namespace at this position")


def _path_of(asked: EventQuery) -> str:
    if asked.channel is not None:
        return f"/channels/{asked.namespace}/{asked.channel}"
    if asked.broker == BROKER_NAME:
        return path_in(asked.namespace, "/events")
    return f"/brokers/{asked.namespace}/{asked.broker}"
