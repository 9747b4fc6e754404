"""The AMQP source: receives from an AMQP 1.0 address, over one link with bounded credit.

Called by ``sources``. Hides links, credit and outcomes. The sink's package opens the connection.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver import Answer, Destination
from distributary.core.errors import EventError, Fault, TransportError
from distributary.core.event import Event
from distributary.core.policy import Acknowledgement
from distributary.core.source import Consumer, Message, Settlement, SourceSpec
from distributary.net import Connector
from distributary.protocols.amqp import binding
from distributary.protocols.amqp import engine as amqp
from distributary.protocols.amqp.sink import (
    AmqpConnection,
    answer_of_connection,
    answer_of_link,
    connect,
)

DIAL_S_MAX: Final = 10.0
"""Longest time to connect and log in; the same as for deliveries."""

ATTACH_S_MAX: Final = 10.0
"""Longest wait for a broker to accept or refuse the link; the same as for deliveries. A broker that
does neither would block the source as long as its connection lives."""

GOODBYE_S_MAX: Final = 1.0
"""Longest wait for an orderly close; then the connection is aborted."""

_OUTCOMES: Final = {
    Settlement.TAKEN: amqp.ACCEPTED,
    Settlement.REFUSED: amqp.Outcome(amqp.DeliveryState.REJECTED),
}


def make(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """Returns a consumer for ``AMQP``; ``spec.place`` is the address.

    Args:
        spec: The source.
        connector: Dials.
        clock: Not used: messages have no deadline here.
    """
    del clock
    return _AmqpConsumer(spec, connector)


class _AmqpConsumer:
    """See ``core.source.Consumer``."""

    def __init__(self, spec: SourceSpec, connector: Connector) -> None:
        self._spec = spec
        self._connector = connector

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        spec = self._spec
        broker = Destination(spec.uri, protocol=spec.protocol, ca_certs=spec.ca_certs)
        endpoint = self._connector.endpoint_of(broker)
        reading = _Reading(spec, take, unsettled_max)
        try:
            try:
                async with asyncio.timeout(DIAL_S_MAX):
                    ended = await connect(self._connector, endpoint, spec.credential, reading)
            except TimeoutError:
                text = f"No connection within {DIAL_S_MAX:g} s"
                raise TransportError("timeout", text) from None
            if ended is not None:
                raise _error(answer_of_connection(ended))
            try:
                async with asyncio.timeout(ATTACH_S_MAX):
                    await reading.begun.wait()
            except TimeoutError:
                raise TransportError("timeout", f"No link within {ATTACH_S_MAX:g} s") from None
            raise _error(await reading.over)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S_MAX):
                    await reading.close()


class _Reading(AmqpConnection):
    """One connection of the source, with one receiving link."""

    def __init__(
        self, spec: SourceSpec, take: Callable[[Message], None], unsettled_max: int
    ) -> None:
        super().__init__()
        self._spec = spec
        self._take = take
        self._unsettled_max = unsettled_max
        self._count = 0
        self._leaving = False
        self.begun = asyncio.Event()  # the link is open, or has ended
        self.over: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def opened(self, engine: amqp.AmqpEngine) -> None:
        """Open the link; see ``amqp.Handler``."""
        super().opened(engine)
        link = engine.open_receiver(self._spec.place, self._spec.name)
        link.grant(self._unsettled_max)

    def link_opened(self, link: amqp.AmqpLink) -> None:
        if link.ours:
            self.begun.set()
        else:
            link.close("amqp:not-allowed", "This client takes no links")

    def credited(self, link: amqp.AmqpLink) -> None:
        """Nothing is sent here."""

    def settled(self, link: amqp.AmqpLink, token: object, outcome: amqp.Outcome) -> None:
        """Nothing is sent here."""

    def written(self, link: amqp.AmqpLink) -> None:
        """Nothing is sent here."""

    def received(self, link: amqp.AmqpLink, incoming: amqp.IncomingMessage) -> None:
        """Hand the message over; the broker gets its outcome when it is settled."""
        if self._leaving:
            return  # unsettled, so the broker redelivers it
        self._count += 1
        event, fault = _decoded(incoming)

        def settle(settlement: Settlement) -> None:
            incoming.settle(_OUTCOMES[settlement])
            link.grant(1)

        self._take(Message(event, fault, f"{self._spec.place}#{self._count}", settle))

    def link_closed(self, link: amqp.AmqpLink) -> None:
        """End the run when the broker has ended the link."""
        if link.ours and link.ended is not None:
            self._end(answer_of_link(link.ended))

    def closed(self, ended: amqp.Ended) -> None:
        super().closed(ended)
        self._end(answer_of_connection(ended))

    async def close(self) -> None:
        """Stop receiving, and close the connection; see ``AmqpConnection``."""
        self._leaving = True
        await super().close()

    def _end(self, answer: Answer) -> None:
        self.begun.set()
        if not self.over.done():
            self.over.set_result(answer)


def _decoded(incoming: amqp.IncomingMessage) -> tuple[Event | None, EventError | None]:
    if incoming.too_large:
        text = f"a message is larger than {amqp.MESSAGE_BYTES_MAX:,} bytes"
        return None, EventError([Fault("$", "too-large", text)])
    try:
        return binding.decode(amqp.decode_message(incoming.payload)), None
    except amqp.AmqpError as error:
        return None, EventError([Fault("$", "encoding", f"no AMQP message: {error}")])
    except EventError as error:
        return None, error


def _error(answer: Answer) -> TransportError:
    """Returns the *answer* of a broker as an error of the connection."""
    if isinstance(answer, TransportError):
        return answer
    assert isinstance(answer, Acknowledgement)
    return TransportError("refused", f"{answer.code}: {answer.text}")
