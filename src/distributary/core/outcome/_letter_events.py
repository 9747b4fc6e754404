"""The event of a dead letter, apart from its error attributes and together with them.

Called by the stores of dead letters: the event of a record is stored once for all that missed it.
"""

import json
from typing import Final

from distributary.core.errors import EventError
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.shown import shown_uri

MARKS: Final = ("knativeerrordest", "knativeerrorcode", "knativeerrordata")
"""Attributes that a dead letter has and its event has not (decision 16, dead letters)."""


def split(event: bytes) -> tuple[bytes, str]:
    """Split an event into the shared part and the JSON of its error attributes.

    An unreadable event is kept as it is.
    """
    try:
        (found,) = event_record.decode(event)
    except (EventError, ValueError):
        return event, "{}"
    marks = {name: found.attributes[name] for name in MARKS if name in found.attributes}
    if not marks:
        return event, "{}"
    attributes = {name: v for name, v in found.attributes.items() if name not in marks}
    return event_record.encode([Event(attributes, found.data)]), json.dumps(marks)


def join(event: bytes, marks: str) -> bytes:
    """Join the event of a dead letter with its error attributes: the inverse of ``split``."""
    added = json.loads(marks)
    if not added:
        return event
    try:
        (found,) = event_record.decode(event)
    except (EventError, ValueError):
        return event  # damaged on the medium: the others must stay readable
    return event_record.encode([Event({**found.attributes, **added}, found.data)])


def without_query(event: bytes) -> bytes:
    """Redact the sink in a dead letter's event by ``shown_uri``: version 1 had the whole URI."""
    shared, marks = split(event)
    dest = json.loads(marks).get("knativeerrordest", "")
    if "?" not in str(dest):
        return event
    return join(shared, json.dumps(json.loads(marks) | {"knativeerrordest": shown_uri(dest)}))
