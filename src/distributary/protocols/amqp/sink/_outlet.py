"""The link to one place of a broker, and what waits for it.

Called by ``_session``. Plain state; decides nothing.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import cast

from distributary.net.link import Flight
from distributary.protocols.amqp import engine as amqp
from distributary.protocols.amqp.settings import AmqpSettings


@dataclass(slots=True, eq=False)
class Outlet:
    """A link, and the flights that are for it.

    Attributes:
        link: Ours; opened by the peer or not yet.
        settings: What it was opened for.
        asked_s: When the peer was asked to open it; monotonic.
        slow_start_until_s: Until when only one message is to be under way on it; monotonic. 0.0: as
            many as the broker takes.
        open: Whether the peer has agreed to it.
        waiting: Flights that could not be sent yet, in order.
        unwritten: Flights that were sent without acknowledgement and are not in the socket yet.
    """

    link: amqp.AmqpLink
    settings: AmqpSettings
    asked_s: float
    slow_start_until_s: float
    open: bool = False
    waiting: deque[Flight] = field(default_factory=deque)
    unwritten: list[Flight] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether nothing waits for it or is under way on it."""
        return not (self.waiting or self.unwritten or self.link.unsettled)

    @property
    def under_way(self) -> list[Flight]:
        """What was sent and has no outcome, in order; also those whose time is over."""
        unsettled = cast("list[Flight]", list(self.link.unsettled.values()))
        return unsettled + self.unwritten

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for the outcome of what is under way."""
        return not all(flight.answered for flight in self.under_way)
