"""What is asked of the log, and what is found."""

from dataclasses import dataclass
from typing import NamedTuple

from distributary.core.event import Event
from distributary.core.flow import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which events of a namespace are asked for; None: not restricted by this.

    Attributes:
        namespace: The tenant.
        broker: Name of a Broker of it.
        channel: Name of a Channel of it.
        id: Their ``id``.
        source: Their ``source``.
        type: Their ``type``.
        subject: Their ``subject``.
        since_ms: Accepted at this time or later, wall clock, milliseconds.
        until_ms: Accepted before this time.
        limit: Most events, from 1.
        cursor: ``EventPage.next_cursor`` of the part before.
    """

    namespace: str
    broker: str | None = None
    channel: str | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None
    subject: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int
    cursor: str | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes that an event must have, with their values."""
        asked = {"id": self.id, "source": self.source, "type": self.type, "subject": self.subject}
        return {name: value for name, value in asked.items() if value is not None}


class FoundEvent(NamedTuple):
    """An accepted event.

    Attributes:
        position: Where it stands in the log.
        time_ms: When it was accepted, wall clock, milliseconds.
        address: Uid of the Broker or Channel that it was published to.
        path: Where it was published, such as ``/events``; None: a timer made it.
        route: Uid of the only route that sees it, of a timer's event; else empty.
        event: The event.
    """

    position: Position
    time_ms: int
    address: str
    path: str | None
    route: str
    event: Event


class EventPage(NamedTuple):
    """A part of what is found, the newest first.

    Attributes:
        items: The events; there may be none while there is a next part.
        next_cursor: Asks for the next part; None: there is none.
        looked_ms: All events that were accepted after this time have been looked at; None: all.
    """

    items: list[FoundEvent]
    next_cursor: str | None
    looked_ms: int | None
