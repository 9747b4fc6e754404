"""One AMQP connection as a session of the broker transport, with a link for each place.

Called by ``deliver._broker``. Hides links and their credit: what may not be sent yet waits here in
its order, and one address without credit delays no other.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Hashable
from typing import Any, Final, cast

from distributary import amqp
from distributary.clock import Clock
from distributary.deliver._connector import Connector
from distributary.deliver._destination import Destination
from distributary.deliver._session import Flight, Lost, Session
from distributary.deliver.transports.amqp import _answers
from distributary.deliver.transports.amqp._connection import Connection, connect
from distributary.errors import EventError, TransportError
from distributary.event import amqp as binding
from distributary.policy import Acknowledgement, Answer
from distributary.resource import AmqpSettings

WINDOW: Final = 4_096
"""Messages of one connection that have no outcome: at 6,000 a second more than half a second's, so
that a broker that syncs its disk now and then is kept busy. Each costs a reference here."""

UNWRITTEN_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one link that proton has and the socket has not; more waits as events, which are held
anyway. The largest event by default, or a thousand of the usual size."""

SWEEP_S: Final = 1.0
"""How often what waits for credit is looked through for attempts whose time is over."""


class Opener:
    """Makes sessions; see ``deliver.Opener``.

    Args:
        connector: Dials.
        clock: Says when a flight was sent.
    """

    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock

    def key_of(self, destination: Destination) -> Hashable:
        """What of *destination* belongs to the connection: where it goes, and who we are."""
        endpoint = self._connector.endpoint_of(destination)
        if endpoint.scheme in {"amqp", "amqps"}:
            endpoint = endpoint._replace(target=b"")  # the path names an address, not a connection
        return endpoint, destination.credential

    async def open(self, destination: Destination, lost: Lost) -> Session | Answer:
        """Connect and log in."""
        endpoint = self._connector.endpoint_of(destination)
        session = AmqpSession(self._clock, lost)
        ended = await connect(self._connector, endpoint, destination.credential, session)
        return session if ended is None else _answers.answer_of_connection(ended)


class _Outlet:
    """The link to one place, and what waits for it.

    Attributes:
        link: Ours; opened by the peer or not yet.
        settings: What it was opened for.
        open: Whether the peer has agreed to it.
        waiting: Flights that could not be sent yet, in order.
        unwritten: Flights that were sent without acknowledgement and are not in the socket yet.
    """

    __slots__ = ("link", "open", "settings", "unwritten", "waiting")

    def __init__(self, link: amqp.Link, settings: AmqpSettings) -> None:
        self.link = link
        self.settings = settings
        self.open = False
        self.waiting: deque[Flight] = deque()
        self.unwritten: list[Flight] = []

    @property
    def idle(self) -> bool:
        """Whether nothing waits for it or is under way on it."""
        return not (self.waiting or self.unwritten or self.link.unsettled)


