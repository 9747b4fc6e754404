"""A reconnecting connection to a broker, with its in-flight window and its queue.

Called by ``BrokerTransport``. Hides who dials when, the pause between dials, the window of
messages in flight, deadlines, and connections that break or fall silent. Runs on the loop and by
callbacks: a session's answer may start the next attempt, and publishing may bring an answer or
the end of the connection, so each method leaves things whole before it calls anything.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver.destination import Destination
from distributary.core.errors import EventError, TransportError
from distributary.core.policy import Acknowledgement, Answer, Reply
from distributary.net._wheel import Wheel
from distributary.net.link._session import BrokerSession, Flight, Opener

DIAL_S_MAX: Final = 10.0
"""Longest time to connect, shake hands and log in. Brokers answer within milliseconds; one that
takes longer is not ready, and the attempts that wait have deadlines of their own."""

PAUSE_S_FIRST: Final = 0.1
PAUSE_S_MAX: Final = 2.0
"""Pauses between dials that fail, doubled each time: a broker that restarts is found within two
seconds, and one that is away is not dialled more than that. A connection that ends before it has
answered anything counts as a dial that failed."""

SILENT_S_MIN: Final = 1.0
"""A connection on which nothing was answered since an attempt was sent is given up when the
attempt ends, but not sooner than this: a subscriber may want its own attempts short, and shares
the connection with others."""

FORGOTTEN_SHARE_MAX: Final = 0.5
"""A connection is replaced when so much of its window is taken by messages that the broker never
answered: what is left would soon be too little."""


class BrokerLink:
    """A session for one key, and the attempts that use it.

    Args:
        open_session: Makes a session.
        destination: One of those whose key this is: says how to connect.
        close: Closes a session, in the background.
        clock: For deadlines.
        wheel: Watches them.
        loop: Runs everything.

    Attributes:
        session: Open, and used; None: there is none.
        dialling: The task that makes one; None: none is made.
        sending: True inside ``take``: answers must not come before ``send`` has returned.
        used_s: When it was made, or last published; monotonic.
    """

    def __init__(
        self,
        open_session: Opener,
        destination: Destination,
        close: Callable[[BrokerSession], None],
        *,
        clock: Clock,
        wheel: Wheel,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        now_s = clock.monotonic_s()
        self._open = open_session
        self._destination = destination
        self._clock = clock
        self._close = close
        self.wheel = wheel
        self.loop = loop
        self.session: BrokerSession | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.sending = False
        self._pumping = False
        self._waiting: deque[Flight] = deque()
        self._flights: dict[Flight, None] = {}  # published and not answered, in that order
        self._forgotten: set[Flight] = set()  # of those: their deadline has passed
        self._pause_s = 0.0
        self._next_dial_s = now_s
        self._opened_s = now_s
        self._answered_s = now_s
        self.used_s = now_s
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
        """Publish what waits, as far as the window has room; dial where there is no session."""
        if self._pumping:
            return  # publishing brought an answer: the loop below goes on, further up the stack
        self._pumping = True
        try:
            while self._waiting:
                session = self.session  # publishing may have ended it
                if session is None:
                    self._want_session()
                    return
                if len(self._flights) >= session.window:
                    return
                flight = self._waiting.popleft()
                if not flight.answered:
                    self._publish(session, flight)
        finally:
            self._pumping = False

    def _publish(self, session: BrokerSession, flight: Flight) -> None:
        self.used_s = flight.sent_s = self._clock.monotonic_s()
        self._flights[flight] = None
        try:
            session.publish(flight)
        except TransportError as error:
            refusal = error
        except EventError as error:
            # The log holds checked events only; one that cannot be sent must not stop others.
            refusal = TransportError("protocol", f"Cannot encode: {error}", retryable=False)
        except Exception as bug:  # noqa: BLE001 - a bug must not leave attempts open
            refusal = self._bug(bug)
        else:
            return
        self._flights.pop(flight, None)
        flight.tell(refusal)

    def settle(self, flight: Flight) -> None:
        """The broker has answered *flight*: its place in the window is free."""
        if self._flights.pop(flight, flight) is flight:
            return  # it was not in flight any more
        if self._forgotten:
            self._forgotten.discard(flight)
        self._answered_s = self._clock.monotonic_s()
        if self._waiting:
            self._pump()

    def late(self, flight: Flight) -> None:
        """The deadline of *flight* has passed."""
        session = self.session
        silent = False
        # One that its session could not send yet (``sent_s`` is 0.0) the broker has not forgotten.
        if flight.sent_s and flight in self._flights and session is not None:
            self._forgotten.add(flight)
            tried_s = self._clock.monotonic_s() - flight.sent_s
            silent = self._answered_s <= flight.sent_s and tried_s >= SILENT_S_MIN
            silent = silent or len(self._forgotten) >= FORGOTTEN_SHARE_MAX * session.window
        flight.tell(TransportError("timeout", "No answer within the time of one attempt"))
        if silent and session is self.session:
            self._lost(session, TransportError("reset", "The broker has fallen silent"))

    # -- the connection -----------------------------------------------------------------------

    def _want_session(self) -> None:
        if self.dialling is None and not self._ended:
            self.dialling = self.loop.create_task(self._dial())

    async def _dial(self) -> None:
        """Have a session, or tell all that wait why there is none."""
        opened: BrokerSession | Answer = _closed()  # if it is cancelled, by who knows whom
        try:
            wait_s = self._next_dial_s - self._clock.monotonic_s()
            if wait_s > 0.0:
                await asyncio.sleep(wait_s)
            opened = await self._opened()
        finally:
            self.dialling = None
            self._dialled(opened)

    def _dialled(self, opened: "BrokerSession | Answer") -> None:
        if isinstance(opened, Reply | Acknowledgement | TransportError):
            self._failed(opened)
        elif self._ended:
            self._close(opened)
        else:
            self._opened_s = self._answered_s = self.used_s = self._clock.monotonic_s()
            self.session = opened
            self._pump()

    async def _opened(self) -> "BrokerSession | Answer":
        made: list[BrokerSession] = []
        ended: list[Answer] = []

        def lost(answer: Answer) -> None:
            ended.append(answer)
            if made:
                self._lost(made[0], answer)

        try:
            async with asyncio.timeout(DIAL_S_MAX):
                opened = await self._open(self._destination, lost)
        except TransportError as error:
            return error
        except TimeoutError:
            return TransportError("timeout", f"No connection within {DIAL_S_MAX:g} s")
        except Exception as bug:  # noqa: BLE001 - a bug must not leave attempts open
            return self._bug(bug)
        if isinstance(opened, Reply | Acknowledgement | TransportError):
            return opened
        if ended:  # after the login, before the opener could go on
            self._close(opened)
            return ended[0]
        made.append(opened)
        return opened

    def _bug(self, bug: Exception) -> TransportError:
        self.loop.call_exception_handler(
            {"message": "a transport raised what is not a TransportError", "exception": bug}
        )
        return TransportError("protocol", f"The client failed: {type(bug).__name__}")

    def _failed(self, answer: Answer) -> None:
        """No session: all that wait are told so, and the next dial waits a while."""
        self._wait_longer()
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.tell(answer)

    def _wait_longer(self) -> None:
        self._pause_s = min(max(PAUSE_S_FIRST, self._pause_s * 2), PAUSE_S_MAX)
        self._next_dial_s = self._clock.monotonic_s() + self._pause_s

    def _lost(self, session: BrokerSession | None, answer: Answer) -> None:
        """A session has ended by itself: what was in flight may have arrived or not."""
        if session is not self.session:
            return  # it is known
        if self._answered_s > self._opened_s:
            self._pause_s = 0.0
        else:
            self._wait_longer()
        self._give_up(answer)
        if self._waiting:
            self._pump()

    def _give_up(self, answer: Answer) -> None:
        session, self.session = self.session, None
        if session is not None:
            self._close(session)
        flights, self._flights = list(self._flights), {}
        self._forgotten.clear()
        unsent = [flight for flight in flights if not flight.sent_s]
        if len(unsent) < len(flights):
            # What has ended it is not known, but these have not: they wait for the next one.
            self._waiting.extendleft(reversed(unsent))
            flights = [flight for flight in flights if flight.sent_s]
        for flight in flights:
            flight.tell(answer)

    # -- the end ------------------------------------------------------------------------------

    @property
    def unused(self) -> bool:
        """Whether nobody waits for it; what the broker has forgotten nobody waits for any more."""
        return (
            self.dialling is None
            and all(flight.answered for flight in self._flights)
            and all(flight.answered for flight in self._waiting)
        )

    def end(self) -> None:
        """Close for good; what has no answer yet gets ``closed``."""
        self._ended = True
        if self.dialling is not None:
            self.dialling.cancel()
        self._give_up(_closed())
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.tell(_closed())


def _closed() -> TransportError:
    return TransportError("closed", "The transport was closed before an answer came")
