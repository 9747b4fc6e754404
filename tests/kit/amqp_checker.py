"""An AMQP 1.0 consumer that collects what arrived in a queue of a real broker.

Called by ``tests/brokers`` and ``testing.broker_kills``.
"""

import asyncio
from types import TracebackType
from typing import Self

from distributary.core.event import Event
from distributary.protocols.amqp import binding
from distributary.protocols.amqp.engine import (
    ACCEPTED,
    AmqpEngine,
    AmqpLink,
    AmqpLogin,
    AmqpMessage,
    Ended,
    IncomingMessage,
    Outcome,
    decode_message,
)
from kit.servers import PASSWORD, USER

CREDIT = 1_000
OPEN_S_MAX = 60.0


class AmqpChecker:
    """A consumer of *address* on the running loop; an asynchronous context manager.

    Attributes:
        messages: Messages received, in order.
        link: Its receiving link.
        ended: Why it stopped reading; None: it has not.
    """

    def __init__(self, port: int, address: str) -> None:
        self.messages: list[AmqpMessage] = []
        self.link: AmqpLink | None = None
        self.ended: Ended | None = None
        self._port = port
        self._address = address
        self._engine: AmqpEngine | None = None
        self._reads: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def events(self) -> list[Event]:
        """The events in what it has taken."""
        return [binding.decode(message) for message in self.messages]

    async def __aenter__(self) -> Self:
        """Connect, and wait until it reads."""
        login = AmqpLogin(USER, PASSWORD)
        self._engine = AmqpEngine(self, login=login, host="localhost", container="witness")
        loop = asyncio.get_running_loop()
        engine = self._engine
        await loop.create_connection(lambda: engine, "127.0.0.1", self._port)
        async with asyncio.timeout(OPEN_S_MAX):
            await self._reads
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave at once."""
        assert self._engine is not None
        self._engine.abort()
        await asyncio.sleep(0)

    # What the engine calls.

    def opened(self, engine: AmqpEngine) -> None:
        """Have the queue made, as a sender would."""
        engine.open_sender(self._address, "witness-of-making")

    def link_opened(self, link: AmqpLink) -> None:
        """Read from the queue, now that it is there."""
        if link.sending:
            # RabbitMQ: a queue that exists has another address than one that is to be made.
            address = self._address.replace("/queue/", "/amq/queue/", 1)
            self.link = link.engine.open_receiver(address, "witness")
            link.close()
            return
        link.grant(CREDIT)
        self._reads.set_result(None)

    def credited(self, link: AmqpLink) -> None:
        """It sends nothing."""

    def received(self, link: AmqpLink, incoming: IncomingMessage) -> None:
        """Take it."""
        self.messages.append(decode_message(incoming.payload))
        incoming.settle(ACCEPTED)
        link.grant(1)

    def settled(self, link: AmqpLink, token: object, outcome: Outcome) -> None:
        """It sends nothing."""

    def written(self, link: AmqpLink) -> None:
        """It sends nothing."""

    def link_closed(self, link: AmqpLink) -> None:
        """Whoever waits for it hears why."""
        self._fail(link.ended)

    def closed(self, ended: Ended) -> None:
        """Whoever waits for it hears why."""
        self._fail(ended)

    def _fail(self, ended: Ended | None) -> None:
        self.ended = ended
        if not self._reads.done():
            self._reads.set_exception(ConnectionError(f"the witness cannot read: {ended}"))
