r"""What all transports to brokers share: one connection for each way to be known at a broker.

Called by the transports (``transports/mqtt`` and the others), which bring the protocol as an
``open`` function that makes a ``Session``. Hides who dials when, the pause between dials, the
window of messages in flight, deadlines, connections that break or fall silent, those that nobody
uses any more, and the end. A transport makes no second attempt by itself: what was in flight
when its connection ended is answered with an error, and the pipeline offers it again.

::

    send -> waiting (until the session is open, and its window has room) -> publish -> answer
                 \__________ deadline: ``timeout`` _________________________/

Runs on one event loop and by callbacks, as everything in ``deliver``.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Protocol, TypeAlias

from distributary.clock import Clock
from distributary.deliver._destination import Destination
from distributary.deliver._transport import CREDENTIAL_EXPIRED, Done
from distributary.deliver._wheel import Wheel
from distributary.errors import EventError, TransportError
from distributary.event import Event
from distributary.policy import Acknowledgement, Answer, Reply

DIAL_S_MAX: Final = 10.0
"""Longest time to connect, shake hands and log in. Brokers answer within milliseconds; one that
takes longer is not ready, and the attempts that wait have deadlines of their own."""

PAUSE_S_FIRST: Final = 0.1
PAUSE_S_MAX: Final = 2.0
"""Pauses between dials that fail, doubled each time: a broker that restarts is found within two
seconds, and one that is away is not dialled more than that."""

IDLE_S: Final = 60.0
"""A connection that nobody used for so long is closed, as the lane of its sink is forgotten."""

SESSIONS_MAX: Final = 1_024
"""Connections of one transport: as many as the HTTP transport keeps. Beyond, those that nobody
uses are closed at once."""

GOODBYE_S_MAX: Final = 1.0
"""Longest time for a goodbye: a broker that does not answer it is left without one."""

DESTINATIONS_MAX: Final = 10_000
"""Destinations whose connection is looked up without making their key again."""

FORGOTTEN_SHARE_MAX: Final = 0.5
"""A connection is replaced when so much of its window is taken by messages that the broker never
answered: what is left would soon be too little."""


class Flight:
    """One attempt, from ``send`` to its answer. What a session gets to publish.

    Attributes:
        event: What to send.
        destination: Where, and how.
        due_s: When the attempt ends, answered or not; monotonic.
        sent_s: When it was handed to its session; 0.0 while it waits.
        answered: Whether it has its answer: a session that finds it so need not send it.
    """

    __slots__ = ("_done", "_link", "answered", "destination", "due_s", "event", "sent_s", "slot")

    def __init__(
        self, event: Event, destination: Destination, due_s: float, done: Done, link: "_Link"
    ) -> None:
        self.event = event
        self.destination = destination
        self.due_s = due_s
        self.sent_s = 0.0
        self.answered = False
        self.slot = 0
        self._done = done
        self._link = link

    def answer(self, answer: Answer) -> None:
        """Take the answer; the first one counts, later ones only free a place in the window."""
        self._link.settle(self)
        self.tell(answer)

    def tell(self, answer: Answer) -> None:
        """Pass *answer* on unless there was one before; never from inside ``Transport.send``."""
        if self.answered:
            return
        self.answered = True
        if self._link.sending:
            self._link.loop.call_soon(self._done, answer)
        else:
            self._done(answer)

    def expire(self, _now_s: float) -> bool:
        """Take note that the deadline has passed; see ``_wheel.Watched``."""
        if not self.answered:
            self._link.late(self)
        return False


class Session(Protocol):
    """One open connection to a broker.

    Attributes:
        window: Most messages that may be published and not answered, from 1. May change.
    """

    window: int

    def publish(self, flight: Flight) -> None:
        """Send ``flight.event``, and see to it that ``flight.answer`` is called.

        Called in the order in which events are to arrive. Where the destination asks for no
        acknowledgement, the answer is given once the message is written and flushed (decision 28).

        Raises:
            TransportError, EventError: It cannot be sent; the flight is answered with that.
        """
        ...

    async def close(self) -> None:
        """Say goodbye and close; also after the connection was lost. May be cancelled.

        Flights that have no answer yet get it from the caller.
        """
        ...


Lost: TypeAlias = Callable[[Answer], None]
"""Told once by a session whose connection has ended by itself: the answer of all in flight."""

Opener: TypeAlias = Callable[[Destination, Lost], Awaitable["Session | Answer"]]
"""Connects and logs in as *destination* says: a session, or the answer of all that wait for it.
Raises ``TransportError`` where there is none. Cancelled after ``DIAL_S_MAX``. *lost* may be called
as soon as the session has been returned."""


class BrokerTransport:
    """A ``Transport`` over sessions; one for each key.

    Args:
        open_session: Makes a session.
        key_of: What of a destination belongs to its connection: host, credential, certificates,
            name of the client... Destinations with equal keys share one.
        clock: For deadlines.
        loop: Runs everything; every method is called on its thread.
        aside: Closes what all sessions share, after them.
    """

    def __init__(
        self,
        open_session: Opener,
        key_of: Callable[[Destination], Hashable],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        aside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._open = open_session
        self._key_of = key_of
        self._clock = clock
        self._loop = loop
        self._aside = aside
        self._wheel = Wheel(loop, clock.monotonic_s)
        self._links: dict[Hashable, _Link] = {}
        self._by_destination: dict[Destination, _Link] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, event: Event, destination: Destination, timeout_s: float, done: Done) -> None:
        """Start one attempt; see ``Transport``."""
        if self._closed:
            self._loop.call_soon(done, _closed())
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
        flight = Flight(event, destination, self._clock.monotonic_s() + timeout_s, done, link)
        self._wheel.watch(flight)
        link.take(flight)

    def _link(self, destination: Destination) -> "_Link":
        key = self._key_of(destination)
        link = self._links.get(key)
        if link is None:
            if len(self._links) >= SESSIONS_MAX:
                self._drop_unused(idle_s=0.0)
            link = _Link(self._open, destination, self._clock, self._loop, self._close_later)
            self._links[key] = link
            if self._sweep is None:
                self._sweep = self._loop.call_later(IDLE_S / 2, self._sweep_now)
        if len(self._by_destination) >= DESTINATIONS_MAX:
            self._by_destination.clear()  # renewed tokens leave old ones behind
        self._by_destination[destination] = link
        return link

    def _close_later(self, session: Session) -> None:
        task = self._loop.create_task(_close(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _sweep_now(self) -> None:
        self._sweep = None
        self._drop_unused(IDLE_S)
        if self._links:
            self._sweep = self._loop.call_later(IDLE_S / 2, self._sweep_now)

    def _drop_unused(self, idle_s: float) -> None:
        now_s = self._clock.monotonic_s()
        gone = {key for key, link in self._links.items() if link.unused(now_s, idle_s)}
        if not gone:
            return
        dropped = {id(self._links.pop(key).end(None)) for key in gone}
        self._by_destination = {
            destination: link
            for destination, link in self._by_destination.items()
            if id(link) not in dropped
        }

    @property
    def sessions(self) -> int:
        """Connections that are open."""
        return sum(link.session is not None for link in self._links.values())

    async def close(self) -> None:
        """Close every connection; attempts under way end as ``TransportError("closed")``."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        dials = [link.dialling for link in self._links.values() if link.dialling is not None]
        for link in self._links.values():
            link.end(_closed())
        self._links.clear()
        self._by_destination.clear()
        self._wheel.close()
        await asyncio.gather(*dials, *self._closing, return_exceptions=True)
        if self._aside is not None:
            await self._aside()


