"""A reconnecting connection to a broker, with its in-flight window and its queue.

Called by ``BrokerTransport``. Hides dialling, its backoff, the window, deadlines, and broken and
silent connections. Runs by callbacks on the loop, re-entrantly: an answer may start the next
attempt, and publishing may cause an answer or end the connection. So each method leaves a
consistent state before it calls out.
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
"""Longest time to connect, shake hands and log in. Brokers respond within milliseconds; a slower
one is not ready. Waiting attempts have their own deadlines."""

PAUSE_S_FIRST: Final = 0.1
"""Pause after the first failed dial: one lost connection is made again at once."""
PAUSE_S_MAX: Final = 2.0
"""First and longest pause between failed dials, doubled each time: a restarted broker is found
within two seconds. A connection that ends before any answer counts as a failed dial."""

SILENT_S_MIN: Final = 1.0
"""A connection without any answer since an attempt was sent is closed at the attempt's deadline,
but not sooner than this: a subscriber with short attempts may share it with others."""

FORGOTTEN_SHARE_MAX: Final = 0.5
"""Share of the window taken by messages that the broker never answered, at which the connection is
replaced: the rest of the window would soon be too small."""


class BrokerLink:
    """A reconnecting session for one key, with its queued and in-flight attempts.

    Args:
        open_session: Opens a session.
        destination: One with this key, which tells how to connect.
        close: Closes a session, in the background.
        clock: For deadlines.
        wheel: Watches deadlines.
        loop: The event loop.

    Attributes:
        session: The open session; None: there is none.
        dialling: The task that opens one; None: none is being opened.
        sending: True inside ``take``: answers must not come before ``send`` has returned.
        used_s: Monotonic time of creation or of the last publish.
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
        """Enqueue *flight*; it is answered later."""
        self._waiting.append(flight)
        self.sending = True
        try:
            self._pump()
        finally:
            self.sending = False

    def _pump(self) -> None:
        """Publish queued attempts as far as the window allows; dial where there is no session."""
        if self._pumping:
            return  # publishing caused an answer: the loop further up the stack continues
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
        """Free the place of *flight* in the window: the broker has answered it."""
        if self._flights.pop(flight, flight) is flight:
            return  # it was not in flight any more
        if self._forgotten:
            self._forgotten.discard(flight)
        self._answered_s = self._clock.monotonic_s()
        if self._waiting:
            self._pump()

    def late(self, flight: Flight) -> None:
        """Time *flight* out; replace a silent connection."""
        session = self.session
        silent = False
        # A flight that its session has not sent yet (``sent_s`` is 0.0) is no sign of silence.
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
        """Open a session, or answer all waiting attempts with the failure."""
        opened: BrokerSession | Answer = _closed()  # if this task is cancelled
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
        """Answer all waiting attempts, and delay the next dial."""
        self._wait_longer()
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.tell(answer)

    def _wait_longer(self) -> None:
        self._pause_s = min(max(PAUSE_S_FIRST, self._pause_s * 2), PAUSE_S_MAX)
        self._next_dial_s = self._clock.monotonic_s() + self._pause_s

    def _lost(self, session: BrokerSession | None, answer: Answer) -> None:
        """Handle the loss of a session: messages in flight may have arrived or not."""
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
            # Whatever ended the session, it was not the unsent ones: they wait for the next one.
            self._waiting.extendleft(reversed(unsent))
            flights = [flight for flight in flights if flight.sent_s]
        for flight in flights:
            flight.tell(answer)

    # -- the end ------------------------------------------------------------------------------

    @property
    def unused(self) -> bool:
        """Whether no attempt waits for it; timed-out ones do not count."""
        return (
            self.dialling is None
            and all(flight.answered for flight in self._flights)
            and all(flight.answered for flight in self._waiting)
        )

    def end(self) -> None:
        """Close for good; answers open attempts with ``closed``."""
        self._ended = True
        if self.dialling is not None:
            self.dialling.cancel()
        self._give_up(_closed())
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.tell(_closed())


def _closed() -> TransportError:
    return TransportError("closed", "The transport was closed before an answer came")
