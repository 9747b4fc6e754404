"""The event: its value, its rules, and its forms on the wire and in the log.

Called by ``server.ingest`` (decoding), ``protocols`` (encoding), ``engine`` (log records),
``filter`` and ``route`` (attributes). Hides the formats: nobody else knows how an event looks as
JSON, as header fields or as a record. Pure: no I/O, no clock.

The promise of every decoder here: any bytes give events or an ``EventError`` (or its subclass
``UnsupportedFormatError``), nothing else.
"""

from distributary.core.event import carried, content, header_text, json_format, record
from distributary.core.event._syntax import forbidden_character, is_name
from distributary.core.event.json_format import BATCH_EVENTS_MAX
from distributary.core.event.validity import (
    ATTRIBUTE_CHARS_MAX,
    ATTRIBUTES_MAX,
    FAULTS_MAX,
    HEADER_PREFIX,
    NAME_CHARS_MAX,
    RESERVED_NAMES,
    SPECVERSIONS,
    UnsupportedFormatError,
    refuse,
    shown,
    validate,
)
from distributary.core.event.value import AttributeValue, Event, canonical
