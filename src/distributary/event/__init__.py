"""The event: its value, its rules, and its forms on the wire and in the log.

Called by ``ingest`` (decoding), ``deliver`` (encoding), ``pipeline`` (log records), ``filter`` and
``route`` (attributes). Hides the formats: nobody else knows how an event looks as JSON, as header
fields or as a record. Pure: no I/O, no clock.

The promise of every decoder here: any bytes give events or an ``EventError`` (or its subclass
``UnsupportedFormatError``), nothing else.
"""

from distributary.event import amqp, carried, http, json_format, kafka, mqtt, nats, record
from distributary.event._event import AttributeValue, Event, canonical
from distributary.event._syntax import is_name
from distributary.event._validity import (
    ATTRIBUTE_CHARS_MAX,
    ATTRIBUTES_MAX,
    FAULTS_MAX,
    NAME_CHARS_MAX,
    RESERVED_NAMES,
    SPECVERSIONS,
    validate,
)
from distributary.event.http import UnsupportedFormatError
from distributary.event.json_format import BATCH_EVENTS_MAX

__all__ = [
    "ATTRIBUTES_MAX",
    "ATTRIBUTE_CHARS_MAX",
    "BATCH_EVENTS_MAX",
    "FAULTS_MAX",
    "NAME_CHARS_MAX",
    "RESERVED_NAMES",
    "SPECVERSIONS",
    "AttributeValue",
    "Event",
    "UnsupportedFormatError",
    "amqp",
    "canonical",
    "carried",
    "http",
    "is_name",
    "json_format",
    "kafka",
    "mqtt",
    "nats",
    "record",
    "validate",
]
