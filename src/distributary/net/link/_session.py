"""What a protocol brings to a broker: an open connection as a ``BrokerSession``, and its port.

Implemented by the transports (``protocols.mqtt.sink`` and the others); called by ``_link``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from distributary.core.deliver.destination import Destination
from distributary.core.deliver.transport import Done
from distributary.core.event import Event
from distributary.core.policy import Answer
from distributary.net._wheel import Wheel


class Keeper(Protocol):
    """Who keeps a flight from its start to its answer: the link that it goes by.

    Attributes:
        loop: Runs everything.
        wheel: Watches the deadlines.
        sending: True inside ``Transport.send``: answers must not come before it has returned.
    """

    loop: asyncio.AbstractEventLoop
    wheel: Wheel
    sending: bool

    def settle(self, flight: "Flight") -> None:
        """The broker has answered *flight*: its place in the window is free."""

    def late(self, flight: "Flight") -> None:
        """The deadline of *flight* has passed."""


class Flight:
    """One attempt, from ``send`` to its answer. What a session gets to publish.

    Attributes:
        event: What to send.
        destination: Where, and how.
        identity: Names the delivery; see ``Transport.send``. Empty: it has none.
        due_s: When the attempt ends, answered or not; monotonic.
        sent_s: When it was handed to its session; 0.0 while it waits, in its session too: then
            it says so, and when its connection ends over others it waits for the next one.
        answered: Whether it has its answer: a session that finds it so need not send it.
        slot: A note of the wheel that watches ``due_s``.
    """

    __slots__ = (
        "_done",
        "_keeper",
        "answered",
        "destination",
        "due_s",
        "event",
        "identity",
        "sent_s",
        "slot",
    )

    def __init__(
        self,
        event: Event,
        destination: Destination,
        due_s: float,
        done: Done,
        keeper: Keeper,
        *,
        identity: str = "",
    ) -> None:
        self.event = event
        self.destination = destination
        self.identity = identity
        self.due_s = due_s
        self.sent_s = 0.0
        self.answered = False
        self.slot = 0
        self._done = done
        self._keeper = keeper

    def answer(self, answer: Answer) -> None:
        """Take the answer; the first one counts, later ones only free a place in the window."""
        self._keeper.settle(self)
        self.tell(answer)

    def tell(self, answer: Answer) -> None:
        """Pass *answer* on unless there was one before; never from inside ``Transport.send``.

        Leaves the place in the window taken: sessions call ``answer``.
        """
        if self.answered:
            return
        self.answered = True
        keeper = self._keeper
        keeper.wheel.forget(self)
        if keeper.sending:
            keeper.loop.call_soon(self._done, answer)
        else:
            self._done(answer)

    def expire(self, _now_s: float) -> bool:
        """Take note that the deadline has passed; see ``_wheel.Watched``."""
        if not self.answered:
            self._keeper.late(self)
        return False


class BrokerSession(Protocol):
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

    async def close(self) -> None:
        """Say goodbye and close; also after the connection was lost. May be cancelled.

        Flights that have no answer yet get it from the caller.
        """


Lost: TypeAlias = Callable[[Answer], None]
"""Told by a session whose connection has ended by itself: the answer of all in flight. May be told
from any callback of the loop, also before the opener has returned the session, and again."""

Opener: TypeAlias = Callable[[Destination, Lost], Awaitable["BrokerSession | Answer"]]
"""Connects and logs in as *destination* says: a session, or the answer of all that wait for it.
Raises ``TransportError`` where there is none. Cancelled after ``DIAL_S_MAX``; it then leaves no
connection behind."""