class AmqpSession(Connection):
    """One open connection; see ``deliver.Session``.

    Args:
        clock: Says when a flight was sent.
        lost: Told when the connection ends by itself.
    """

    def __init__(self, clock: Clock, lost: Lost) -> None:
        super().__init__()
        self.window = WINDOW
        self._monotonic_s = clock.monotonic_s
        self._lost = lost
        self._outlets: dict[AmqpSettings, _Outlet] = {}
        self._sweep: asyncio.TimerHandle | None = None

    # -- deliver.Session ----------------------------------------------------------------------

    def publish(self, flight: Flight) -> None:
        """Send it, or have it wait for its link, its turn or credit."""
        settings = cast("AmqpSettings", flight.destination.settings)
        outlet = self._outlets.get(settings) or self._open_outlet(settings)
        if outlet.waiting or not self._may_send(outlet):
            flight.sent_s = 0.0  # that nothing answers it says nothing about the connection
            outlet.waiting.append(flight)
            self._sweep_later()
            return
        self._send(outlet, flight)

    async def close(self) -> None:
        """See ``deliver.Session``."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        await super().close()

    # -- sending ------------------------------------------------------------------------------

    def _may_send(self, outlet: _Outlet) -> bool:
        link = outlet.link
        return outlet.open and link.credit > 0 and link.unwritten_bytes <= UNWRITTEN_BYTES_MAX

    def _send(self, outlet: _Outlet, flight: Flight) -> None:
        if flight.destination.format == "structured":
            payload = binding.encode_structured(flight.event)
        else:
            payload = binding.encode_binary(flight.event)
        link = outlet.link
        limit = link.message_bytes_max
        if 0 < limit < len(payload):
            text = f"{len(payload)} bytes; the broker takes {limit} here"
            code = f"link {_answers.TOO_LARGE}"
            flight.answer(Acknowledgement(_answers.PROTOCOL, code, text))
            return
        settled = outlet.settings.settled
        link.send(payload, flight, settled=settled)
        if settled:
            outlet.unwritten.append(flight)

    def _pump(self, outlet: _Outlet) -> None:
        """Send what waits, as far as it may be."""
        waiting = outlet.waiting
        while waiting and self._may_send(outlet):
            flight = waiting.popleft()
            if flight.answered:
                flight.answer(_OVERDUE)
                continue
            flight.sent_s = self._monotonic_s()
            try:
                self._send(outlet, flight)
            except TransportError as error:
                flight.answer(error)
            except EventError as error:
                text = f"Cannot encode: {error}"
                flight.answer(TransportError("protocol", text, retryable=False))

    def _open_outlet(self, settings: AmqpSettings) -> _Outlet:
        engine = self.engine
        assert engine is not None
        if len(self._outlets) >= engine.links_max:
            self._close_idle(engine.links_max)
        name = settings.linkname or f"distributary-{uuid.uuid4().hex}"
        properties: dict[str, Any] = dict(settings.linkproperties)
        try:
            link = engine.open_sender(
                settings.address, name, settled=settings.settled, properties=properties
            )
        except amqp.AmqpError as error:
            text = f"The link properties cannot be sent: {error}"
            raise TransportError("protocol", text, retryable=False) from error
        outlet = link.context = _Outlet(link, settings)
        self._outlets[settings] = outlet
        return outlet

    def _close_idle(self, links_max: int) -> None:
        idle = next((each for each in self._outlets.values() if each.idle), None)
        if idle is None:
            raise TransportError("refused", f"The connection has room for {links_max} links")
        del self._outlets[idle.settings]
        idle.link.close()

    def _sweep_later(self) -> None:
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep_now)

    def _sweep_now(self) -> None:
        """Free the places of flights that ran out of time before they could be sent."""
        self._sweep = None
        for outlet in list(self._outlets.values()):
            flights, outlet.waiting = outlet.waiting, deque()
            over = [flight for flight in flights if flight.answered]
            outlet.waiting.extend(flight for flight in flights if not flight.answered)
            for flight in over:
                flight.answer(_OVERDUE)
            self._pump(outlet)
        if any(outlet.waiting for outlet in self._outlets.values()):
            self._sweep_later()

    # -- amqp.Handler -------------------------------------------------------------------------

    def link_opened(self, link: amqp.Link) -> None:
        """Begin to send on it."""
        if not link.ours:
            link.close("amqp:not-allowed", "This client takes no links")
            return
        link.context.open = True
        self._pump(link.context)

    def credited(self, link: amqp.Link) -> None:
        """Go on with what waits."""
        self._pump(link.context)

    def received(self, link: amqp.Link, incoming: amqp.Incoming) -> None:
        """Nothing comes: no link of ours receives."""
        del link, incoming

    def settled(self, link: amqp.Link, token: object, outcome: amqp.Outcome) -> None:
        """The answer of one flight."""
        del link
        cast("Flight", token).answer(_answers.answer_of_outcome(outcome))

    def written(self, link: amqp.Link) -> None:
        """What was sent without acknowledgement is delivered now, and there is room again."""
        outlet: _Outlet = link.context
        flights, outlet.unwritten = outlet.unwritten, []
        for flight in flights:
            flight.answer(_answers.ACCEPTED)
        self._pump(outlet)

    def link_closed(self, link: amqp.Link) -> None:
        """The broker wants no more on this link: what waits or is under way hears why."""
        outlet: _Outlet = link.context
        if self._outlets.get(outlet.settings) is outlet:
            del self._outlets[outlet.settings]
        ended = link.ended
        assert ended is not None
        answer = _answers.answer_of_link(ended)
        under_way = [cast("Flight", each) for each in link.unsettled.values()]
        if len(under_way) > 1 and ended.condition in _answers.ABOUT_ONE_MESSAGE:
            answer = TransportError("reset", f"The link was ended for one message: {ended.text}")
        for flight in [*under_way, *outlet.unwritten, *outlet.waiting]:
            flight.answer(answer)

    def closed(self, ended: amqp.Ended) -> None:
        """The connection is over; whoever keeps the flights tells them."""
        super().closed(ended)
        if ended.cause != "local":
            self._lost(_answers.answer_of_connection(ended))


_OVERDUE: Final = TransportError("timeout", "No credit within the time of one attempt")
"""Given to flights that have their answer already."""
