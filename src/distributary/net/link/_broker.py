r"""The common part of all transports to brokers: a pool with a connection for each tenant and key.

Called by the transports (``protocols.mqtt.sink`` and the others), which pass an ``open`` function
that makes a ``BrokerSession``. Hides dialling, its backoff, the in-flight window, deadlines, broken
and silent connections, idle ones, and the shutdown. Never retries: attempts in flight on a broken
connection fail, and the engine decides about a retry.

::

    send -> waiting (until the session is open, and its window has space) -> publish -> answer
                 \__________ deadline: ``timeout`` _________________________/

Runs by callbacks on one event loop, as all of ``core.deliver`` does.
"""

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.transport import CREDENTIAL_EXPIRED, Done
from distributary.core.errors import TransportError
from distributary.core.event import Event, trace_context
from distributary.net._wheel import Wheel
from distributary.net.link._link import BrokerLink
from distributary.net.link._session import BrokerSession, Flight, Opener

IDLE_S: Final = 60.0
"""Idle time after which a connection is closed; its sink's queue is dropped then too."""

SESSIONS_MAX: Final = 1_024
"""Connections of one transport: as many as the HTTP transport keeps. Beyond, the least recently
used idle ones are closed, up to an eighth; busy ones stay."""

GOODBYE_S_MAX: Final = 1.0
"""Longest time for an orderly close; then the connection is abandoned."""

DESTINATIONS_MAX: Final = 10_000
"""Destinations whose connection is cached, which saves computing their key."""


class BrokerTransport:
    """A ``Transport`` with one session for each tenant and key.

    Tenants share no session: one could fill its window, or have the broker end it over a message,
    again and again.

    Args:
        open_session: Opens a session.
        key_of: Returns the part of a destination that determines its connection: host, credential,
            certificates, client name... Destinations of a tenant with equal keys share a
            connection. May raise ``TransportError``: the destination is unusable.
        clock: For deadlines.
        loop: Event loop, on whose thread every method is called.
    """

    def __init__(
        self,
        open_session: Opener,
        key_of: Callable[[Destination], Hashable],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._open = open_session
        self._key_of = key_of
        self._clock = clock
        self._loop = loop
        self._wheel = Wheel(loop, clock.monotonic_s)
        self._links: dict[Hashable, BrokerLink] = {}
        self._by_destination: dict[Destination, BrokerLink] = {}
        self._ending: set[asyncio.Task[None]] = set()  # goodbyes, and dials that are cancelled
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def send(
        self,
        event: Event,
        destination: Destination,
        timeout_s: float,
        done: Done,
        identity: str = "",
        *,
        carried: bytes = b"",
    ) -> None:
        """Start one attempt; see ``Transport``.

        Of *carried* lines only a trace's context has a place in these protocols: the extension
        attribute, where the event has none of its own.
        """
        if carried:
            event = trace_context.with_context(event, carried)
        if self._closed:
            closed = TransportError("closed", "The transport is closed")
            self._loop.call_soon(done, closed)
            return
        credential = destination.credential
        if credential is not None and credential.expired(self._clock.wall_ms()):
            expired = TransportError(CREDENTIAL_EXPIRED, "The access token of the sink has expired")
            self._loop.call_soon(done, expired)
            return
        try:
            link = self._by_destination.get(destination) or self._link(destination)
        except TransportError as error:  # its URI cannot be used
            self._loop.call_soon(done, error)
            return
        due_s = self._clock.monotonic_s() + timeout_s
        flight = Flight(event, destination, due_s, done, link, identity=identity)
        self._wheel.watch(flight)
        link.take(flight)

    def _link(self, destination: Destination) -> BrokerLink:
        key = destination.tenant, self._key_of(destination)
        link = self._links.get(key)
        if link is None:
            if len(self._links) >= SESSIONS_MAX:
                self._drop(self._least_used())
            link = BrokerLink(
                self._open,
                destination,
                self._close_later,
                clock=self._clock,
                wheel=self._wheel,
                loop=self._loop,
            )
            self._links[key] = link
            if self._sweep is None:
                self._sweep = self._loop.call_later(IDLE_S / 2, self._sweep_now)
        if len(self._by_destination) >= DESTINATIONS_MAX:
            self._by_destination.clear()  # renewed tokens leave old ones behind
        self._by_destination[destination] = link
        return link

    # -- idle connections ---------------------------------------------------------------------

    def _sweep_now(self) -> None:
        self._sweep = None
        until_s = self._clock.monotonic_s() - IDLE_S
        self._drop(key for key, link in self._links.items() if link.used_s <= until_s)
        if self._links:
            self._sweep = self._loop.call_later(IDLE_S / 2, self._sweep_now)

    def _least_used(self) -> Iterable[Hashable]:
        unused = [key for key, link in self._links.items() if link.unused]
        unused.sort(key=lambda key: self._links[key].used_s)
        return unused[: SESSIONS_MAX // 8]

    def _drop(self, keys: Iterable[Hashable]) -> None:
        """Close the unused ones of *keys*."""
        gone = {self._links[key] for key in keys if self._links[key].unused}
        if not gone:
            return
        for link in gone:
            link.end()
        self._links = {key: link for key, link in self._links.items() if link not in gone}
        self._by_destination = {
            destination: link
            for destination, link in self._by_destination.items()
            if link not in gone
        }

    # -- the end ------------------------------------------------------------------------------

    def _close_later(self, session: BrokerSession) -> None:
        self._await_end(self._loop.create_task(_close(session)))

    def _await_end(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Close every connection; attempts under way end as ``TransportError("closed")``."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        links, self._links = self._links, {}
        self._by_destination.clear()
        for link in links.values():
            if link.dialling is not None:
                self._await_end(link.dialling)
            link.end()
        self._wheel.close()
        while self._ending:  # a dial may still open a session, which must be closed
            # Not ``gather``: a cancellation must not cancel the orderly closes.
            await asyncio.wait(self._ending)


async def _close(session: BrokerSession) -> None:
    """Close *session*; abandons it after ``GOODBYE_S_MAX``."""
    with contextlib.suppress(TimeoutError, TransportError):
        async with asyncio.timeout(GOODBYE_S_MAX):
            await session.close()
