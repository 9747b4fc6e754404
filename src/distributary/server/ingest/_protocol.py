"""One client connection: requests in, responses out in the same order, with deadlines.

Caller: the event loop; ``_server`` makes one for each connection. Hides pipelining, backpressure,
the interim 100 and how a connection ends. ``net.http1`` parses requests, ``_context`` admits them.
"""

import asyncio
from collections import deque
from typing import ClassVar, cast

from distributary.access import PeerCertificate
from distributary.core.errors import CATALOGUE, EventError, Fault, RequestError
from distributary.core.event import carried
from distributary.net.http1 import Request, RequestReader
from distributary.protocols.http.receive import receive
from distributary.server.ingest import _limits
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._deadlines import IDLE, ReadPhase, overdue
from distributary.server.ingest._event_paths import allow_of, is_address, is_search
from distributary.server.ingest._held_bodies import HeldBody
from distributary.server.ingest._hops import take_ttls, used_up
from distributary.server.ingest._pending_response import PendingResponse
from distributary.server.ingest._policies import FAULTS_LISTED, detail_of
from distributary.server.ingest._proxy import Relay
from distributary.server.ingest._received import check_count, received
from distributary.server.ingest._refusals import too_much_carried
from distributary.server.ingest._relayed import body_bytes_max, expects_status
from distributary.server.ingest._responses import CLOSE, KEEP, Persistence
from distributary.server.ingest._shown import Shown


