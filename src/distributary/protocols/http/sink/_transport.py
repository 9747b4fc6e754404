"""The HTTP transport: builds requests from events and destinations, and pools connections."""

import asyncio
import dataclasses
import re
import weakref
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.deliver import CREDENTIAL_EXPIRED, Destination, Done, Endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import EventError, TransportError
from distributary.core.event import BinaryEvent, Event, binary
from distributary.core.policy import Answer, Reply
from distributary.net import Connector, Wheel, is_private
from distributary.protocols.http import binding as http
from distributary.protocols.http.settings import settings_of
from distributary.protocols.http.sink._authorization import (
    authorization,
    credentials_of,
    masked,
    repeats,
    secrets_of,
)
from distributary.protocols.http.sink._connection import HttpConnection, Request
from distributary.protocols.http.sink._incoming import Room, Share
from distributary.protocols.http.sink._signature import RequestSigner
from distributary.resource import ErrorData

OPEN_MAX: Final = 2_048
"""Open connections of this process up to which idle ones are kept: as many as attempts in flight
(``Limits.in_flight_max``). Responses come in bursts, so nearly all may be idle for a moment. A dial
costs as much as five deliveries."""

TARGETS_MAX: Final = 10_000
"""Most destinations whose request prefix is cached (about 500 bytes each); the oldest is evicted
first."""

STALE_LOOK_S: Final = 60.0
"""Shortest interval of searches for targets with an expired token: replaced tokens do not pile up,
and ten thousand targets are not searched for each new one."""

FIELD_BYTES_MAX: Final = 8 * 1024
"""Longest header field of an event: the line limit of nginx and Apache."""

FIELDS_BYTES_MAX: Final = 16 * 1024
"""All header fields of an event together: the limit of Node, without custom ones. An event with
more, or with a longer one, is sent in structured mode, with everything in the body: most sinks
would respond 431, and it would be a dead letter. Intermediaries must forward events of up to
64 KiB, wherever the bytes are (CloudEvents 1.0, Size Limits)."""

_JOINED_BYTES_MAX: Final = 16 * 1024
"""Largest body that is joined with the head: one copy is cheaper than a second kernel buffer."""

_ORIGIN: Final = b"webhook-request-origin"

_REPEATED: Final = "the reply repeats a credential of the request"

_TOKEN: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")


class _Pool:
    """Connections of one scheme, host and port with the same dial address and certificates.

    Destinations that want replies have a pool of their own, since a response then means another
    thing.
    """

    def __init__(
        self, transport: "HttpTransport", endpoint: Endpoint, reply_share: Share | None
    ) -> None:
        self._transport = transport
        self.endpoint = endpoint
        self.reply_share = reply_share
        self._error_data: ErrorData = "all" if endpoint.own else transport.error_data
        self.idle: dict[HttpConnection, None] = {}  # LIFO
        self.known: dict[bytes, Reply] = {}

    def quotes(self, peer: str) -> bool:
        if self._error_data == "private-off":
            return not is_private(peer)
        return self._error_data == "all"

    def free(self, connection: HttpConnection) -> None:
        if len(self._transport.connections) > OPEN_MAX:
            connection.close()
        else:
            self.idle[connection] = None

    def gone(self, connection: HttpConnection) -> None:
        self.idle.pop(connection, None)
        self._transport.connections.discard(connection)


class _Target(NamedTuple):
    """A compiled destination: the constant part of its requests."""

    prefix: bytes
    binary: bool
    bodiless: bool
    pool: _Pool
    tenant: str
    credential: Credential | None
    secrets: tuple[bytes, ...]
    credentials: tuple[bytes, ...]
    signer: RequestSigner | None


