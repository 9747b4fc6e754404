r"""What all transports to brokers share: one connection for each way to be known at a broker.

Called by the transports (``protocols.mqtt.sink`` and the others), which bring the protocol as an
``open`` function that makes a ``BrokerSession``. Hides who dials when, the pause between dials, the
window of messages in flight, deadlines, connections that break or fall silent, those that nobody
uses any more, and the end. A transport makes no second attempt by itself: what was in flight
when its connection ended is answered with an error, and the pipeline offers it again.

::

    send -> waiting (until the session is open, and its window has room) -> publish -> answer
                 \__________ deadline: ``timeout`` _________________________/

Runs on one event loop and by callbacks, as everything in ``core.deliver``.
"""

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.transport import CREDENTIAL_EXPIRED, Done
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.net._wheel import Wheel
from distributary.net.link._link import BrokerLink
from distributary.net.link._session import BrokerSession, Flight, Opener

IDLE_S: Final = 60.0
"""A connection that nobody used for so long is closed, as the lane of its sink is forgotten."""

SESSIONS_MAX: Final = 1_024
"""Connections of one transport: as many as the HTTP transport keeps. Beyond, an eighth of those
that nobody uses at the moment is closed, those that were used least lately; busy ones stay."""

GOODBYE_S_MAX: Final = 1.0
"""Longest time for a goodbye: a broker that does not answer it is left without one."""

DESTINATIONS_MAX: Final = 10_000
"""Destinations whose connection is looked up without making their key again."""


class BrokerTransport:
    """A ``Transport`` over sessions; one for each key.

    Args:
        open_session: Makes a session.
        key_of: What of a destination belongs to its connection: host, credential, certificates,
            name of the client... Destinations with equal keys share one. May raise
            ``TransportError``: nothing can be sent there.
        clock: For deadlines.
        loop: Runs everything; every method is called on its thread.
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
        carried: bytes = b"",  # noqa: ARG002 - the port's; these protocols have no place for it
    ) -> None:
        """Start one attempt; see ``Transport``."""
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
        key = self._key_of(destination)
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

    # -- connections that nobody uses ---------------------------------------------------------

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
        """Close those of *keys* that nobody waits for."""
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

    @property
    def sessions(self) -> int:
        """Connections that are open."""
        return sum(link.session is not None for link in self._links.values())

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
        while self._ending:  # a dial may end with a session that has to be closed
            # Not ``gather``: if this is cancelled, the goodbyes must go on.
            await asyncio.wait(self._ending)


async def _close(session: BrokerSession) -> None:
    """Close *session*; one that takes its time is let go."""
    with contextlib.suppress(TimeoutError, TransportError):
        async with asyncio.timeout(GOODBYE_S_MAX):
            await session.close()
