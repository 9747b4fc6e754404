"""The events that a record of the log holds, whatever its kind."""

from distributary.event import Event
from distributary.event import record as event_record
from distributary.flow import Kind, Logged, decode_tick


def event_at(logged: Logged, index: int) -> Event:
    """The event at *index* of a record that holds events: a tick holds one.

    Raises:
        EventError: The record cannot be read.
    """
    if logged.kind == Kind.TICK:
        return decode_tick(logged.body).event
    return event_record.decode(logged.body)[index]
