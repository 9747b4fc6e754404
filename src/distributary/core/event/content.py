"""How attributes describe data: as JSON, as text with a charset, as Base64.

Called by ``json_format`` and by the bindings. Hides the spelling of media types. Results are
memoised: a system has few content types, and every event needs the result.
"""

import binascii
import re
from collections.abc import Mapping
from functools import lru_cache

from distributary.core.event.value import AttributeValue, Event

_MEMO_MAX = 256
"""Content types memoised: senders may invent any number."""

CLOUDEVENTS = "application/cloudevents"
"""How each content type of structured and batched mode begins."""

_UTF8_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""Charsets whose text is valid UTF-8 unchanged."""

_CHARSETS = frozenset(
    {"iso-8859-1", "iso-8859-15", "windows-1252", "utf-16", "utf-16be", "utf-16le"}
)
"""Other charsets supported for text: those still found in old documents."""

_TEXT_TYPES = frozenset(
    {
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/sql",
        "application/toml",
        "application/x-www-form-urlencoded",
        "application/x-yaml",
        "application/xml",
        "application/xml-dtd",
        "application/yaml",
    }
)
"""Media types outside ``text/`` whose data people can read."""

_TEXT_SUFFIXES = ("+xml", "+yaml")

_PARAMETER = re.compile(r';[ \t]*([^\s;="]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*+"|[^\s;"]*)')
"""A parameter of a media type: a semicolon in a quoted value begins no other.
Each text is read once: no part of it may begin two matches."""


@lru_cache(_MEMO_MAX)
def essence(content_type: str) -> str:
    """Return the media type in lower case, without parameters (``text/plain``)."""
    return content_type.partition(";")[0].strip(" \t").lower()


@lru_cache(_MEMO_MAX)
def is_json(content_type: str) -> bool:
    """Whether the subtype is ``json`` or ends with ``+json`` (JSON Event Format, 3.1.1)."""
    subtype = essence(content_type).rpartition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


@lru_cache(_MEMO_MAX)
def charset(content_type: str) -> str | None:
    """Return the codec for text of this type: the declared charset, or UTF-8; None: unknown."""
    declared = declared_charset(content_type)
    if declared is None or declared in _UTF8_CHARSETS:
        return "utf-8"
    return declared if declared in _CHARSETS else None


@lru_cache(_MEMO_MAX)
def is_utf8_text(content_type: str) -> bool:
    """Whether data of this type round-trip as a JSON string."""
    media_type = essence(content_type)
    return charset(content_type) == "utf-8" and (
        media_type.startswith("text/")
        or media_type in _TEXT_TYPES
        or media_type.endswith(_TEXT_SUFFIXES)
    )


@lru_cache(_MEMO_MAX)
def declared_charset(content_type: str) -> str | None:
    """Return the ``charset`` parameter in lower case, without quotes; None if absent."""
    for name, value in _PARAMETER.findall(content_type):
        if name.lower() == "charset":
            return str(value).strip('"').lower()
    return None


def is_base64_text(attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether the data are declared as Base64 text (CloudEvents 0.3 ``datacontentencoding``)."""
    if "datacontentencoding" not in attributes or attributes.get("specversion") != "0.3":
        return False
    return str(attributes["datacontentencoding"]).lower() == "base64"


def base64_bytes(text: bytes) -> bytes:
    """Decode the Base64 *text*; ignores line breaks of RFC 2045.

    Raises:
        ValueError: It is not Base64.
    """
    return binascii.a2b_base64(b"".join(text.split()), strict_mode=True)


def in_binary_mode(event: Event) -> Event:
    """Return *event* as binary mode sends it: Base64 text is decoded to the data.

    Source:
        CloudEvents 0.3, ``datacontentencoding``: it must not be set where the data are no string;
        HTTP binding 0.3, 3.1.2: the body is the byte sequence of the data.
    """
    attributes = event.attributes
    if "datacontentencoding" not in attributes or event.data is None:
        return event
    if not is_base64_text(attributes):
        return event
    try:
        data = base64_bytes(event.data)
    except ValueError:  # accepted by an older version: send it unchanged
        return event
    kept = {name: value for name, value in attributes.items() if name != "datacontentencoding"}
    return Event(kept, data)


def is_an_event(event: Event) -> bool:
    """Whether the data of *event* say that they are an event themselves.

    Where the content type of a message chooses its mode, binary mode cannot carry such an event:
    receivers would take the data for the event, whose attributes no filter has seen.

    Source:
        HTTP binding 1.0.2, 3; Kafka binding 1.0.3, 3; AMQP binding 1.0.1, 3; MQTT binding 1.0.2, 3.
    """
    return essence(str(event.attributes.get("datacontenttype", ""))).startswith(CLOUDEVENTS)
