"""The events that a record of the log holds, whatever its kind."""

from typing import NamedTuple

from distributary.event import Event
from distributary.event import record as event_record
from distributary.flow import TTL_DEFAULT, Kind, Logged, decode_addressed, decode_tick


class Found(NamedTuple):
    """An event as it stands in the log.

    Attributes:
        event: The event.
        ttl: Passes through Brokers and Channels that it has left, from 1.
        carried: Header lines that go along with it.
    """

    event: Event
    ttl: int
    carried: bytes = b""


def event_at(logged: Logged, index: int) -> Found:
    """The event at *index* of a record that holds events: a tick holds one.

    Raises:
        EventError: The record cannot be read.
    """
    if logged.kind == Kind.TICK:
        return Found(decode_tick(logged.body).event, TTL_DEFAULT)
    if logged.kind in (Kind.ADDRESSED, Kind.CARRIED):
        addressed = decode_addressed(logged.body)
        return Found(addressed.events[index], addressed.ttls[index], addressed.carried)
    return Found(event_record.decode(logged.body)[index], TTL_DEFAULT)
