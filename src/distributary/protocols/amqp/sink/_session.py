"""The ``Session`` of a ``BrokerTransport`` over one AMQP connection, with a link for each place.

Hides links and credit: events without credit are queued here in order, for each link, so one
address without credit delays no other.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from distributary.core.clock import Clock
from distributary.core.errors import EventError, TransportError
from distributary.core.policy import Acknowledgement, Answer
from distributary.net.link import SLOW_START_S, Flight, Lost
from distributary.protocols.amqp import binding
from distributary.protocols.amqp import engine as amqp
from distributary.protocols.amqp.settings import AmqpSettings
from distributary.protocols.amqp.sink import _answers
from distributary.protocols.amqp.sink._connection import AmqpConnection
from distributary.protocols.amqp.sink._outlet import Outlet

WINDOW: Final = 4_096
"""Messages in flight on one connection: at 6,000 a second more than half a second's worth, which
keeps a broker busy that syncs its disk now and then. Each costs a reference here. Messages queued
for a link or credit do not count: an address without credit must not exhaust the window."""

UNWRITTEN_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one link that are in proton and not in the socket; beyond, events stay queued
unencoded. The largest event by default, or a thousand of the usual size."""

SPARE_SHARE: Final = 1 / 16
"""Share of a connection's links that is kept free by closing idle ones: a closed link counts until
the broker has confirmed it, and new ones are opened meanwhile."""

SWEEP_S: Final = 1.0
"""Interval at which queues are swept for attempts that timed out."""

ATTACH_S_MAX: Final = 10.0
"""Longest wait for a broker to accept or refuse a link; the next attempt opens it again."""


