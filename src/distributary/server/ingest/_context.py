"""State that all connections of the receiver share: limits, counters, the log's port, the clock.

Callers: ``_server`` makes one; ``_protocol`` and ``_proxy`` use it. Declares ``AppendPort``, this
package's only view of the log.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from distributary.access import (
    ANYBODY,
    NOBODY,
    Change,
    Credentials,
    Gate,
    Identity,
    PeerCertificate,
    UnauthenticatedError,
    Verb,
)
from distributary.core.clock import Clock
from distributary.core.errors import Fault, LogError, RequestError
from distributary.core.event import Event
from distributary.core.flow import Received
from distributary.core.tenant import is_namespace
from distributary.datadir import NamedCount, NodeCount, NodeCounts, TenantCounts
from distributary.datadir.seen import Seen
from distributary.net.http1 import Request
from distributary.protocols.http.plain import TAKEN_OUT, PlainRequests, is_visible
from distributary.resource import is_loopback
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._event_paths import (
    EventPaths,
    allow_of,
    is_address,
    is_search,
    no_address,
)
from distributary.server.ingest._forwarded import TrustedProxies
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._held_bodies import HeldBodies, Share
from distributary.server.ingest._limits import STRANGER_BODY_BYTES_MAX, IngestSettings
from distributary.server.ingest._needs import changes, need_of
from distributary.server.ingest._policies import PolicyError, check_policies
from distributary.server.ingest._readmission import check_again, sender_now
from distributary.server.ingest._received import of_default_ttl
from distributary.server.ingest._refusals import keys_unknown, refused_change
from distributary.server.ingest._relay_limits import RelayLimits
from distributary.server.ingest._responses import Persistence, Responses, origin_of_question
from distributary.server.ingest._shown import Shown
from distributary.server.ingest._tenants import Tenants

REFUSALS_RECORDED_MAX = 50
"""Refused changes that are recorded between two sweeps, so that a flood of them fills no disk;
all are counted in the metrics."""


Settle: TypeAlias = Callable[[int | LogError | None], None]
"""Called when a record is durable, or with the error when it is not and nothing was promised."""


class AppendPort(Protocol):
    """The log's group commit, as the receiver uses it."""

    @property
    def open(self) -> bool:
        """Whether the log accepts appends; False: disk full, failed fsync, or closing."""

    @property
    def splits(self) -> bool:
        """Whether each event of a request becomes a record of its own."""

    def submit(self, received: Received, done: Settle) -> None:
        """Append *received* as one record.

        Never raises. Calls *done* exactly once, on the event loop (perhaps before this returns).
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


Taken: TypeAlias = tuple[Received, Sequence[Event] | None, Share | None, int]
"""What to append, the types and sources in it that are new, whose share of the memory it takes
(None: no share is kept), and how many records it becomes."""


class Dial(Protocol):
    """How a relay reaches the control process."""

    def __call__(self, relay: asyncio.Protocol, failed: Callable[[], None], path: bytes, /) -> None:
        """Connect *relay*, for a request of *path*: its ``connection_made`` is called, or *failed*.

        *path* is canonical, and decoded.
        """


class IngestContext:
    """Shared state, for the event loop's thread alone.

    Attributes:
        addresses: The paths that accept events.
        bodies: Those that are arriving, or wait for the log or the control process.
        draining: Shutting down: new requests get 503 with ``connection: close``.
        connections: Open connections, refused ones excepted.
        dial: Connects a relay to the control process; None: there is none.
        gate: Finds out who sends a request, and asks whether they may.
        guard: Checks ``Host`` and ``Origin``.
        node: What all receivers of the server hold together: limits hold for the sum.
        plain: Reads requests in plain form.
        relays: Limits of proxied requests.
        refused: Records a change that was refused; nothing by default.
        proxies: Whom to believe where a request comes from.
        seen: Types and sources of accepted events.
        stale: Whether keys may have been made or revoked unheard: who is not known is told so.
        tenants: What each namespace uses, and its quotas.
    """

    __slots__ = (
        "_by_address",
        "_idlest",
        "_refusals_left",
        "addresses",
        "answers",
        "appends",
        "bodies",
        "clock",
        "connections",
        "counters",
        "dial",
        "draining",
        "gate",
        "guard",
        "node",
        "now_s",
        "plain",
        "proxies",
        "refused",
        "relays",
        "seen",
        "settings",
        "stale",
        "tenants",
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
        tenants: TenantCounts | None = None,
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
        self.stale = False
        self.seen = Seen() if seen is None else seen
        self.gate = Gate(clock.wall_ms)
        self.guard = Guard() if guard is None else guard
        self.node = NodeCounts() if node is None else node
        self.addresses = EventPaths()
        self.bodies = HeldBodies(self.counters, self.addresses)
        self.relays = RelayLimits(self.counters, self.node, self.bodies)
        self.tenants = Tenants(self.now_s, TenantCounts() if tenants is None else tenants)
        self.tenants.change(settings.quotas)
        self.plain = PlainRequests()
        self.refused: Callable[[Change], None] = lambda _change: None
        self._refusals_left = REFUSALS_RECORDED_MAX
        self.proxies = TrustedProxies()
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
            self.node.add_named(NamedCount.CONNECTIONS, address, step)

    def _within_limits(self, address: str | None) -> bool:
        """Whether one more connection from *address* is allowed; may close an idle one for it."""
        settings, node = self.settings, self.node
        per_address_max = settings.connections_per_address_max
        if (
            address is not None
            and per_address_max is not None
            and not is_loopback(address)
            and not self.proxies.trusts(address)  # its connections are those of many clients
        ):
            elsewhere = node.named_elsewhere(NamedCount.CONNECTIONS, address)
            if self._by_address.get(address, 0) + elsewhere >= per_address_max:
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

    def admit(
        self,
        request: Request,
        certificate: PeerCertificate | None = None,
        address: str | None = None,
    ) -> None:
        """Check a request by its head, before its body is read.

        Args:
            request: The request; gets its ``sender``.
            certificate: Certificate of the connection; None: the client showed none.
            address: Where the connection comes from; None: a Unix socket.

        Raises:
            RequestError: The request is rejected; after a 503 the sender should retry.
        """
        if request.host not in self.guard.passed or request.page is not None:
            self.guard.check(request, self.proxies.client(request.fields, address).host)
        request.sender, request.asked_at = ANYBODY, self.gate.generation
        if self.gate.required:
            try:
                self._admit_sender(request, certificate)
            except RequestError as error:
                self._record_refusal(request, error, address)
                raise
        if is_search(request):
            self._admit_call(request)
        elif request.path in self.addresses.by_path:
            if request.method == b"POST":
                self._admit_events(request)
            elif request.method != b"OPTIONS":
                raise RequestError("method-not-allowed", "Events are published by POST.")
        elif is_address(request.path):
            raise self.no_address(request.path)
        elif request.path != b"*":
            self._admit_call(request)

    def _admit_call(self, request: Request) -> None:
        """Count a request to the APIs for its namespace, else for the only one of its sender."""
        self.admit_relay(request)
        if self.tenants.calls_limited:
            permission = need_of(request.method, request.path).permission
            namespace = None if permission is None else permission.namespace
            if namespace is None and isinstance(request.sender, Identity):
                namespace = request.sender.tenant
            if namespace is not None and is_namespace(namespace):
                self.tenants.take_call(namespace)

    def learn(self, paths: Mapping[str, str]) -> None:
        """Replace the paths of Brokers, Channels and namespaces; see ``EventPaths``."""
        self.addresses.learn(paths)
        self.bodies.learn(paths)
        self.tenants.learn(paths)

    def take(self, address: str, events: list[Event], received: Received, size: int) -> Taken:
        """Count *events* of a request of *size* bytes, which are appended as *received*."""
        self.tenants.take_events(address, len(events), size)
        records = len(events) if self.appends.splits else 1
        return received, self.seen.unseen(events), self.bodies.by_address.get(address), records

    def _admit_sender(self, request: Request, certificate: PeerCertificate | None) -> None:
        # Whoever asks for permission to send events is answered as if they sent one.
        asks = request.asks_permission and request.method == b"OPTIONS"
        method = b"POST" if asks and request.path in self.addresses.by_path else request.method
        gate, need = self.gate, need_of(method, request.path)
        values = [value for name, value in request.fields if name == b"authorization"]
        if len(values) > 1:
            raise RequestError("bad-request", "More than one Authorization.")
        shown = request.shown = Credentials(values[0] if values else b"", certificate)
        try:
            sender = request.sender = gate.identify(shown)
        except UnauthenticatedError as error:
            if need.identity:
                raise (keys_unknown() if self.stale else error) from None
            request.sender = NOBODY
            if request.chunked or request.content_length > STRANGER_BODY_BYTES_MAX:
                message = f"Nobody's body has more than {STRANGER_BODY_BYTES_MAX} bytes here."
                raise RequestError("content-too-large", message) from None
            return
        permission = need.permission
        if permission is None:
            return
        if permission.verb is not Verb.PUBLISH:
            gate.check(sender, permission)
            return
        policies = gate.check_publisher(sender, permission, permission.target)
        address = self.addresses.by_path.get(request.path)
        if address is not None and not policies:
            gate.admit(shown, address, sender)

    def check_events(self, request: Request, events: Sequence[Event]) -> None:
        """Check *events* by the policies of their target.

        Raises:
            PolicyError: Some may not be sent; none is.
        """
        if not self.gate.required or not isinstance(request.sender, Identity):
            return
        permission = need_of(request.method, request.path).permission
        assert permission is not None
        try:
            sender = sender_now(self.gate, request, request.sender)
            policies = self.gate.check_publisher(sender, permission, permission.target)
        except RequestError as error:  # something has changed since the head was read
            raise PolicyError([Fault("$", "forbidden", str(error))]) from error
        check_policies(events, policies)

    def options(self, request: Request, persistence: Persistence) -> bytes:
        """The response to OPTIONS, which grants permission to send events to who asks for it.

        Where everybody may publish, all origins are permitted; else the one that was asked for, to
        who may publish here (``admit`` has refused others).

        Source:
            CloudEvents http-webhook, section 4.2.
        """
        permission = None
        if request.asks_permission and request.path != b"*":
            permission = origin_of_question(request.fields) if self.gate.required else b"*"
        allow = allow_of(request, self.addresses)
        return self.answers.options(persistence, permission=permission, allow=allow)

    def _record_refusal(self, request: Request, error: RequestError, address: str | None) -> None:
        """Record a change that nobody may ask for; at most some a second."""
        if not changes(request.method, request.path) or self._refusals_left <= 0:
            return
        self._refusals_left -= 1
        client = self.proxies.client(request.fields, address)
        self.refused(refused_change(request, error, client.address))

    def plain_event(
        self,
        request: bytes,
        body_bytes_max: int,
        shown: Shown,
        certificate: PeerCertificate | None = None,
    ) -> Taken | None:
        """The event of *request* if it is one whole request in plain form, and is admitted.

        None: parse it. Then ``admit`` finds the reason of a refusal.
        """
        gate = self.gate
        found = self.plain.read(
            request, self.addresses.by_usual_line, body_bytes_max, shown.line, shown.at
        )
        if found is None:
            return None
        address, host, event_type, source, key, record, carried_lines, authorization = found
        counters, bytes_max = self.counters, self.settings.held_bytes_max
        share = self.bodies.by_address.get(address)
        sender: Identity | None = ANYBODY
        if gate.required:
            known = shown.address is address and shown.generation == gate.generation
            if known and authorization is TAKEN_OUT:
                sender = shown.sender
            else:
                sender = shown.ask(gate, address, authorization, certificate)
        if (
            host not in self.guard.passed
            or self.draining
            or not self.appends.open
            or (2 * counters.held_bytes >= bytes_max and self.bodies.refuses(share, bytes_max))
            or sender is None
            or (authorization and not gate.required and not is_visible(authorization))
            or (self.tenants.by_address and not self.tenants.admits(address))
        ):
            return None
        if self.tenants.by_address:
            self.tenants.take_events(address, 1, len(record))
        if authorization and gate.required:
            shown.remember(request, authorization)
        unseen = None
        if not self.seen.knows(event_type, source):
            unseen = (Event({"type": event_type, "source": source}, None),)
        by = "" if sender is ANYBODY else sender.name
        return of_default_ttl(record, address, key, carried_lines, by), unseen, share, 1

    def no_address(self, path: bytes) -> RequestError:
        """Returns the error for an unknown path of a Broker or Channel."""
        return no_address(path, known=self.addresses.known)

    def admit_whole(self, request: Request) -> None:
        """Check once more what may have changed while the body of *request* came.

        Raises:
            RequestError: The request is rejected.
        """
        check_again(self.gate, request)
        self.admit_relay(request)

    def admit_relay(self, request: Request) -> None:
        """Check limits of proxied requests: with the head, and again with the whole request.

        Raises:
            RequestError: The request is rejected.
        """
        if self.dial is None:
            raise RequestError("notfound", "Nothing answers here but the events path.")
        if self.draining:
            raise RequestError("unavailable", "The server is shutting down.")
        self.relays.check(request, self.settings)

    def _admit_events(self, request: Request) -> None:
        if request.content_encoded:
            raise RequestError("unsupported-media-type", "Content-Encoding other than identity.")
        if self.draining:
            raise RequestError("unavailable", "The server is shutting down.")
        if not self.appends.open:
            raise RequestError("log-unavailable", "The log takes nothing now.")
        self.bodies.check_head(request, self.settings.held_bytes_max)
        self.tenants.check_events(self.addresses.by_path[request.path])

    def sweep(self) -> None:
        """Enforce every connection's deadlines; renews the date of responses."""
        self.answers.restamp(self.clock.wall_ms())
        self.plain.renew()
        self.gate.renew()
        self._refusals_left = REFUSALS_RECORDED_MAX
        now_s = self.now_s()
        for connection in tuple(self.connections):
            connection.sweep(now_s)
