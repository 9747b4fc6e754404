"""Listens for clients of the Subscriptions API over AMQP."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from distributary.access import Gate, PeerCertificate
from distributary.access.peer import read_peer
from distributary.net.tls import Handshakes, Listener
from distributary.resource import is_loopback
from distributary.subscriptions.amqp._conversation import Conversation
from distributary.subscriptions.amqp._crowd import CONNECTIONS_MAX, Crowd
from distributary.subscriptions.amqp._sender import Audit, Sender
from distributary.subscriptions.http.operations import Operations
from distributary.subscriptions.service import Subscriptions

CONNECTIONS_PER_ADDRESS_MAX: Final = CONNECTIONS_MAX // 5
"""Connections from one address that is not loopback, open or not yet: a fifth of those that may be
open, so that no client takes them all."""

IDLE_S_MAX: Final = 600.0
"""Time without a request after which a connection is closed, seconds: heartbeats would keep an
unused one open for ever. The client can open another."""

OPEN_S_MAX: Final = 10.0
"""Time that a connection has to open, seconds: a client that does not speak AMQP never does."""

GOODBYE_S_MAX: Final = 2.0
"""Longest wait at a stop for requests under way and for clients to close, seconds."""


class AmqpServer:
    """The AMQP binding of the Subscriptions API (3.4).

    Args:
        subscriptions: Carries out requests; started before this is.
        gate: Knows who may do what; None: everybody everything.
        audit: Records changes.
        count_call: Counts a request of a namespace; raises a ``RequestError`` where its quota is
            used up.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        gate: Gate | None = None,
        audit: Audit = lambda _change: None,
        count_call: Callable[[str], None] = lambda _namespace: None,
    ) -> None:
        self._gate = Gate(lambda: 0) if gate is None else gate
        self._audit = audit
        self._operations = Operations(subscriptions)
        self._count_call = count_call
        self._listener: Listener | None = None
        self._conversations: dict[Conversation, asyncio.TimerHandle] = {}  # its next deadline
        self._crowd = Crowd()
        self._addresses: dict[Conversation, str] = {}  # those that count to the limit
        self._certified: set[Conversation] = set()  # the client has shown a certificate
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def start(self, listener: socket.socket, tls: Handshakes | None = None) -> None:
        """Accept connections on *listener*, a bound and listening socket, which this then owns.

        Args:
            listener: The socket.
            tls: Shakes hands on each connection; None: plain AMQP.
        """
        self._listener = Listener(listener, lambda: _Greeter(self.meet), tls)

    def meet(
        self, address: str | None = None, certificate: PeerCertificate | None = None
    ) -> asyncio.Protocol:
        """Make the protocol of a new connection, on the running loop.

        Args:
            address: Of the client; None: unknown.
            certificate: Of the client, verified by TLS; None: it showed none.
        """
        counted = None if address is None or is_loopback(address) else address
        if self._crowd.full:
            return _Refusal()
        if counted and Counter(self._addresses.values())[counted] >= CONNECTIONS_PER_ADDRESS_MAX:
            return _Refusal()
        loop = asyncio.get_running_loop()
        conversation = Conversation(
            self._operations,
            self._leave,
            loop.time,
            Sender(self._gate, certificate),
            origin=address or "",
            audit=self._audit,
            count_call=self._count_call,
            admit=self._crowd.open,
        )
        late = self._crowd.enter(conversation)
        if late is not None:
            late.engine.abort()
        if counted:
            self._addresses[conversation] = counted
        if certificate is not None:
            self._certified.add(conversation)
        timer = loop.call_later(OPEN_S_MAX, partial(self._expect_opening, conversation))
        self._conversations[conversation] = timer
        self._quiet.clear()
        return conversation.engine

    def _expect_opening(self, conversation: Conversation) -> None:
        conversation.expect_opening()
        self._expect_request(conversation)

    def _expect_request(self, conversation: Conversation) -> None:
        """Close *conversation* if it has been idle too long; else check again at its deadline."""
        if conversation not in self._conversations:
            return
        loop = asyncio.get_running_loop()
        left_s = conversation.asked_s + IDLE_S_MAX - loop.time()
        if left_s <= 0:
            conversation.end_idle()
            left_s = GOODBYE_S_MAX
        timer = loop.call_later(left_s, partial(self._expect_request, conversation))
        self._conversations[conversation] = timer

    def forget_certificates(self) -> None:
        """End connections whose client has shown a certificate, after the request under way.

        For an authority that is trusted no more: it may have signed them.
        """
        for conversation in tuple(self._certified):
            conversation.stop()

    async def close(self) -> None:
        """Accept no more, finish the requests in flight, and close every connection."""
        if self._listener is not None:
            self._listener.close()
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
        self._crowd.leave(conversation)
        self._addresses.pop(conversation, None)
        self._certified.discard(conversation)
        timer = self._conversations.pop(conversation, None)
        if timer is not None:
            timer.cancel()  # it would keep the connection's memory alive
        if not self._conversations:
            self._quiet.set()


class _Greeter(asyncio.Protocol):
    """Reads who has connected, then passes the connection to the protocol from *meet*."""

    def __init__(
        self, meet: Callable[[str | None, PeerCertificate | None], asyncio.Protocol]
    ) -> None:
        self._meet = meet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        shown = transport.get_extra_info("peercert")
        certificate = read_peer(shown) if shown else None
        protocol = self._meet(str(peer[0]) if isinstance(peer, tuple) else None, certificate)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


class _Refusal(asyncio.Protocol):
    """Cuts a connection over the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
