"""The link to one place of a broker, and what waits for it.

Called by ``_session``. Plain state; decides nothing.
"""

from collections import deque
from typing import cast

from distributary.net.link import Flight
from distributary.protocols.amqp import engine as amqp
from distributary.protocols.amqp.settings import AmqpSettings


class Outlet:
    """A link, and the flights that are for it.

    Args:
        link: Ours.
        settings: What it was opened for.
        asked_s: When; monotonic.
        slow_start_until_s: Until when only one message is to be under way on it; monotonic.

    Attributes:
        link: Ours; opened by the peer or not yet.
        settings: What it was opened for.
        asked_s: When the peer was asked to open it.
        slow_start_until_s: See above; 0.0: as many as the broker takes.
        open: Whether the peer has agreed to it.
        waiting: Flights that could not be sent yet, in order.
        unwritten: Flights that were sent without acknowledgement and are not in the socket yet.
    """

    __slots__ = (
        "asked_s",
        "link",
        "open",
        "settings",
        "slow_start_until_s",
        "unwritten",
        "waiting",
    )

    def __init__(
        self, link: amqp.AmqpLink, settings: AmqpSettings, asked_s: float, slow_start_until_s: float
    ) -> None:
        self.link = link
        self.settings = settings
        self.asked_s = asked_s
        self.slow_start_until_s = slow_start_until_s
        self.open = False
        self.waiting: deque[Flight] = deque()
        self.unwritten: list[Flight] = []

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
