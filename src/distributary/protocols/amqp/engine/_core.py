"""The sans-I/O core of one AMQP connection: drives proton and dispatches its events.

Called by ``_engine``, which has the socket, and by the links. Hides proton. Uses its C functions
(``cproton``), a documented interface, since the Python classes above them cost ten times as much
for each message. No I/O, no clock.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from distributary.protocols.amqp.engine import _proton
from distributary.protocols.amqp.engine._frames import Frames
from distributary.protocols.amqp.engine._limits import PEER_LINKS_MAX
from distributary.protocols.amqp.engine._link import AmqpLink, IncomingMessage
from distributary.protocols.amqp.engine._outcomes import Ended
from distributary.protocols.amqp.engine._sessions import Sessions

if TYPE_CHECKING:
    from distributary.protocols.amqp.engine._engine import AmqpEngine

CLOSED_BY_US: Final = Ended("local", "", "The connection was closed here")

_SETTLEMENTS: Final = ("unsettled", "settled", "mixed")
"""Sender settle modes by their number (AMQP 1.0, section 2.8.2)."""


_FRAMES_EACH: Final = 4
"""``begin``, ``attach``, ``flow`` and ``detach``; of a message, two are usual."""


class Core:
    """Protocol state of one connection, in proton.

    Args:
        engine: The engine; passed to the handler.
        wake: Called when there may be bytes to write.
        server: Whether this end is the server.
        host: ``hostname`` of a client's ``open``.
        container: ``container-id`` of this end.
        idle_ms: Idle time-out of this end.
        message_bytes_max: Largest message that links accept.

    Attributes:
        ended: How the connection ended; None: it has not.
        closing: Whether this end has sent ``close``.
        wake: Called when there may be bytes to write.
        freed: Whether proton's memory was freed.
        opened: Whether the peer has sent ``open``.
    """

    def __init__(
        self,
        engine: "AmqpEngine",
        wake: Callable[[], None],
        *,
        server: bool,
        host: str,
        container: str,
        idle_ms: int,
        message_bytes_max: int,
    ) -> None:
        self.ended: Ended | None = None
        self.closing = False
        self._unwritten: dict[Any, AmqpLink] = {}
        self._engine = engine
        self._handler = engine.handler
        self.wake = wake
        self._server = server
        self._message_bytes_max = message_bytes_max
        self._links: dict[Any, AmqpLink] = {}
        self._peer_links: set[Any] = set()
        self._frames = Frames()
        self._in_events = False
        self.freed = self.opened = False
        self._next_tag = 0
        self._c = c = _proton.library()
        self._on = self._callbacks(c)
        self._collector = c.pn_collector()
        self._connection = c.pn_connection()
        c.pn_connection_collect(self._connection, self._collector)
        c.pn_connection_set_container(self._connection, container)
        if host and not server:
            c.pn_connection_set_hostname(self._connection, host)
        self._transport = _proton.new_transport(server=server, idle_ms=idle_ms)
        self._sessions = Sessions(self._connection, self._transport)
        c.pn_transport_bind(self._transport, self._connection)
        if not server:
            c.pn_connection_open(self._connection)

    def _callbacks(self, c: Any) -> dict[int, Any]:
        """Returns type of proton's event -> callback."""
        return {
            c.PN_CONNECTION_REMOTE_OPEN: self._on_open,
            c.PN_CONNECTION_REMOTE_CLOSE: self._on_close,
            c.PN_SESSION_REMOTE_OPEN: self._on_session_open,
            c.PN_SESSION_REMOTE_CLOSE: self._on_session_close,
            c.PN_LINK_REMOTE_OPEN: self._on_link_open,
            c.PN_LINK_REMOTE_CLOSE: self._on_link_close,
            c.PN_LINK_REMOTE_DETACH: self._on_link_close,
            c.PN_LINK_FLOW: self._on_flow,
            c.PN_DELIVERY: self._on_delivery,
            c.PN_TRANSPORT_ERROR: self._on_error,
        }

    # -- bytes and time -----------------------------------------------------------------------

    def take(self, raw: bytes) -> None:
        """Parse bytes from the peer, and call the handler. Ignored after the end.

        Raises:
            AmqpError: The bytes are not AMQP.
        """
        if self.ended is not None:
            return
        c = self._c
        view = memoryview(self._frames.take(raw))
        while view and self.ended is None:
            room = c.pn_transport_capacity(self._transport)
            taken = c.pn_transport_push(self._transport, view[:room]) if room > 0 else -1
            if taken < 0:
                break  # the connection has ended: the reason is in an event
            view = view[taken:]
            self.run_events()

    def output(self) -> bytes | None:
        """Returns the next bytes for the peer; empty: none for now; None: no more, ever."""
        c = self._c
        pending = c.pn_transport_pending(self._transport)
        if pending <= 0:
            self._sessions.all_is_said()
            return b"" if pending == 0 else None
        raw: bytes = c.pn_transport_peek(self._transport, pending)[1]
        c.pn_transport_pop(self._transport, pending)
        self._frames.said(raw)
        return raw

    def tell_written(self) -> None:
        """Call ``written`` for links without unwritten bytes; the socket's buffer is empty."""
        if not self._unwritten:
            return
        for pointer, link in list(self._unwritten.items()):
            if link.unwritten_bytes == 0:
                self._unwritten.pop(pointer, None)
                self._handler.written(link)

    def tick(self, now_ms: int) -> int:
        """Pass the time to proton. Returns the deadline of the next call, ms, or 0."""
        self._frames.ticked()
        due_ms: int = self._c.pn_transport_tick(self._transport, now_ms)
        return due_ms

    def expect(self, count: int) -> None:
        """Take the frames by which the peer answers *count* messages, links or credits."""
        self._frames.expect(_FRAMES_EACH * count)

    # -- the connection -----------------------------------------------------------------------

    def close(self, condition: str, text: str) -> None:
        """Send ``close``, with an error if *condition* is set."""
        self.closing = True
        if condition:
            _proton.say(self._c.pn_connection_condition(self._connection), condition, text)
        self._c.pn_connection_close(self._connection)
        self.wake()

    def end(self, ended: Ended) -> None:
        """Mark the connection and its links as ended, and call ``closed``, once."""
        if self.ended is not None:
            return
        self.ended = ended
        for link in self._links.values():
            link.ended = ended
        self._links.clear()
        self._unwritten.clear()
        self._handler.closed(ended)

    def free(self) -> None:
        """Free proton's memory; none of its pointers may be used after this."""
        if self.freed:
            return
        self.freed = True
        c = self._c
        c.pn_transport_unbind(self._transport)
        c.pn_connection_release(self._connection)
        c.pn_collector_free(self._collector)
        c.pn_decref(self._transport)
        c.pn_decref(self._connection)

    # -- links --------------------------------------------------------------------------------

    @property
    def links_max(self) -> int:
        """Limit of open links, from both ends' limits of sessions."""
        if self.freed:
            return 0
        return self._sessions.most

    @property
    def has_room(self) -> bool:
        return not self.freed and self._sessions.has_room

    def open_sender(
        self,
        address: str,
        name: str,
        *,
        settled: bool = False,
        properties: dict[str, Any] | None = None,
    ) -> AmqpLink:
        c = self._c
        encoded = _proton.symbol_map(properties)
        pointer = self._new_link(c.pn_sender, name)
        c.pn_terminus_set_type(c.pn_link_target(pointer), c.PN_TARGET)
        c.pn_terminus_set_address(c.pn_link_target(pointer), address)
        # RabbitMQ creates the queue of the address as durable with this, else as transient.
        c.pn_terminus_set_durability(c.pn_link_target(pointer), c.PN_CONFIGURATION)
        c.pn_terminus_set_type(c.pn_link_source(pointer), c.PN_SOURCE)
        c.pn_terminus_set_address(c.pn_link_source(pointer), name)
        c.pn_link_set_snd_settle_mode(pointer, c.PN_SND_SETTLED if settled else c.PN_SND_UNSETTLED)
        if encoded:
            c.pn_data_decode(c.pn_link_properties(pointer), encoded)
        return self._opened_here(pointer, address, sending=True)

    def open_receiver(self, address: str | None, name: str) -> AmqpLink:
        c = self._c
        pointer = self._new_link(c.pn_receiver, name)
        source = c.pn_link_source(pointer)
        c.pn_terminus_set_type(source, c.PN_SOURCE)
        if address is None:
            c.pn_terminus_set_dynamic(source, True)
        else:
            c.pn_terminus_set_address(source, address)
        c.pn_terminus_set_type(c.pn_link_target(pointer), c.PN_TARGET)
        c.pn_terminus_set_address(c.pn_link_target(pointer), name)
        # A message that the peer sends settled would be lost if it is not stored.
        c.pn_link_set_snd_settle_mode(pointer, c.PN_SND_UNSETTLED)
        c.pn_link_set_rcv_settle_mode(pointer, c.PN_RCV_FIRST)
        return self._opened_here(pointer, address, sending=False)

    def send(
        self, link: AmqpLink, pointer: Any, payload: bytes, token: object, *, settled: bool
    ) -> None:
        c = self._c
        self.expect(1)
        self._next_tag = tag = self._next_tag + 1
        delivery = c.pn_delivery(pointer, str(tag))
        c.pn_link_send(pointer, payload)
        if settled:
            c.pn_delivery_settle(delivery)
        else:
            link.unsettled[delivery] = token
        c.pn_link_advance(pointer)
        self._unwritten[pointer] = link
        self.wake()

    def accept_link(self, link: AmqpLink, pointer: Any, address: str | None) -> None:
        c = self._c
        c.pn_terminus_copy(c.pn_link_source(pointer), c.pn_link_remote_source(pointer))
        c.pn_terminus_copy(c.pn_link_target(pointer), c.pn_link_remote_target(pointer))
        if address is not None:
            node = c.pn_link_source(pointer) if link.sending else c.pn_link_target(pointer)
            c.pn_terminus_set_address(node, address)
            link.address = address
        c.pn_link_set_max_message_size(pointer, self._message_bytes_max)
        c.pn_link_open(pointer)
        self.wake()

    def close_link(self, link: AmqpLink, pointer: Any, condition: str, text: str) -> None:
        c = self._c
        if condition:
            _proton.say(c.pn_link_condition(pointer), condition, text)
        if c.pn_link_state(pointer) & c.PN_LOCAL_UNINIT:
            # A refusal is an attach without the requested node, then a detach (part 2 of the
            # standard, section 2.6.3).
            node = c.pn_link_source(pointer) if link.sending else c.pn_link_target(pointer)
            c.pn_terminus_set_type(node, c.PN_UNSPECIFIED)
            c.pn_link_open(pointer)
        c.pn_link_close(pointer)
        self._forget(pointer, Ended("local", condition, text))
        if link.ours:
            self._sessions.end(c.pn_link_session(pointer))
        self.wake()

    # -- proton's events ----------------------------------------------------------------------

    def run_events(self) -> None:
        if self._in_events:
            return
        self._in_events = True
        c, collector, on = self._c, self._collector, self._on
        null = c.ffi.NULL
        try:
            while self.ended is None:
                event = c.pn_collector_peek(collector)
                if event == null:
                    break
                callback = on.get(c.pn_event_type(event))
                if callback is not None:
                    callback(event)
                if not self.freed:
                    c.pn_collector_pop(collector)
        finally:
            self._in_events = False

    def _on_open(self, _event: Any) -> None:
        if self.opened:
            return  # proton accepts a second ``open``
        self.opened = True
        if self._server:
            self._c.pn_connection_open(self._connection)
        self._handler.opened(self._engine)

    def _on_close(self, _event: Any) -> None:
        c = self._c
        ended = _proton.said(c.pn_connection_remote_condition(self._connection))
        if self.closing:
            ended = CLOSED_BY_US
        self.closing = True
        c.pn_connection_close(self._connection)
        self.end(ended)
        c.pn_transport_close_tail(self._transport)

    def _on_error(self, _event: Any) -> None:
        c = self._c
        text = _proton.said(c.pn_transport_condition(self._transport)).text
        if self.closing:
            self.end(CLOSED_BY_US)
            return
        self.closing = True
        self.end(Ended("silent" if "idle-timeout" in text else "protocol", "", text))

    def _on_session_open(self, event: Any) -> None:
        self._sessions.begun(self._c.pn_event_session(event))

    def _on_session_close(self, event: Any) -> None:
        c = self._c
        session = c.pn_event_session(event)
        ended = _proton.said(c.pn_session_remote_condition(session))
        gone = [
            (pointer, link)
            for pointer, link in self._links.items()
            if c.pn_link_session(pointer) == session
        ]
        for pointer, link in gone:
            self._forget(pointer, ended)
            self._handler.link_closed(link)
        # Refused links end with their session too.
        self._peer_links = {
            pointer for pointer in self._peer_links if c.pn_link_session(pointer) != session
        }
        self._sessions.ended(session)

    def _on_link_open(self, event: Any) -> None:
        c = self._c
        pointer = c.pn_event_link(event)
        link = self._links.get(pointer)
        if link is None:
            if not c.pn_link_state(pointer) & c.PN_LOCAL_UNINIT:
                return  # closed here meanwhile
            self._peer_links.add(pointer)
            if len(self._peer_links) > PEER_LINKS_MAX:
                self._engine.abort()
                return
            link = self._link(pointer, sending=bool(c.pn_link_is_sender(pointer)))
            own = c.pn_link_remote_source if link.sending else c.pn_link_remote_target
        else:
            own = c.pn_link_remote_target if link.sending else c.pn_link_remote_source
        node = own(pointer)
        if link.ours and c.pn_terminus_get_type(node) == c.PN_UNSPECIFIED:
            return  # a refusal: the reason follows in the detach
        address = _proton.text(c.pn_terminus_get_address, node)
        link.address = address if address or not link.ours else link.address
        link.dynamic = bool(c.pn_terminus_is_dynamic(node))
        link.settlement = _SETTLEMENTS[c.pn_link_remote_snd_settle_mode(pointer)]
        self._handler.link_opened(link)

    def _on_link_close(self, event: Any) -> None:
        c = self._c
        pointer = c.pn_event_link(event)
        link = self._links.get(pointer)
        if link is not None:
            ended = _proton.said(c.pn_link_remote_condition(pointer))
            self._forget(pointer, ended)
            c.pn_link_close(pointer)
            if link.ours:
                self._sessions.end(c.pn_link_session(pointer))
            self._handler.link_closed(link)
        self._peer_links.discard(pointer)
        c.pn_link_free(pointer)

    def _on_flow(self, event: Any) -> None:
        link = self._links.get(self._c.pn_event_link(event))
        if link is not None and link.sending:
            self._handler.credited(link)

    def _on_delivery(self, event: Any) -> None:
        c = self._c
        delivery = c.pn_event_delivery(event)
        pointer = c.pn_delivery_link(delivery)
        link = self._links.get(pointer)
        if link is None:
            _proton.drop(pointer, delivery)
            return
        if not link.sending:
            self._on_incoming(link, pointer, delivery)
            return
        state = c.pn_delivery_remote_state(delivery)
        if state not in _proton.STATES and not c.pn_delivery_settled(delivery):
            return
        token = link.unsettled.pop(delivery, None)
        if token is None:
            return
        outcome = _proton.outcome(delivery, state)
        c.pn_delivery_settle(delivery)
        self.wake()
        self._handler.settled(link, token, outcome)

    def _on_incoming(self, link: AmqpLink, pointer: Any, delivery: Any) -> None:
        c = self._c
        if c.pn_delivery_aborted(delivery):
            link.partial.clear()
            link.too_large = False
            c.pn_delivery_settle(delivery)
            link.grant(1)  # the credit was not used
            return
        if not c.pn_delivery_readable(delivery):
            return  # settled by its sender; freed when it is settled here
        size = c.pn_delivery_pending(delivery)
        if size:
            link.partial += c.pn_link_recv(pointer, size)[1]
        if len(link.partial) > self._message_bytes_max:
            link.partial.clear()
            link.too_large = True
            if not link.ours:
                text = f"A message is larger than {self._message_bytes_max} bytes"
                self._end_incoming(link, "amqp:link:message-size-exceeded", text)
                return
        if c.pn_delivery_partial(delivery):
            return
        if c.pn_link_credit(pointer) <= 0:  # proton counts credit without enforcing it
            text = "A message came for which there was no credit"
            self._end_incoming(link, "amqp:link:transfer-limit-exceeded", text)
            return
        incoming = IncomingMessage(
            link,
            self,
            delivery,
            b"" if link.too_large else bytes(link.partial),
            settled=bool(c.pn_delivery_settled(delivery)),
            too_large=link.too_large,
        )
        link.partial.clear()
        link.too_large = False
        c.pn_link_advance(pointer)
        self._handler.received(link, incoming)

    def _end_incoming(self, link: AmqpLink, condition: str, text: str) -> None:
        """End the link of a peer that violates a limit."""
        link.partial.clear()
        link.close(condition, text)
        self._handler.link_closed(link)

    # -- within -------------------------------------------------------------------------------

    def _new_link(self, make: Any, name: str) -> Any:
        return make(self._sessions.begin(), name)

    def _opened_here(self, pointer: Any, address: str | None, *, sending: bool) -> AmqpLink:
        c = self._c
        self.expect(1)
        c.pn_link_set_max_message_size(pointer, self._message_bytes_max)
        link = self._link(pointer, sending=sending)
        link.ours = True
        link.address = address
        c.pn_link_open(pointer)
        self.wake()
        return link

    def _link(self, pointer: Any, *, sending: bool) -> AmqpLink:
        link = AmqpLink(
            self._engine,
            self,
            pointer,
            _proton.text(self._c.pn_link_name, pointer) or "",
            sending=sending,
        )
        self._links[pointer] = link
        return link

    def _forget(self, pointer: Any, ended: Ended) -> None:
        link = self._links.pop(pointer, None)
        self._unwritten.pop(pointer, None)
        if link is not None:
            link.ended = ended
