"""A client of the Subscriptions API over AMQP, in this process and without a socket.

For tests: client and server are joined by memory. All of AMQP is there (login, links, credit,
frames) except the network.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from distributary.protocols.amqp.engine import (
    AmqpEngine,
    AmqpLink,
    AmqpLogin,
    AmqpMessage,
    DeliveryState,
    Ended,
    IncomingMessage,
    Outcome,
    decode_message,
    encode_message,
)

__all__ = ["AmqpAnswer", "AmqpClient", "MemoryWire", "RejectedError", "join"]

ANSWER_S_MAX: Final = 30.0
"""Longest wait for one answer: longer means that it never comes."""


class AmqpAnswer(NamedTuple):
    """A response of the API.

    Attributes:
        status: A word, such as ``ok``.
        code: The corresponding status of HTTP.
        properties: All application properties.
        message: The whole message.
    """

    status: str
    code: int
    properties: dict[str, Any]
    message: AmqpMessage

    def json(self) -> Any:
        """The JSON value of the body."""
        assert isinstance(self.message.body, bytes)
        return msgspec.json.decode(self.message.body)


class MemoryWire(asyncio.Transport):
    """One end of a connection in memory; bytes arrive in a later turn of the loop.

    Attributes:
        held: While True the bytes stay here, and the writer sees a full socket.
        unread: Bytes that arrived while reading was paused; None: it is not.
        peer: The other end.
    """

    def __init__(self, owner: asyncio.Protocol) -> None:
        super().__init__()
        self.held = False
        self.unread: list[bytes] | None = None
        self._owner = owner
        self.peer: MemoryWire | None = None
        self._kept: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._gone = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is one limit: what is held."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send *data*."""
        if self._gone:
            return
        if self.held:
            self._kept.append(bytes(data))
            self._owner.pause_writing()
        elif self.peer is not None:
            self._loop.call_soon(self.peer.arrive, bytes(data))

    def release(self) -> None:
        """Hold no longer."""
        self.held = False
        kept, self._kept = self._kept, []
        for data in kept:
            self.write(data)
        self._owner.resume_writing()

    def arrive(self, data: bytes) -> None:
        """Bytes of the other end."""
        if self.unread is not None:
            self.unread.append(data)
        elif not self._gone:
            self._owner.data_received(data)

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self.unread = self.unread or []

    def resume_reading(self) -> None:
        """Hand on what was kept, and what comes."""
        unread, self.unread = self.unread or [], None
        for data in unread:
            self.arrive(data)

    def is_closing(self) -> bool:
        """Whether the connection is over at this end."""
        return self._gone

    def close(self) -> None:
        """End the connection after what was written."""
        if self.peer is not None:
            self._loop.call_soon(self.peer.lose)
        self._loop.call_soon(self.lose)

    def abort(self) -> None:
        """End the connection."""
        self.close()

    def lose(self) -> None:
        """The connection is over at this end."""
        if not self._gone:
            self._gone = True
            self._owner.connection_lost(None)


def join(client: asyncio.Protocol, server: asyncio.Protocol) -> tuple[MemoryWire, MemoryWire]:
    """Connect the two; the wires of *client* and *server*."""
    wires = MemoryWire(client), MemoryWire(server)
    wires[0].peer, wires[1].peer = wires[1], wires[0]
    server.connection_made(wires[1])
    client.connection_made(wires[0])
    return wires


class AmqpClient:
    """A client with a link for requests and a dynamic one for responses (an ``amqp.Handler``).

    Requests may be concurrent; the first one waits for the links. A rejected request raises
    ``RejectedError``.

    Args:
        address: Node of the requests.
        credit: Responses that may arrive at once; the credit is renewed as they are taken.
        login: Shows who it is; None: nothing does.
    """

    def __init__(
        self,
        address: str = "subscriptions",
        *,
        credit: int = 10,
        login: AmqpLogin | None = None,
    ) -> None:
        self.engine = AmqpEngine(self, host="sut.example", login=login)
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._address = address
        self._credit = credit
        self._asking: AmqpLink | None = None
        self._answers: AmqpLink | None = None
        self._refused: Ended | None = None
        self._unsent: list[tuple[bytes, int]] = []
        self._pending: dict[int, asyncio.Future[AmqpMessage]] = {}
        self._numbers = itertools.count(1)

    async def ask(self, operation: str, body: Any = None, **properties: Any) -> AmqpAnswer:
        """Ask with *body* (bytes; anything else as JSON) and application properties.

        Raises:
            RejectedError: The request was rejected.
            ConnectionError: The connection ended.
        """
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        said = {"operation": operation, **properties}
        return await self.send(
            lambda number: AmqpMessage(
                raw,
                said,
                content_type="application/json",
                message_id=number,
                reply_to=self.reply_to,
            )
        )

    @property
    def reply_to(self) -> str | None:
        """Address of the link for answers; None: it is not open yet."""
        return None if self._answers is None else self._answers.address

    async def send(self, make: Callable[[int], AmqpMessage]) -> AmqpAnswer:
        """Send the message that *make* makes of a number; the answer with that correlation."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(ANSWER_S_MAX):
            while self._asking is None or self.reply_to is None:
                ended = self.ended.result() if self.ended.done() else self._refused
                if ended is not None:
                    raise ConnectionError(str(ended))
                await asyncio.sleep(0)
            number = next(self._numbers)
            self._pending[number] = answer = loop.create_future()
            self._unsent.append((encode_message(make(number)), number))
            self._send_on()
            message = await answer
        said = dict(message.application_properties)
        return AmqpAnswer(said["status"], said["statuscode"], said, message)

    # -- what the engine calls ----------------------------------------------------------------

    def opened(self, engine: AmqpEngine) -> None:
        """See ``amqp.Handler``."""
        engine.open_receiver(None, "answers").grant(self._credit)
        engine.open_sender(self._address, "requests")

    def link_opened(self, link: AmqpLink) -> None:
        """See ``amqp.Handler``."""
        if link.sending:
            self._asking = link
        else:
            self._answers = link

    def credited(self, _link: AmqpLink) -> None:
        """See ``amqp.Handler``."""
        self._send_on()

    def received(self, link: AmqpLink, incoming: IncomingMessage) -> None:
        """See ``amqp.Handler``."""
        message = decode_message(incoming.payload)
        assert isinstance(message.correlation_id, int)
        self._pending.pop(message.correlation_id).set_result(message)
        link.grant(1)

    def settled(self, _link: AmqpLink, token: object, outcome: Outcome) -> None:
        """See ``amqp.Handler``."""
        assert isinstance(token, int)
        if outcome.state is not DeliveryState.ACCEPTED:
            self._fail(RejectedError(outcome), token)

    def written(self, link: AmqpLink) -> None:
        """See ``amqp.Handler``."""

    def link_closed(self, link: AmqpLink) -> None:
        """See ``amqp.Handler``."""
        assert link.ended is not None
        self._refused = link.ended
        for number in tuple(self._pending):
            self._fail(ConnectionError(str(link.ended)), number)

    def closed(self, ended: Ended) -> None:
        """See ``amqp.Handler``."""
        self.ended.set_result(ended)
        for number in tuple(self._pending):
            self._fail(ConnectionError(str(ended)), number)

    def _fail(self, error: Exception, number: int) -> None:
        answer = self._pending.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _send_on(self) -> None:
        link = self._asking
        while link is not None and self._unsent and link.credit > 0:
            payload, number = self._unsent.pop(0)
            link.send(payload, number)


class RejectedError(Exception):
    """A request was not accepted, for the reason in ``outcome``."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome.condition}: {outcome.text}")