class _Link:
    """The way to one broker for one key: a session, or the attempt to have one.

    Attributes:
        session: Open, and used; None: there is none.
        dialling: The task that makes one; None: none is made.
        sending: True inside ``take``: answers must not come before ``send`` has returned.
    """

    __slots__ = (
        "_answered_s",
        "_clock",
        "_close",
        "_destination",
        "_ended",
        "_flights",
        "_forgotten",
        "_next_dial_s",
        "_open",
        "_pause_s",
        "_used_s",
        "_waiting",
        "dialling",
        "loop",
        "sending",
        "session",
    )

    def __init__(
        self,
        open_session: Opener,
        destination: Destination,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        close: Callable[[Session], None],
    ) -> None:
        now_s = clock.monotonic_s()
        self._open = open_session
        self._destination = destination
        self._clock = clock
        self._close = close
        self.loop = loop
        self.session: Session | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.sending = False
        self._waiting: deque[Flight] = deque()
        self._flights: dict[Flight, None] = {}  # published and not answered, in that order
        self._forgotten: set[Flight] = set()  # of those: their deadline has passed
        self._pause_s = 0.0
        self._next_dial_s = now_s
        self._answered_s = now_s
        self._used_s = now_s
        self._ended = False

    # -- attempts -----------------------------------------------------------------------------

    def take(self, flight: Flight) -> None:
        """Begin with *flight*; its answer comes later."""
        self._waiting.append(flight)
        self.sending = True
        try:
            self._pump()
        finally:
            self.sending = False

    def _pump(self) -> None:
        waiting = self._waiting
        session = self.session
        if session is None:
            if waiting and self.dialling is None and not self._ended:
                self.dialling = self.loop.create_task(self._dial())
            return
        while waiting and len(self._flights) < session.window:
            flight = waiting.popleft()
            if flight.answered:
                continue
            self._used_s = flight.sent_s = self._clock.monotonic_s()
            self._flights[flight] = None
            try:
                session.publish(flight)
            except TransportError as error:
                flight.answer(error)
            except EventError as error:
                # The log holds checked events only; one that cannot be sent must not stop others.
                text = f"Cannot encode: {error}"
                flight.answer(TransportError("protocol", text, retryable=False))

    def settle(self, flight: Flight) -> None:
        """The broker has answered *flight*: its place in the window is free."""
        if self._flights.pop(flight, flight) is flight:
            return
        self._forgotten.discard(flight)
        self._answered_s = self._clock.monotonic_s()
        if self._waiting and not self.sending:
            self._pump()

    def late(self, flight: Flight) -> None:
        """The deadline of *flight* has passed."""
        session = self.session
        silent = False
        if flight in self._flights:
            self._forgotten.add(flight)
            limit = FORGOTTEN_SHARE_MAX * (1 if session is None else session.window)
            silent = self._answered_s < flight.sent_s or len(self._forgotten) >= limit
        flight.tell(TransportError("timeout", "No answer within the time of one attempt"))
        if silent and session is self.session and session is not None:
            # Nothing at all was answered since it was sent: nobody is there any more.
            self._lost([session], TransportError("reset", "The broker has fallen silent"))

    # -- the connection -----------------------------------------------------------------------

    async def _dial(self) -> None:
        """Have a session, or tell all that wait why there is none."""
        opened: Session | Answer | None = None
        try:
            wait_s = self._next_dial_s - self._clock.monotonic_s()
            if wait_s > 0.0:
                await asyncio.sleep(wait_s)
            opened = await self._opened()
        finally:
            self.dialling = None
            if opened is None and not self._ended:  # cancelled by who knows whom
                self._failed(_closed())
        if isinstance(opened, Reply | Acknowledgement | TransportError):
            self._failed(opened)
            return
        self._pause_s = 0.0
        self._answered_s = self._used_s = self._clock.monotonic_s()
        if self._ended:
            self._close(opened)
            return
        self.session = opened
        self._pump()

    async def _opened(self) -> "Session | Answer":
        made: list[Session] = []
        try:
            async with asyncio.timeout(DIAL_S_MAX):
                opened = await self._open(self._destination, lambda why: self._lost(made, why))
        except TransportError as error:
            return error
        except TimeoutError:
            return TransportError("timeout", f"No connection within {DIAL_S_MAX:g} s")
        except Exception as bug:  # noqa: BLE001 - a client's bug must not leave attempts without end
            self.loop.call_exception_handler(
                {"message": "a transport raised what is not a TransportError", "exception": bug}
            )
            return TransportError("protocol", f"The client failed: {type(bug).__name__}")
        if not isinstance(opened, Reply | Acknowledgement | TransportError):
            made.append(opened)
        return opened

    def _failed(self, answer: Answer) -> None:
        """No session: all that wait are told so, and the next dial waits a while."""
        self._pause_s = min(max(PAUSE_S_FIRST, self._pause_s * 2), PAUSE_S_MAX)
        self._next_dial_s = self._clock.monotonic_s() + self._pause_s
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.tell(answer)

    def _lost(self, made: Sequence[Session], answer: Answer) -> None:
        """A session has ended by itself: what was in flight may have arrived or not."""
        if not made or made[0] is not self.session:
            return
        self._give_up(answer)
        if self._waiting and not self.sending:
            self._pump()

    def _give_up(self, answer: Answer) -> None:
        session, self.session = self.session, None
        if session is not None:
            self._close(session)
        flights, self._flights = self._flights, {}
        self._forgotten.clear()
        for flight in flights:
            flight.tell(answer)

    def unused(self, now_s: float, idle_s: float) -> bool:
        """Whether nobody waits for it, and nobody has used it for *idle_s*."""
        idle = not self._waiting and not self._flights and self.dialling is None
        return idle and now_s - self._used_s >= idle_s

    def end(self, answer: Answer | None) -> "_Link":
        """Close for good; what has no answer yet gets *answer*."""
        self._ended = True
        if self.dialling is not None:
            self.dialling.cancel()
        self._give_up(answer or _closed())
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.tell(answer or _closed())
        return self


async def _close(session: Session) -> None:
    """Close *session*; one that takes its time is let go."""
    with contextlib.suppress(TimeoutError, TransportError):
        async with asyncio.timeout(GOODBYE_S_MAX):
            await session.close()


def _closed() -> TransportError:
    return TransportError("closed", "The transport was closed before an answer came")
