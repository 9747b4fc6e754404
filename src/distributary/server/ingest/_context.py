"""State that all connections of the receiver share: limits, counters, the log's port, the clock.

Callers: ``_server`` makes one; ``_protocol`` and ``_proxy`` use it. Declares ``AppendPort``, this
package's only view of the log.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from distributary.core.clock import Clock
from distributary.core.errors import LogError, RequestError
from distributary.core.event import Event, carried
from distributary.core.flow import Received
from distributary.datadir import NodeCount, NodeCounts
from distributary.datadir.seen import Seen
from distributary.net.http1 import Request
from distributary.protocols.http.plain import PlainRequests
from distributary.resource import is_loopback
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._event_paths import EventPaths, is_address
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import RELAYS_MAX, IngestSettings
from distributary.server.ingest._received import of_default_ttl
from distributary.server.ingest._relayed import is_watch
from distributary.server.ingest._responses import Responses


class AppendPort(Protocol):
    """The log's group commit, as the receiver uses it."""

    @property
    def open(self) -> bool:
        """Whether the log accepts appends; False: disk full, failed fsync, or closing."""

    @property
    def full(self) -> bool:
        """Whether the queue is at its bound; retry later."""

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        """Append *received* as one record.

        Never raises. Calls *done* exactly once, on the event loop (perhaps before this returns):
        with None when the record is durable, with the error when it is not and nothing was
        promised.
        """


class Swept(Protocol):
    """A connection, as the context uses it."""

    def sweep(self, now_s: float) -> None:
        """Enforce deadlines."""

    @property
    def idle_since_s(self) -> float | None:
        """Start of the idle time between two requests; None: something is under way."""

    def give_way(self) -> None:
        """Close an idle connection in favour of a new one."""

    def drain(self) -> None:
        """Close if nothing is under way."""

    def cut(self) -> None:
        """Abort, whatever is under way."""


PlainEvent: TypeAlias = tuple[Received, Sequence[Event] | None]
"""An event to append, and its type and source if they are new."""


class Dial(Protocol):
    """How a relay reaches the control process."""

    def __call__(self, relay: asyncio.Protocol, failed: Callable[[], None]) -> None:
        """Connect *relay*, which calls its ``connection_made``, or call *failed*."""


