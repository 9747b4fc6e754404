"""A scripted AMQP peer on a free port, built on our own engine.

Called by tests for behaviour that a real broker does not show on demand.
"""

import asyncio
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from distributary.protocols.amqp.engine import (
    ACCEPTED,
    AmqpEngine,
    AmqpLink,
    AmqpMessage,
    Ended,
    IncomingMessage,
    Outcome,
    _values,
    decode_message,
)
from distributary.protocols.amqp.engine._sasl_frames import HEADER
from distributary.protocols.amqp.engine._values import Symbol
from kit.listening import stop_listening

CREDIT = 1_000
"""Messages that a link may send ahead."""


def takes_links(link: AmqpLink) -> None:
    """Agree to a link, and let it send."""
    link.accept("made-here" if link.dynamic else None)
    if not link.sending:
        link.grant(CREDIT)


def accepts(link: AmqpLink, incoming: IncomingMessage) -> None:
    """Take a message and say so."""
    incoming.settle(ACCEPTED)
    link.grant(1)


def hangs(_link: AmqpLink, _incoming: IncomingMessage) -> None:
    """Take a message and say nothing."""


def resets(link: AmqpLink, _incoming: IncomingMessage) -> None:
    """Break the connection instead of an answer."""
    link.engine.abort()


def trickles(link: AmqpLink, _incoming: IncomingMessage) -> None:
    """Say much, and never what became of the message."""

    def say_something() -> None:
        if link.ended is None:
            link.grant(1)
            loop.call_later(0.02, say_something)

    loop = asyncio.get_running_loop()
    say_something()


def drain(link: AmqpLink, count: int) -> None:
    """Let a link send *count* messages, and ask for the credit back that it does not use."""
    link._c.pn_link_drain(link._pointer, count)  # noqa: SLF001 - our own receivers never ask
    link.engine.flush_soon()


def is_draining(link: AmqpLink) -> bool:
    """Whether the credit that was asked for has not come back yet."""
    return bool(link._c.pn_link_draining(link._pointer))  # noqa: SLF001 - as above


def answers(outcome: Outcome) -> Callable[[AmqpLink, IncomingMessage], None]:
    """Give every message this outcome."""

    def settle(link: AmqpLink, incoming: IncomingMessage) -> None:
        incoming.settle(outcome)
        link.grant(1)

    return settle


class FakeAmqp:
    """The scripted peer; an asynchronous context manager.

    Args:
        on_message: Handles a message.
        on_link: Handles an attach request.

    Attributes:
        port: Its port.
        links: All requested links, in order.
        messages: All messages received, in order.
        engines: All connections.
        outcomes: Outcomes of the messages it sent.
    """

    def __init__(
        self,
        on_message: Callable[[AmqpLink, IncomingMessage], None] = accepts,
        on_link: Callable[[AmqpLink], None] = takes_links,
    ) -> None:
        self.on_message = on_message
        self.on_link = on_link
        self.port = 0
        self.links: list[AmqpLink] = []
        self.messages: list[AmqpMessage] = []
        self.engines: list[AmqpEngine] = []
        self.outcomes: list[tuple[object, Outcome]] = []
        self._server: asyncio.Server | None = None

    def reset(self) -> None:
        """Break every connection; new ones are taken."""
        engines, self.engines = self.engines, []
        for engine in engines:
            engine.abort()

    async def __aenter__(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: AmqpEngine(self, server=True, message_bytes_max=8 * 1024 * 1024), "127.0.0.1", 0
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more, and break what is open."""
        assert self._server is not None
        await stop_listening(self._server)
        self.reset()
        await asyncio.sleep(0)  # aborted connections close in the next turn of the loop

    # What the engine calls.

    def opened(self, engine: AmqpEngine) -> None:
        """Keep the connection."""
        self.engines.append(engine)

    def link_opened(self, link: AmqpLink) -> None:
        """Run the script of the test for a link."""
        self.links.append(link)
        self.on_link(link)

    def credited(self, link: AmqpLink) -> None:
        """Nothing: tests send when they want to."""

    def received(self, link: AmqpLink, incoming: IncomingMessage) -> None:
        """Store the message, and run the script of the test."""
        self.messages.append(decode_message(incoming.payload))
        self.on_message(link, incoming)

    def settled(self, link: AmqpLink, token: object, outcome: Outcome) -> None:
        """Keep what became of it."""
        del link
        self.outcomes.append((token, outcome))

    def written(self, link: AmqpLink) -> None:
        """Nothing waits for it."""

    def link_closed(self, link: AmqpLink) -> None:
        """Nothing is kept for it."""

    def closed(self, ended: Ended) -> None:
        """Nothing is kept for it."""


class FakeLogin:
    """A peer that only performs the SASL login; an asynchronous context manager.

    Args:
        mechanisms: Offered mechanisms.
        code: Outcome of every login, a SASL code of AMQP; 0 accepts it (and sends nothing more).
        challenge: Sent before the outcome; None: none.

    Attributes:
        port: Its port.
        said: Mechanism and initial response of every client, and responses to challenges.
    """

    def __init__(
        self, mechanisms: tuple[str, ...], code: int = 1, challenge: bytes | None = None
    ) -> None:
        self.port = 0
        self.said: list[tuple[str, bytes]] = []
        self._mechanisms = mechanisms
        self._code = code
        self._challenge = challenge
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        assert self._server is not None
        await stop_listening(self._server)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(8)
            names: list[object] = [Symbol(name) for name in self._mechanisms]
            writer.write(HEADER + _sasl(0x40, [names]))
            mechanism, words, *_ = await _fields(reader)
            self.said.append((str(mechanism), words))
            if self._challenge is not None:
                writer.write(_sasl(0x42, [self._challenge]))
                self.said.append(("", (await _fields(reader))[0]))
            writer.write(_sasl(0x44, [self._code]))
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()


def _sasl(code: int, fields: list[object]) -> bytes:
    body = _values.encode(_values.Described(_values.ULong(code), fields))
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body


async def _fields(reader: asyncio.StreamReader) -> list[Any]:
    (size,) = struct.unpack(">I", await reader.readexactly(4))
    frame = await reader.readexactly(size - 4)
    fields: list[Any] = _values.decode(frame, 4)[0].value
    return fields
