"""What all connections of the receiver share: limits, counters, the log's port, the clock.

Callers: ``_server`` makes one; ``_protocol`` and ``_proxy`` use it. Declares ``AppendPort``, the
only thing this room knows of the log.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from distributary.core.clock import Clock
from distributary.core.errors import LogError, RequestError
from distributary.core.flow import Received
from distributary.datadir.seen import Seen
from distributary.net.http1 import Request
from distributary.resource import is_loopback
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._event_paths import EventPaths, is_address
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import RELAYS_MAX, IngestSettings
from distributary.server.ingest._relayed import is_watch
from distributary.server.ingest._responses import Responses


class AppendPort(Protocol):
    """Where accepted requests go: the log's group commit, wired by ``server``."""

    @property
    def open(self) -> bool:
        """The log takes appends; False while it cannot (disk full, failed fsync, closing)."""

    @property
    def full(self) -> bool:
        """The queue is at its bound; try again later."""

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        """Appends *received* as one record.

        Never raises. *done* is called exactly once, on the event loop (perhaps before this
        returns): with None when the record is durable, with the error when it is not and
        nothing was promised.
        """


class Swept(Protocol):
    """A connection, as the context sees it."""

    def sweep(self, now_s: float) -> None:
        """Acts on deadlines that have passed."""

    @property
    def idle_since_s(self) -> float | None:
        """Since when it is between two requests; None: something is under way."""

    def give_way(self) -> None:
        """Leaves, and ends now, for a connection that needs its place."""

    def drain(self) -> None:
        """Ends now if nothing is under way."""

    def cut(self) -> None:
        """Ends now, whatever is under way."""


class Dial(Protocol):
    """How a relay reaches the control process."""

    def __call__(self, relay: asyncio.Protocol, failed: Callable[[], None]) -> None:
        """Connects *relay* (its ``connection_made`` is called), or calls *failed*."""


