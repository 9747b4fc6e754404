"""Listens for clients of the Subscriptions API over AMQP."""

import asyncio
import contextlib
import socket
from typing import Final

from distributary.api._operations import Operations
from distributary.api.amqp._conversation import Conversation
from distributary.control import Subscriptions

CONNECTIONS_MAX: Final = 100
"""Connections at one time: the requests and the answer that each may hold are some 9 MiB if its
client is hostile. One more is cut at once."""

OPEN_S_MAX: Final = 10.0
"""Time that a connection has to open, seconds: what does not speak AMQP never does."""

GOODBYE_S_MAX: Final = 2.0
"""Longest wait at a stop for requests under way and for clients to close, seconds."""


class AmqpServer:
    """The AMQP binding of the Subscriptions API (3.4).

    Args:
        subscriptions: Does what is asked; started before this is.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._operations = Operations(subscriptions)
        self._server: asyncio.Server | None = None
        self._conversations: dict[Conversation, asyncio.TimerHandle] = {}  # until it must open
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def start(self, listener: socket.socket) -> None:
        """Take connections on *listener*, a bound TCP socket; it belongs to this from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.meet, sock=listener)

    def meet(self) -> asyncio.Protocol:
        """What a new connection is handled by, on the running loop."""
        if len(self._conversations) >= CONNECTIONS_MAX:
            return _Refusal()
        conversation = Conversation(self._operations, self._leave)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(OPEN_S_MAX, conversation.expect_opening)
        self._conversations[conversation] = timer
        self._quiet.clear()
        return conversation.engine

    async def close(self) -> None:
        """Take no more, finish the requests under way, and say goodbye to those who are there."""
        if self._server is not None:
            self._server.close()
        for conversation in tuple(self._conversations):
            conversation.stop()
        await self._wait_quiet()
        for conversation in tuple(self._conversations):
            conversation.engine.abort()
        await self._wait_quiet()

    async def _wait_quiet(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_S_MAX):
                await self._quiet.wait()

    def _leave(self, conversation: Conversation) -> None:
        timer = self._conversations.pop(conversation, None)
        if timer is not None:
            timer.cancel()  # it would keep what the connection held
        if not self._conversations:
            self._quiet.set()


class _Refusal(asyncio.Protocol):
    """For a connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
