"""The port of broker protocols: ``BrokerSession``, an open connection, and ``Flight``, an attempt.

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
    """The link of a flight, as the flight uses it.

    Attributes:
        loop: The event loop.
        wheel: Watches deadlines.
        sending: True inside ``Transport.send``: answers must not come before it has returned.
    """

    loop: asyncio.AbstractEventLoop
    wheel: Wheel
    sending: bool

    def settle(self, flight: "Flight") -> None:
        """Free the place of *flight* in the window: the broker has answered it."""

    def late(self, flight: "Flight") -> None:
        """Time *flight* out."""


class Flight:
    """One attempt, from ``send`` to its answer, as a session publishes it.

    Attributes:
        event: The event to send.
        destination: Where and how to send it.
        identity: Identifies the delivery; see ``Transport.send``. Empty: none.
        due_s: Deadline of the attempt; monotonic.
        sent_s: When it was passed to its session; 0.0 while it waits. A session that queues it
            resets this to 0.0: it then survives the end of the connection, in the link's queue.
        answered: Whether it has its answer: a session need not send it then.
        slot: Set by the wheel that watches ``due_s``.
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
        """Answer the attempt; the first answer counts, later ones only free the window."""
        self._keeper.settle(self)
        self.tell(answer)

    def tell(self, answer: Answer) -> None:
        """Call back with *answer*, if it is the first; never from inside ``Transport.send``.

        Does not free the place in the window: sessions call ``answer``.
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
        """Handle the deadline; see ``_wheel.Watched``."""
        if not self.answered:
            self._keeper.late(self)
        return False


class BrokerSession(Protocol):
    """An open connection to a broker.

    Attributes:
        window: Most published messages without an answer, from 1. May change.
    """

    window: int

    def publish(self, flight: Flight) -> None:
        """Send ``flight.event``, and arrange for a call of ``flight.answer``.

        Called in the order in which events are to arrive. Without acknowledgements, answers once
        the message is written and flushed (decision 28, delivery without acknowledgement).

        Raises:
            TransportError, EventError: The event cannot be sent; the caller answers the flight.
        """

    async def close(self) -> None:
        """Close in order; also called after the connection was lost. May be cancelled.

        The caller answers open flights.
        """


Lost: TypeAlias = Callable[[Answer], None]
"""Called by a session that has lost its connection, with the answer of all in flight. May be called
from any callback of the loop, even before the opener has returned the session, and repeatedly."""

Opener: TypeAlias = Callable[[Destination, Lost], Awaitable["BrokerSession | Answer"]]
"""Connects and logs in; returns a session, or the answer of all waiting attempts. Raises
``TransportError`` on failure. Cancelled after ``DIAL_S_MAX``; must leave no connection behind."""