class AmqpSession(AmqpConnection):
    """One open connection; see ``net.link.Session``.

    Args:
        clock: For the time of sending.
        lost: Called when the connection is lost.
        note: Called before that with whether the next connection needs a slow start.
        slow_start: Whether this one does.
    """

    def __init__(
        self, clock: Clock, lost: Lost, note: Callable[[bool], None], *, slow_start: bool
    ) -> None:
        super().__init__()
        self.window = WINDOW
        self._monotonic_s = clock.monotonic_s
        self._lost = lost
        self._note = note
        self._since_s = clock.monotonic_s()
        self._slow_start_until_s = self._since_s + SLOW_START_S if slow_start else 0.0
        self._careful_places: dict[AmqpSettings, float] = {}  # until when the next link is slow
        self._outlets: dict[AmqpSettings, Outlet] = {}
        self._sweep: asyncio.TimerHandle | None = None

    # -- net.link.Session ---------------------------------------------------------------------

    def publish(self, flight: Flight) -> None:
        """Send the event, or queue it for its link, its turn or credit."""
        settings = cast("AmqpSettings", flight.destination.settings)
        outlet = self._outlets.get(settings) or self._open_outlet(settings)
        if outlet.waiting or not self._may_send(outlet):
            self._wait(outlet, flight)
            return
        self._send(outlet, flight)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for outlet in self._outlets.values():
            # The transport answers these flights or retries them in the next session, whatever the
            # broker still sends.
            outlet.waiting.clear()
        await super().close()

    # -- sending ------------------------------------------------------------------------------

    def _wait(self, outlet: Outlet, flight: Flight) -> None:
        flight.sent_s = 0.0  # not sent yet: its timeout does not count against the connection
        outlet.waiting.append(flight)
        self.window += 1
        self._sweep_later()

    def _may_send(self, outlet: Outlet) -> bool:
        link = outlet.link
        return (
            outlet.open
            and link.credit > 0
            and link.unwritten_bytes <= UNWRITTEN_BYTES_MAX
            and not (outlet.slow_start_until_s and self._must_wait(outlet))
            and not (self._slow_start_until_s and self._all_must_wait())
        )

    def _must_wait(self, outlet: Outlet) -> bool:
        """Whether a message is in flight that may have ended the last link."""
        if outlet.slow_start_until_s <= self._monotonic_s():
            outlet.slow_start_until_s = 0.0
            return False
        return outlet.awaited

    def _all_must_wait(self) -> bool:
        """Whether a message is in flight that may have ended the last connection."""
        if self._slow_start_until_s <= self._monotonic_s():
            self._slow_start_until_s = 0.0
            self._note(False)
            return False
        return any(outlet.awaited for outlet in self._outlets.values())

    def _send(self, outlet: Outlet, flight: Flight) -> None:
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
        outlet.used = True
        if settled:
            outlet.unwritten.append(flight)

    def _pump(self, outlet: Outlet) -> None:
        """Send queued flights, as credit and limits allow."""
        waiting = outlet.waiting
        while waiting and self._may_send(outlet):
            flight = waiting.popleft()
            self.window -= 1
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
        if not waiting:
            outlet.link.return_credit()

    def _open_outlet(self, settings: AmqpSettings) -> Outlet:
        engine = self.engine
        assert engine is not None
        if len(self._outlets) >= engine.links_max * (1.0 - SPARE_SHARE):
            self._close_idle()
        if not engine.has_room:
            text = f"The connection has room for {engine.links_max} links: all are in use"
            raise TransportError("refused", text)
        name = settings.linkname or f"distributary-{uuid.uuid4().hex}"
        properties: dict[str, Any] = dict(settings.linkproperties)
        try:
            link = engine.open_sender(
                settings.address, name, settled=settings.settled, properties=properties
            )
        except amqp.AmqpError as error:
            text = f"The link properties cannot be sent: {error}"
            raise TransportError("protocol", text, retryable=False) from error
        slow_start_until_s = self._careful_places.pop(settings, 0.0)
        outlet = link.context = Outlet(link, settings, self._monotonic_s(), slow_start_until_s)
        self._outlets[settings] = outlet
        return outlet

    def _go_on(self, outlet: Outlet) -> None:
        """Send queued flights of *outlet*; in slow start of all outlets, the oldest first."""
        if not self._slow_start_until_s:
            if outlet.waiting:
                self._pump(outlet)
            return
        waiting = [outlet for outlet in self._outlets.values() if outlet.waiting]
        for each in sorted(waiting, key=lambda each: each.waiting[0].due_s):
            self._pump(each)

    def _close_idle(self) -> None:
        """Close an idle link, to make room."""
        idle = next((each for each in self._outlets.values() if each.idle), None)
        if idle is not None:
            self._drop(idle)

    def _sweep_later(self) -> None:
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep_now)

    def _sweep_now(self) -> None:
        """Remove queued flights that timed out, and links that were not accepted in time."""
        self._sweep = None
        late_s = self._monotonic_s() - ATTACH_S_MAX
        for outlet in list(self._outlets.values()):
            if not outlet.open and outlet.asked_s <= late_s:
                self._drop(outlet)
                self._tell(self._taken_back(outlet), _NO_LINK)
                continue
            over = [flight for flight in outlet.waiting if flight.answered]
            outlet.waiting = deque(flight for flight in outlet.waiting if not flight.answered)
            self.window -= len(over)
            self._tell(over, _OVERDUE)
            self._pump(outlet)
        if any(outlet.waiting for outlet in self._outlets.values()):
            self._sweep_later()

    def _drop(self, outlet: Outlet) -> None:
        if self._outlets.get(outlet.settings) is outlet:
            del self._outlets[outlet.settings]
        outlet.link.close()

    def _taken_back(self, outlet: Outlet) -> deque[Flight]:
        """Remove and return the queue of *outlet*."""
        flights, outlet.waiting = outlet.waiting, deque()
        self.window -= len(flights)
        return flights

    @staticmethod
    def _tell(flights: Iterable[Flight], answer: Answer) -> None:
        for flight in flights:
            flight.answer(answer)

    # -- amqp.Handler -------------------------------------------------------------------------

    def link_opened(self, link: amqp.AmqpLink) -> None:
        """Start sending on the link."""
        if not link.ours:
            link.close("amqp:not-allowed", "This client takes no links")
            return
        link.context.open = True
        self._pump(link.context)

    def credited(self, link: amqp.AmqpLink) -> None:
        """Send queued flights."""
        self._pump(link.context)

    def received(self, link: amqp.AmqpLink, incoming: amqp.IncomingMessage) -> None:
        """Ignored: the sink has no receiving link."""
        del link, incoming

    def settled(self, link: amqp.AmqpLink, token: object, outcome: amqp.Outcome) -> None:
        """Answer one flight."""
        cast("Flight", token).answer(_answers.answer_of_outcome(outcome))
        self._go_on(link.context)

    def written(self, link: amqp.AmqpLink) -> None:
        """Answer flights that were sent settled: they are delivered once written."""
        outlet: Outlet = link.context
        flights, outlet.unwritten = outlet.unwritten, []
        self._tell(flights, _answers.ACCEPTED)
        self._go_on(outlet)

    def link_closed(self, link: amqp.AmqpLink) -> None:
        """Answer flights of a link that the broker ended.

        If several were in flight, the culprit is unknown: all are retried, and the next link starts
        with one message at a time, where the culprit alone gets the broker's answer. A message that
        was sent settled is not in flight any more, so it may be the culprit in place of any other.
        Queued flights move to the next link.
        """
        outlet: Outlet = link.context
        self._drop(outlet)
        ended = link.ended
        assert ended is not None
        answer = _answers.answer_of_link(ended)
        judged = _answers.condemns(answer)
        under_way, waiting = outlet.under_way, self._taken_back(outlet)
        if not under_way and not (judged and outlet.used):
            self._tell(waiting, answer)
            return
        now_s = self._monotonic_s()
        young = now_s - outlet.asked_s < SLOW_START_S
        if judged or outlet.slow_start_until_s > now_s or (len(under_way) > 1 and young):
            places = self._careful_places.items()
            self._careful_places = {each: until_s for each, until_s in places if until_s > now_s}
            self._careful_places[outlet.settings] = now_s + SLOW_START_S
        if judged and (len(under_way) > 1 or outlet.settings.settled):
            text = f"The link was ended for one message ({ended.condition}): {ended.text}"
            answer = TransportError("reset", text)
        self._wait_again(outlet.settings, waiting)
        self._tell(under_way, answer)
        self._go_on(outlet)

    def _wait_again(self, settings: AmqpSettings, flights: Iterable[Flight]) -> None:
        """Queue *flights* for the next link to their place."""
        over = [flight for flight in flights if flight.answered]
        due = [flight for flight in flights if not flight.answered]
        try:
            if due:
                next_outlet = self._outlets.get(settings) or self._open_outlet(settings)
                for flight in due:
                    self._wait(next_outlet, flight)
        except TransportError as error:
            self._tell(due, error)
        self._tell(over, _OVERDUE)

    def closed(self, ended: amqp.Ended) -> None:
        """Report the end to the transport, which answers the flights."""
        super().closed(ended)
        if ended.cause == "local":
            return
        now_s = self._monotonic_s()
        count = sum(len(outlet.under_way) for outlet in self._outlets.values())
        if count and ended.cause != "silent":
            young = now_s - self._since_s < SLOW_START_S
            self._note(self._slow_start_until_s > now_s or (count > 1 and young))
        self._lost(_answers.answer_of_connection(ended))


_OVERDUE: Final = TransportError("timeout", "No credit within the time of one attempt")
"""Answer to flights that timed out already; it only frees their place."""

_NO_LINK: Final = TransportError("timeout", f"No link within {ATTACH_S_MAX:g} s")