class HttpTransport:
    """The HTTP/1.1 transport, in binary or structured mode (CloudEvents HTTP binding).

    Follows no redirects, uses no proxy of the environment, requests no compression and sends no
    request twice: if the sink closes a reused connection while the request is in flight, the
    attempt ends as ``reset``, since the sink may have the event. Memory: requests are written from
    the event's own bytes; at most 1,024 bytes of a response are kept, and of replies 1 MiB each and
    64 MiB in all.

    Args:
        connector: Dials; decides which addresses are allowed.
        clock: For deadlines.
        loop: Runs the connections; every method is called on its thread.
        error_data: For which sinks error bodies are stored: those from private addresses could
            reveal to a subscriber what it cannot reach itself.
    """

    def __init__(
        self,
        connector: Connector,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        *,
        error_data: ErrorData = "all",
    ) -> None:
        self.error_data: ErrorData = error_data
        self._connector = connector
        self._monotonic_s = clock.monotonic_s
        self._wall_ms = clock.wall_ms
        self._loop = loop
        self._wheel = Wheel(loop, clock.monotonic_s)
        self._targets: dict[Destination, _Target] = {}
        self._pools: weakref.WeakValueDictionary[tuple[object, ...], _Pool] = (
            weakref.WeakValueDictionary()
        )
        self._reply_room = Room()
        self._stale_look_s = float("-inf")
        self._closed = False
        self.connections: set[HttpConnection] = set()

    def send(
        self,
        event: Event,
        destination: Destination,
        timeout_s: float,
        done: Done,
        identity: str = "",
        *,
        carried: bytes = b"",
    ) -> None:
        """Start one attempt; see ``Transport``."""
        try:
            target = self._targets.get(destination)
            if target is None:
                target = self._aim(destination)
            if target.secrets:
                done = self._guarded(target, done)
            if target.signer is not None:
                sign = partial(target.signer.lines, identity, self._wall_ms())
                request = _signed(target, sign, carried, event)
            elif target.binary and type(event) is BinaryEvent and event.data_at <= FIELD_BYTES_MAX:
                request = _stored(target.prefix, carried, event)
            else:
                request = _encoded(target, carried, event)
        except TransportError as error:
            self._loop.call_soon(done, error)
            return
        except EventError as error:
            # The log holds only valid events; one that cannot be encoded must not stop the queue.
            failure = TransportError("protocol", f"Cannot encode: {error}", retryable=False)
            self._loop.call_soon(done, failure)
            return
        due_s = self._monotonic_s() + timeout_s
        idle = target.pool.idle
        while idle:
            connection = idle.popitem()[0]
            if connection.start(request, due_s, done, bodiless=target.bodiless):
                return
            connection.close()
        self._dial(target, request, due_s, done)

    def _guarded(self, target: _Target, done: Done) -> Done:
        """*done*, wrapped to mask the target's secrets in the answer, and to refuse such a reply.

        Raises:
            TransportError: ``credential-expired``: nothing is sent (decision 10, credentials).
        """
        if target.credential is not None and target.credential.expired(self._wall_ms()):
            raise TransportError(CREDENTIAL_EXPIRED, "The access token of the sink has expired")
        secrets, credentials = target.secrets, target.credentials

        def answered(answer: Answer) -> None:
            if isinstance(answer, Reply) and answer.body:
                answer = dataclasses.replace(answer, body=masked(answer.body, secrets))
            if isinstance(answer, Reply) and answer.event and repeats(answer.event, credentials):
                answer = dataclasses.replace(answer, event=None, carried=b"", event_fault=_REPEATED)
            done(answer)

        return answered

    def _dial(self, target: _Target, request: Request, due_s: float, done: Done) -> None:
        if self._closed:
            self._loop.call_soon(done, _closed())
            return
        pool = target.pool
        connection = HttpConnection(
            pool, self._wheel, request, due_s, done, bodiless=target.bodiless
        )
        self.connections.add(connection)
        endpoint = pool.endpoint._replace(tenant=target.tenant)  # of the pool: of who came first
        connection.dialling = self._loop.create_task(self._connect(connection, endpoint))

    async def _connect(self, connection: HttpConnection, endpoint: Endpoint) -> None:
        try:
            await self._connector.open(endpoint, lambda: connection)
        except TransportError as error:
            connection.dialling = None  # this task, which ends now
            connection.fail(error)

    def _aim(self, destination: Destination) -> _Target:
        """Compile the target of a new destination."""
        endpoint = self._connector.endpoint_of(destination)
        pool = self._pool(endpoint, wants_reply=destination.wants_reply)
        credential = destination.credential
        target = _Target(
            self._prefix(destination, endpoint),
            destination.format == "binary",
            settings_of(destination).method in ("HEAD", "CONNECT"),
            pool,
            destination.tenant,
            credential,
            secrets_of(destination),
            credentials_of(destination) if destination.wants_reply else (),
            None if destination.signing is None else RequestSigner(destination.signing),
        )
        if credential is not None:
            self._forget_expired()
        if len(self._targets) >= TARGETS_MAX:
            del self._targets[next(iter(self._targets))]
        self._targets[destination] = target
        return target

    def _pool(self, endpoint: Endpoint, *, wants_reply: bool) -> _Pool:
        where = endpoint.scheme, endpoint.host, endpoint.port, endpoint.dial
        trust = endpoint.ca_certs, endpoint.client_certificate, endpoint.stays_here
        key = (*where, endpoint.own, *trust, endpoint.private_alone, wants_reply)
        pool = self._pools.get(key)
        if pool is None:
            share = Share(self._reply_room) if wants_reply else None
            pool = self._pools[key] = _Pool(self, endpoint, share)
        return pool

    def _forget_expired(self) -> None:
        now_s = self._monotonic_s()
        if now_s - self._stale_look_s < STALE_LOOK_S:
            return
        self._stale_look_s = now_s
        wall_ms = self._wall_ms()
        for destination in list(self._targets):
            if destination.credential is not None and destination.credential.expired(wall_ms):
                del self._targets[destination]

    def _prefix(self, destination: Destination, endpoint: Endpoint) -> bytes:
        """The request line and the headers that are the same for every event."""
        settings = settings_of(destination)
        method, headers = settings.method.encode(), settings.lines
        lines = [b"%b %b HTTP/1.1" % (method, endpoint.target)]
        # Our own receiver accepts its own address as ``Host``, whatever the Service's name is.
        authority = endpoint.authority
        if destination.own and destination.dial is not None:
            path = endpoint.dial is not None and endpoint.dial[1] == 0
            authority = b"localhost" if path else destination.dial.encode("ascii")
        lines.append(b"host: " + authority)
        names = {name.lower() for name, _ in headers}
        if b"user-agent" not in names:
            lines.append(b"user-agent: distributary")
        if destination.wants_reply:
            lines.append(b"prefer: reply")
        if destination.namespace is not None:
            lines.append(b"kn-namespace: " + destination.namespace.encode())
        if destination.consent is not None and destination.consent.origin:
            lines.append(_ORIGIN + b": " + destination.consent.origin.encode())
        for name, value in headers:
            # Resources are validated for this too; here it prevents request splitting.
            if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
                raise TransportError(
                    "protocol", "A custom header cannot be written", retryable=False
                )
            lines.append(b"%b: %b" % (name, value))
        if destination.credential is not None:
            lines.append(b"authorization: " + authorization(destination.credential))
        if not _TOKEN.fullmatch(method):
            raise TransportError("protocol", "The method is not a token", retryable=False)
        return b"\r\n".join(lines) + b"\r\n"

    async def close(self) -> None:
        """Close every connection; attempts in flight end as ``TransportError("closed")``."""
        self._closed = True
        connections = tuple(self.connections)
        dialling = [c.dialling for c in connections if c.dialling is not None]
        for connection in connections:
            connection.fail(_closed())
        self._wheel.close()
        await asyncio.gather(*dialling, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports close in the next turn of the loop


def _stored(prefix: bytes, carried: bytes, event: BinaryEvent) -> Request:
    """The request with *event*, whose lines and data are sent as its record holds them."""
    record, data_at = event.record, event.data_at
    size = len(record) - data_at
    joined = size <= _JOINED_BYTES_MAX
    rest = record[binary.LINES_AT :] if joined else record[binary.LINES_AT : data_at]
    length = b"content-length: %d\r\n" % size
    start = prefix + length + carried + rest if carried else prefix + length + rest
    return (start,) if joined else (start, memoryview(record)[data_at:])


def _encoded(target: _Target, carried: bytes, event: Event) -> Request:
    """The request with *event*, in the mode of *target* unless its header fields are too large.

    Raises:
        EventError: *event* was built by hand and holds what no event may.
    """
    return _joined(target.prefix, carried, *_fields_and_body(target, event))


def _signed(
    target: _Target, sign: Callable[[bytes], bytes], carried: bytes, event: Event
) -> Request:
    """The request with *event*, and the header fields that *sign* makes of its body.

    Raises:
        EventError: As ``_encoded``.
    """
    if target.binary and type(event) is BinaryEvent and event.data_at <= FIELD_BYTES_MAX:
        return _stored(target.prefix, sign(event.record[event.data_at :]) + carried, event)
    block, body = _fields_and_body(target, event)
    return _joined(target.prefix, sign(body) + carried, block, body)


def _fields_and_body(target: _Target, event: Event) -> tuple[bytes, bytes]:
    block, body = http.encode_binary(event) if target.binary else http.encode_structured(event)
    if len(block) > FIELD_BYTES_MAX and _too_large(block):
        block, body = http.encode_structured(event)
    return block, body


def _joined(prefix: bytes, carried: bytes, block: bytes, body: bytes) -> Request:
    size = len(body)
    if size <= _JOINED_BYTES_MAX:
        return (b"%bcontent-length: %d\r\n%b%b\r\n%b" % (prefix, size, carried, block, body),)
    return b"%bcontent-length: %d\r\n%b%b\r\n" % (prefix, size, carried, block), body


def _too_large(block: bytes) -> bool:
    """Whether usual sinks refuse a request with these header fields."""
    longest = max(map(len, block.split(b"\r\n")))
    return longest > FIELD_BYTES_MAX or len(block) > FIELDS_BYTES_MAX


def _closed() -> TransportError:
    return TransportError("closed", "The transport was closed before an answer came")