class IngestContext:
    """Shared state; all of it is touched from the event loop's thread alone.

    Attributes:
        addresses: The paths that take events.
        draining: Shutting down: new requests are answered 503 with ``connection: close``.
        connections: Open connections, refused ones excepted.
        dial: Connects a relay to the control process; None: there is none.
        guard: Whom we answer at all.
        seen: Types and sources of accepted events.
    """

    __slots__ = (
        "_by_address",
        "_idlest",
        "addresses",
        "answers",
        "appends",
        "clock",
        "connections",
        "counters",
        "dial",
        "draining",
        "guard",
        "now_s",
        "seen",
        "settings",
    )

    def __init__(
        self,
        appends: AppendPort,
        settings: IngestSettings,
        clock: Clock,
        dial: Dial | None,
        seen: Seen | None = None,
        *,
        guard: Guard | None = None,
    ) -> None:
        self.appends = appends
        self.settings = settings
        self.dial = dial
        self.clock = clock
        self.now_s = clock.monotonic_s
        self.answers = Responses(clock.wall_ms())
        self.counters = Counters()
        self.connections: set[Swept] = set()
        self.draining = False
        self.seen = Seen() if seen is None else seen
        self.guard = Guard() if guard is None else guard
        self.addresses = EventPaths()
        self._by_address: dict[str, int] = {}
        self._idlest: list[tuple[float, Swept]] = []  # the longest idle last

    @property
    def idle(self) -> bool:
        """Nothing waits for the log or for the control process, watches excepted."""
        return self.counters.appends_in_flight == 0 and self.counters.relays_in_flight == 0

    def enter(self, connection: Swept, address: str | None) -> bool:
        """Whether *connection* from *address* (None: unknown) may stay; then it counts."""
        counters = self.counters
        per_address_max = self.settings.connections_per_address_max
        if self.draining:
            counters.connections_refused += 1
            return False
        if address is not None:
            count = self._by_address.get(address, 0)
            if (
                per_address_max is not None
                and count >= per_address_max
                and not is_loopback(address)
            ):
                counters.connections_refused += 1
                return False
        if len(self.connections) >= self.settings.connections_max and not self._make_room():
            counters.connections_refused += 1
            return False
        if address is not None:
            self._by_address[address] = self._by_address.get(address, 0) + 1
        counters.connections_total += 1
        counters.connections_open += 1
        self.connections.add(connection)
        return True

    def _make_room(self) -> bool:
        """Ends the connection that is idle for longest; False where none is.

        All are looked at once for as many newcomers as there were idle ones: what became idle
        since then is younger than those that are left of them.
        """
        for _ in range(2):
            while self._idlest:
                since_s, connection = self._idlest.pop()
                if connection in self.connections and connection.idle_since_s == since_s:
                    connection.give_way()
                    return True
            idle = [(one.idle_since_s, one) for one in self.connections]
            self._idlest = [(since_s, one) for since_s, one in idle if since_s is not None]
            self._idlest.sort(key=lambda found: -found[0])
        return False

    def leave(self, connection: Swept, address: str | None) -> None:
        """Forgets a connection that had entered."""
        self.connections.discard(connection)
        self.counters.connections_open -= 1
        if address is not None:
            count = self._by_address[address] - 1
            if count:
                self._by_address[address] = count
            else:
                del self._by_address[address]

    def admit(self, request: Request) -> None:
        """Refuses what need not be read further: called with the head, before the body.

        Raises:
            RequestError: The answer; 503 means that nothing is promised and the sender should
                try again.
        """
        if request.host not in self.guard.passed or request.page is not None:
            self.guard.check(request)
        if request.path in self.addresses.by_path:
            if request.method == b"POST":
                self._admit_events(request)
            elif request.method != b"OPTIONS":
                raise RequestError("method-not-allowed", "Events are published by POST.")
        elif is_address(request.path):
            raise self.no_address()
        elif request.path != b"*":
            self.admit_relay(request)

    def no_address(self) -> RequestError:
        """What to say of a path below those of Brokers and Channels that is none of theirs."""
        if self.addresses.known:
            return RequestError("notfound", "There is no Broker or Channel at this path.")
        return RequestError("unavailable", "The Brokers and Channels are not known yet.")

    def admit_relay(self, request: Request) -> None:
        """Refuses what the control process should not get now: with the head, and once whole.

        Raises:
            RequestError: The answer.
        """
        if self.dial is None:
            raise RequestError("notfound", "Nothing answers here but the events path.")
        if self.draining:
            raise RequestError("unavailable", "The server is shutting down.")
        if is_watch(request):
            if self.counters.watches_in_flight >= self.settings.watches_max:
                raise RequestError("unavailable", "Too many watches are open.")
        elif self.counters.relays_in_flight >= RELAYS_MAX:
            raise RequestError("unavailable", "Too many requests are under way.")
        has_body = request.content_length or request.chunked
        if has_body and self.counters.held_bytes > self.settings.held_bytes_max:
            raise RequestError("unavailable", "Too many bytes are under way.")

    def _admit_events(self, request: Request) -> None:
        if request.content_encoded:
            raise RequestError("unsupported-media-type", "Content-Encoding other than identity.")
        if self.draining:
            raise RequestError("unavailable", "The server is shutting down.")
        appends = self.appends
        if not appends.open:
            raise RequestError("log-unavailable", "The log takes nothing now.")
        if appends.full or self.counters.appends_in_flight >= self.settings.appends_max:
            raise RequestError("unavailable", "Too many events wait for the log.")
        if self.counters.held_bytes >= self.settings.held_bytes_max:
            raise RequestError("unavailable", "Too many bytes wait for the log.")

    def sweep(self) -> None:
        """One look at every connection's deadlines; renews the date of answers."""
        self.answers.restamp(self.clock.wall_ms())
        now_s = self.now_s()
        for connection in tuple(self.connections):
            connection.sweep(now_s)