class IngestConnection(asyncio.Protocol):
    """The receiver's end of one connection.

    Args:
        context: State that all connections share.
    """

    __slots__ = (
        "_address",
        "_advancing",
        "_body",
        "_certificate",
        "_context",
        "_entered",
        "_half_closed",
        "_linger_bytes",
        "_linger_until_s",
        "_phase",
        "_read_s",
        "_reader",
        "_reading_paused",
        "_relay",
        "_relay_due",
        "_request_count",
        "_sealed",
        "_shown",
        "_since_s",
        "_transport",
        "_waiting",
        "_write_paused_s",
    )
    response: ClassVar[type[PendingResponse]] = PendingResponse
    """What holds the place of the response to a publishing request."""

    def __init__(self, context: IngestContext) -> None:
        self._context = context
        self._reader = RequestReader(
            lambda request: context.admit(request, self._certificate, self._address),
            context.settings.body_bytes_max,
            body_bytes_max,
            context.addresses.usual_lines,
        )
        self._waiting: deque[PendingResponse] = deque()  # answers owed, in order
        self._transport: asyncio.Transport | None = None
        self._address: str | None = None
        self._certificate: PeerCertificate | None = None
        self._shown = Shown()
        self._entered = self._advancing = self._reading_paused = False  # entered: counted
        self._sealed = self._half_closed = False  # we read no more requests; the client sends none
        self._linger_until_s: float | None = None
        self._write_paused_s: float | None = None
        self._phase = ReadPhase.NEW
        self._since_s = self._read_s = 0.0  # start of the phase, last read
        self._linger_bytes = self._request_count = 0
        self._body = HeldBody(context.bodies)
        self._relay: Relay | None = None
        self._relay_due: Request | None = None

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or reject it with 503 when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        # A TCP peer is a tuple; that of a Unix socket a string, which is no address.
        self._address = str(peer[0]) if isinstance(peer, tuple) else None
        self._since_s = self._context.now_s()
        self._entered = self._context.enter(self, self._address)
        if not self._entered:
            self._refuse(RequestError("unavailable", "Too many connections."), None, broken=True)

    def connection_lost(self, _error: Exception | None) -> None:
        """Release the connection; requests that wait for the log end without a response."""
        self._transport = None
        self._sealed = True
        self._body.release()
        self._reader.forget()
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.abort()
        self._leave()

    def _leave(self) -> None:
        if self._entered:
            self._entered = False
            self._context.leave(self, self._address)

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the client."""
        context = self._context
        context.counters.received_bytes += len(data)
        if self._sealed:
            self._linger_bytes += len(data)
            if self._linger_bytes > _limits.LINGER_BYTES_MAX:
                self.cut()
            return
        self._read_s = context.now_s()
        if not self._publish_plain(data):
            self._reader.receive(data)
            self._advance()

    def eof_received(self) -> bool:
        """Handle the client's end of stream: finish responses under way, except watches.

        After it during a watch, the client has disconnected. Other responses end soon.
        """
        self._half_closed = True
        if self._linger_until_s is not None:
            return False
        if self._relay is not None:
            return not self._relay.endless
        return bool(self._waiting) or self._relay_due is not None

    def pause_writing(self) -> None:
        """Read no more requests: the client does not read its responses."""
        self._write_paused_s = self._context.now_s()
        if self._relay is not None:
            self._relay.pause()

    def resume_writing(self) -> None:
        """Resume reading requests."""
        self._write_paused_s = None
        if self._relay is not None:
            self._relay.resume()
        self._advance()

    # -- what the context calls

    def sweep(self, now_s: float) -> None:
        """Enforce deadlines."""
        paused_s = self._write_paused_s
        if self._linger_until_s is not None:
            if now_s >= self._linger_until_s:
                self.cut()
        elif paused_s is not None and now_s - paused_s >= _limits.WRITE_STALL_S:
            self._context.counters.connections_cut += 1
            self.cut()
        elif self._relay is not None:
            self._relay.sweep(now_s)
        elif paused_s is not None or self._waiting or self._relay_due is not None:
            return  # the server owes the next step, not the client
        elif overdue(self._phase, now_s - self._since_s, self._reader.body_bytes):
            self._context.counters.connections_cut += 1
            if self._phase in (ReadPhase.IDLE, ReadPhase.NEW) or self._reader.skipping:
                self._close()  # nothing is owed: a body that is skipped was answered
            else:
                error = RequestError("request-timeout", "The request took too long to arrive.")
                self._refuse(error, self._reader.body_under_way, broken=True)

    @property
    def idle_since_s(self) -> float | None:
        """Start of the idle time; None: something is under way."""
        idle = self._phase in (ReadPhase.IDLE, ReadPhase.NEW) and not self._reader.mid_request
        return self._since_s if idle and not self._under_way and not self._sealed else None

    @property
    def _under_way(self) -> bool:
        """Whether a response is owed."""
        return bool(self._waiting) or self._relay is not None or self._relay_due is not None

    def give_way(self) -> None:
        """Close an idle connection in favour of a new one."""
        self._context.counters.connections_cut += 1
        self._leave()
        self._close()

    def drain(self) -> None:
        """Close the connection if it is idle; end a watch."""
        if self._relay is not None:
            self._relay.drain()
        if not self._under_way and self._linger_until_s is None and not self._reader.mid_request:
            self._close()

    def cut(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    # -- reading requests

    def _advance(self) -> None:
        """Read requests as far as bytes and limits allow. Never re-entered."""
        if self._advancing:
            return
        self._advancing = True
        progressed = False
        try:
            while not self._sealed:
                if not self._may_read():
                    return
                try:
                    request = self._reader.next_request()
                except RequestError as error:
                    self._refuse(error, self._reader.refused, broken=self._reader.broken)
                    progressed = True
                    continue
                if request is None:
                    self._await_bytes(progressed=progressed)
                    return
                progressed = True
                self._answer(request)
        finally:
            self._advancing = False

    def _may_read(self) -> bool:
        """Whether another request may be read now; pauses reading if not."""
        relaying = self._relay is not None or self._relay_due is not None
        blocked = (
            relaying
            or self._write_paused_s is not None
            or len(self._waiting) >= _limits.PIPELINED_MAX
        )
        if not blocked and not self._reading_paused:
            return True  # Nearly always.
        # While proxying, read on a little: only so is the client's end of stream noticed.
        pause = blocked and not (
            relaying and self._reader.buffered_bytes < _limits.RELAY_BUFFER_BYTES_MAX
        )
        if pause != self._reading_paused and self._transport is not None:
            self._reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        return not blocked

    def _await_bytes(self, *, progressed: bool) -> None:
        """Set the deadline of what is expected next from the client."""
        reader = self._reader
        if not reader.mid_request:
            self._phase = ReadPhase.IDLE
            self._since_s = self._read_s
        else:
            request = reader.body_under_way
            phase = ReadPhase.HEAD if request is None and not reader.skipping else ReadPhase.BODY
            if progressed or phase is not self._phase:
                self._phase = phase
                self._since_s = self._read_s
            if request is not None:
                self._await_body(request)
        if self._body.bytes and reader.body_under_way is None:
            self._body.release()
        if self._half_closed and not self._waiting and not self._sealed:
            self._close()

    def _await_body(self, request: Request) -> None:
        """Account for a partial body; send the interim 100 where the client expects it."""
        self._body.hold(request, self._reader.body_bytes)
        try:
            self._body.check(self._context.settings.held_bytes_max)
        except RequestError as error:
            self._refuse(error, request, broken=True)
            return
        if request.expects_continue and not self._waiting and self._transport is not None:
            request.expects_continue = False
            if self._reader.body_bytes == 0:
                self._transport.write(self._context.answers.go_on)

    # -- answering

    def _answer(self, request: Request) -> None:
        searches = is_search(request)
        address = None if searches else self._context.addresses.by_path.get(request.path)
        if address is None and request.path != b"*":
            if is_address(request.path) and not searches:
                # Its Broker or Channel was deleted while the body arrived.
                self._refuse(self._context.no_address(request.path), request, broken=False)
                return
            self._body.hold(request, len(request.body))  # until it is answered
            self._relay_due = request
            self._start_relay()
        elif address is not None and request.method == b"POST":
            self._publish(request, address)
        else:
            persistence = self._take_turn(request)
            answer = self._context.options(request, persistence)
            self._context.counters.answers_by_status[200] += 1
            self._answer_now(answer, persistence)

    def _publish_plain(self, received: bytes) -> bool:
        """Publish the event of *received* if that is one plain request, and nothing is under way.

        False: the reader has to parse it.
        """
        context, reader = self._context, self._reader
        under_way = self._waiting or self._relay is not None or self._relay_due is not None
        paused = self._write_paused_s is not None or self._reading_paused
        if under_way or paused or not reader.between_requests:
            return False
        found = context.plain_event(received, reader.body_bytes_max, self._shown, self._certificate)
        if found is None:
            return False
        self._phase, self._since_s = IDLE, self._read_s
        self._request_count += 1
        self._sealed = self._request_count >= _limits.REQUESTS_PER_CONNECTION_MAX
        pending = self.response(self, CLOSE if self._sealed else KEEP)
        self._waiting.append(pending)
        pending.append(context, found, self._read_s)
        return True

    def _publish(self, request: Request, address: str) -> None:
        """Append the events of *request*; responds when they are durable.

        An empty batch is valid (JSON batch format): it gets 202 at once.
        """
        try:
            self._body.pass_on(request, self._context.settings.held_bytes_max)
            events, binary_record = receive(request.fields, request.body)
            check_count(events, self._context.settings.batch_events_max)
            self._context.check_events(request, events)
        except RequestError as error:
            self._refuse(error, request, broken=False)
            return
        except EventError as error:
            self._answer_problem(error.code, detail_of(error), request, faults=error.faults)
            return
        ttls = take_ttls(events)
        if ttls is not None and min(ttls) <= 0:
            faults = used_up(ttls, request.fields)
            self._answer_problem("hop-limit", FAULTS_LISTED, request, faults=faults)
            return
        along_lines = carried.of_request(request.head, request.fields)
        if along_lines is None:
            self._refuse(too_much_carried(), request, broken=False)
            return
        persistence = self._take_turn(request)
        if events:
            pending = self.response(self, persistence)
            self._waiting.append(pending)
            sender = request.sender
            record = received(events, address, ttls, along_lines, binary_record, sender=sender)
            taken = self._context.take(address, events, record, len(request.body))
            pending.append_parsed(self._context, taken, self._read_s)
        else:
            self._context.counters.accepted(0, 0.0)
            self._answer_now(self._context.answers.accepted[persistence], persistence)

    def _refuse(self, error: RequestError, request: Request | None, *, broken: bool) -> None:
        """Respond to a request that is not read to its end; *broken*: the connection ends."""
        if broken:
            self._sealed = True
            self._body.release()
            self._reader.forget()
        self._answer_problem(error.request_code, str(error), request)

    def _answer_problem(
        self,
        code: str,
        detail: str,
        request: Request | None,
        *,
        faults: tuple[Fault, ...] = (),
        persistence: Persistence | None = None,
    ) -> None:
        if persistence is None:
            persistence = self._take_turn(request)
        self._context.counters.refused(code, CATALOGUE[code].status)
        answer = self._context.answers.problem(
            code,
            detail,
            persistence,
            faults=faults,
            allow=allow_of(request, self._context.addresses),
            without_body=request is not None and request.method == b"HEAD",
            as_status=request is not None and expects_status(request),
        )
        self._answer_now(answer, persistence)

    def _take_turn(self, request: Request | None) -> Persistence:
        """Count a request; returns the persistence of its response. The last one seals."""
        self._request_count += 1
        if (
            request is None
            or self._sealed
            or not request.keep_alive
            or self._request_count >= _limits.REQUESTS_PER_CONNECTION_MAX
            or self._context.draining
        ):
            self._sealed = True
            return Persistence.CLOSE
        return Persistence.KEEP_HTTP10 if request.http10 else Persistence.KEEP

    def _answer_now(self, answer: bytes, persistence: Persistence) -> None:
        pending = PendingResponse(self, persistence)
        pending.answer = answer
        self._waiting.append(pending)
        self.flush()

    def flush(self) -> None:
        """Write the responses that are ready, in order; resumes reading that waited for it."""
        waiting, transport = self._waiting, self._transport
        ready = b""
        persistence = KEEP
        while waiting:
            answer = waiting[0].answer
            if answer is None:
                break
            ready = ready + answer if ready else answer  # nearly always one
            persistence = waiting.popleft().persistence
        if transport is None or not ready:
            return
        transport.write(ready)
        if persistence is CLOSE:
            self._end()
        elif not waiting and self._relay_due is not None:
            self._start_relay()
        elif self._reading_paused or self._half_closed or self._phase is not IDLE:
            self._advance()

    def _end(self) -> None:
        """Close after the last response, lingering so that the client can read it."""
        transport = self._transport
        if transport is None:
            return
        unread = self._reader.mid_request or self._reader.broken
        if not unread or not self._entered or self._half_closed or not transport.can_write_eof():
            transport.close()
            return
        transport.write_eof()
        self._linger_until_s = self._context.now_s() + _limits.LINGER_S
        if self._reading_paused:
            self._reading_paused = False
            transport.resume_reading()

    def _close(self) -> None:
        self._sealed = True
        if self._transport is not None:
            self._transport.close()

    # -- passing on to the control process

    def _start_relay(self) -> None:
        """Proxy the due request, once all earlier responses are written."""
        request = self._relay_due
        if request is None or self._waiting or self._transport is None:
            return
        self._relay_due = None
        try:
            self._context.admit_whole(request)
        except RequestError as error:
            self._body.release()
            self._refuse(error, request, broken=False)
            return
        persistence, address = self._take_turn(request), self._address
        self._relay = Relay(
            self, self._context, self._transport, request, persistence=persistence, address=address
        )
        self._relay.start()

    def _forget_relay(self) -> None:
        self._relay = None
        self._body.release()
        self._since_s = self._read_s = self._context.now_s()

    def relay_ended(self, *, persistent: bool) -> None:
        """Handle the end of a proxied response; continues with the next request."""
        self._forget_relay()
        if persistent:
            self._advance()
        else:
            self._sealed = True
            self._end()

    def relay_failed(self, request: Request, persistence: Persistence) -> None:
        """Respond 503: the control process sent no response, and nothing was written yet."""
        self._forget_relay()
        detail = "The control process does not answer now."
        self._answer_problem("unavailable", detail, request, persistence=persistence)
        self._advance()
