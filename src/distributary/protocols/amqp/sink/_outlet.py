"""A sending link to one place of a broker, with its queue. Plain state, for ``_session``."""

from collections import deque
from dataclasses import dataclass, field
from typing import cast

from distributary.net.link import Flight
from distributary.protocols.amqp import engine as amqp
from distributary.protocols.amqp.settings import AmqpSettings


@dataclass(slots=True, eq=False)
class Outlet:
    """A link and its flights.

    Attributes:
        link: Our sending link.
        settings: Settings of its destination.
        asked_s: When the attach was sent; monotonic.
        slow_start_until_s: End of its slow start, with one message in flight; monotonic. 0.0: none,
            limited by credit only.
        open: Whether the peer has accepted it.
        used: Whether a message was sent on it.
        waiting: Queue of flights to send, in order.
        unwritten: Flights that were sent settled and are not written to the socket yet.
    """

    link: amqp.AmqpLink
    settings: AmqpSettings
    asked_s: float
    slow_start_until_s: float
    open: bool = False
    used: bool = False
    waiting: deque[Flight] = field(default_factory=deque)
    unwritten: list[Flight] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or in flight."""
        return not (self.waiting or self.unwritten or self.link.unsettled)

    @property
    def under_way(self) -> list[Flight]:
        """Flights without an outcome, in order, including those that timed out."""
        unsettled = cast("list[Flight]", list(self.link.unsettled.values()))
        return unsettled + self.unwritten

    @property
    def awaited(self) -> bool:
        """Whether a flight without an outcome has not timed out."""
        return not all(flight.answered for flight in self.under_way)
