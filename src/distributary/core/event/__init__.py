"""CloudEvents: the event value, its rules, its formats on the wire and in the log.

Called by ``server.ingest`` (decoding), ``protocols`` (encoding), ``engine`` (log records),
``filter`` and ``route`` (attributes). Hides the formats: no other package knows how an event looks
as JSON, as header fields or as a record. Pure: no I/O, no clock.

Every decoder here returns events or raises an ``EventError`` (or its subclass
``UnsupportedFormatError``) for any bytes, and raises nothing else.
"""

from distributary.core.event import binary, carried, content, header_text, json_format, record
from distributary.core.event._syntax import forbidden_character, is_name, is_timestamp
from distributary.core.event.binary import BinaryEvent
from distributary.core.event.json_format import BATCH_EVENTS_MAX
from distributary.core.event.validity import (
    ATTRIBUTE_CHARS_MAX,
    ATTRIBUTES_MAX,
    FAULTS_MAX,
    HEADER_PREFIX,
    NAME_CHARS_MAX,
    REQUIRED,
    RESERVED_NAMES,
    UnsupportedFormatError,
    is_valid,
    refuse,
    shown,
    takes_any_text,
    validate,
)
from distributary.core.event.value import AttributeValue, Event, canonical