class IngestContext:
    """Shared state, for the event loop's thread alone.

    Attributes:
        addresses: The paths that accept events.
        draining: Shutting down: new requests get 503 with ``connection: close``.
        connections: Open connections, refused ones excepted.
        dial: Connects a relay to the control process; None: there is none.
        guard: Checks ``Host`` and ``Origin``.
        node: What all receivers of the server hold together: limits hold for the sum.
        plain: Reads requests in plain form.
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
        "node",
        "now_s",
        "plain",
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
        node: NodeCounts | None = None,
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
        self.node = NodeCounts() if node is None else node
        self.addresses = EventPaths()
        self.plain = PlainRequests()
        self._by_address: dict[str, int] = {}
        self._idlest: list[tuple[float, Swept]] = []  # the longest idle last

    @property
    def idle(self) -> bool:
        """Whether nothing waits for the log or the control process, watches excepted."""
        return self.counters.appends_in_flight == 0 and self.counters.relays_in_flight == 0

    def enter(self, connection: Swept, address: str | None) -> bool:
        """Admit and count *connection* from *address* (None: unknown); False: a limit is hit."""
        counters = self.counters
        if self.draining:
            counters.connections_refused += 1
            return False
        # Counted before the others are asked: two receivers never both take the last place.
        self._hold(address, 1)
        if not self._within_limits(address):
            self._hold(address, -1)
            counters.connections_refused += 1
            return False
        if address is not None:
            self._by_address[address] = self._by_address.get(address, 0) + 1
        counters.connections_total += 1
        counters.connections_open += 1
        self.connections.add(connection)
        return True

    def _hold(self, address: str | None, step: int) -> None:
        self.node.add(NodeCount.CONNECTIONS, step)
        if address is not None and not is_loopback(address):
            self.node.add_address(address, step)

    def _within_limits(self, address: str | None) -> bool:
        """Whether one more connection from *address* is allowed; may close an idle one for it."""
        settings, node = self.settings, self.node
        per_address_max = settings.connections_per_address_max
        if address is not None and per_address_max is not None and not is_loopback(address):
            count = self._by_address.get(address, 0) + node.address_elsewhere(address)
            if count >= per_address_max:
                return False
        open_count = len(self.connections) + node.elsewhere(NodeCount.CONNECTIONS)
        return open_count < settings.connections_max or self._make_room()

    def _make_room(self) -> bool:
        """Close the longest idle connection; False where none is idle.

        One scan serves as many new connections as it found idle ones: those that became idle since
        are younger.
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
        """Remove a connection that was admitted."""
        self.connections.discard(connection)
        self.counters.connections_open -= 1
        self._hold(address, -1)
        if address is not None:
            count = self._by_address[address] - 1
            if count:
                self._by_address[address] = count
            else:
                del self._by_address[address]

    def admit(self, request: Request) -> None:
        """Check a request by its head, before its body is read.

        Raises:
            RequestError: The request is rejected; after a 503 the sender should retry.
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

    def plain_event(self, request: bytes, body_bytes_max: int) -> PlainEvent | None:
        """The event of *request* if it is one whole request in plain form, and is admitted.

        None: parse it. Then ``admit`` finds the reason of a refusal.
        """
        found = self.plain.read(request, self.addresses.by_usual_line, body_bytes_max)
        if found is None:
            return None
        address, host, event_type, source, key, record, carried_lines = found
        counters, settings, appends = self.counters, self.settings, self.appends
        if (
            host not in self.guard.passed
            or self.draining
            or not appends.open
            or appends.full
            or counters.appends_in_flight >= settings.appends_max
            or counters.held_bytes >= settings.held_bytes_max
        ):
            return None
        unseen = None
        if not self.seen.knows(event_type, source):
            unseen = (Event({"type": event_type, "source": source}, None),)
        return of_default_ttl(record, address, key, carried_lines), unseen

    def no_address(self) -> RequestError:
        """Returns the error for an unknown path of a Broker or Channel."""
        if self.addresses.known:
            return RequestError("notfound", "There is no Broker or Channel at this path.")
        return RequestError("unavailable", "The Brokers and Channels are not known yet.")

    def admit_relay(self, request: Request) -> None:
        """Check limits of proxied requests: with the head, and again with the whole request.

        Raises:
            RequestError: The request is rejected.
        """
        if self.dial is None:
            raise RequestError("notfound", "Nothing answers here but the events path.")
        if self.draining:
            raise RequestError("unavailable", "The server is shutting down.")
        if is_watch(request):
            watches = self.counters.watches_in_flight + self.node.elsewhere(NodeCount.WATCHES)
            if watches >= self.settings.watches_max:
                raise RequestError("unavailable", "Too many watches are open.")
        elif self.counters.relays_in_flight + self.node.elsewhere(NodeCount.RELAYS) >= RELAYS_MAX:
            raise RequestError("unavailable", "Too many requests are under way.")
        has_body = request.content_length or request.chunked
        if has_body and self.counters.held_bytes > self.settings.held_bytes_max:
            raise RequestError("unavailable", "Too many bytes are under way.")

    def count_relay(self, step: int, *, watch: bool) -> None:
        """Change the number of proxied requests under way, or of watches, by *step*."""
        if watch:
            self.counters.watches_in_flight += step
        else:
            self.counters.relays_in_flight += step
        self.node.add(NodeCount.WATCHES if watch else NodeCount.RELAYS, step)

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
        """Enforce every connection's deadlines; renews the date of responses."""
        self.answers.restamp(self.clock.wall_ms())
        self.plain.renew()
        now_s = self.now_s()
        for connection in tuple(self.connections):
            connection.sweep(now_s)


def too_much_carried() -> RequestError:
    """Returns the error for header fields that go along with events and exceed their limits."""
    return RequestError(
        "headers-too-large",
        f"More than {carried.CARRIED_COUNT_MAX} header fields that go along with events, or "
        f"{carried.CARRIED_BYTES_MAX} bytes of them (Knative-*, X-B3-*, X-Request-Id, traceparent, "
        "tracestate).",
    )
