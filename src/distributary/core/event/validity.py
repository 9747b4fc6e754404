"""Validates context attributes against CloudEvents 1.0 and 0.3; reports all faults at once.

Called by the decoders of this package, by ``protocols.http.receive``, and by code that makes an
event from a person's input. Hides two paths that agree: a fast check by whole-event string
operations (the hot path), and a slow walk that names every fault.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeAlias

from distributary.core.errors import EventError, Fault
from distributary.core.event._syntax import (
    forbidden_character,
    is_media_type,
    is_name,
    is_timestamp,
    is_token,
    is_uri,
    is_uri_reference,
)

SPECVERSIONS = frozenset({"1.0", "0.3"})
"""Supported versions; attributes of another version may have another meaning."""

ATTRIBUTES_MAX = 64
"""Most attributes of one event. Each becomes a header in binary mode, and common HTTP servers
accept 100 headers, of which a delivery needs some for itself."""

ATTRIBUTE_CHARS_MAX = 65_536
"""Most characters of one attribute value. Intermediaries must forward events of up to 64 KiB
(CloudEvents 1.0, Size Limits), so the limit must not be lower."""

NAME_CHARS_MAX = 256
"""Most characters of an attribute name. Senders should use at most 20; the limit keeps names far
shorter than values, and the encoders' name tables small."""

INTEGER_MIN = -(2**31)
"""CloudEvents 1.0, Type System, Integer: 32 bits with a sign."""
INTEGER_MAX = 2**31 - 1
"""CloudEvents 1.0, Type System, Integer."""

FAULTS_MAX = 100
"""Most faults reported for one message: enough to repair a sender, few enough for a response."""

JSON_PREFIX = "$."
HEADER_PREFIX = "ce-"

REQUIRED = ("specversion", "id", "source", "type")
"""CloudEvents 1.0, REQUIRED Attributes (the same four in 0.3)."""

RESERVED_NAMES = frozenset({"data"})
"""CloudEvents 1.0, Naming Conventions: not permitted as the name of an attribute."""

_SHOWN_CHARS_MAX = 64
"""Most characters of a sender's name that a fault repeats: faults are logged and sent back."""


class UnsupportedFormatError(EventError):
    """The message's format is not supported; another content type may be."""

    code = "unsupported-media-type"


def validate(attributes: Mapping[str, object], prefix: str = JSON_PREFIX) -> list[Fault]:
    """Return every fault of *attributes*, each with its place; empty if they are valid.

    Args:
        attributes: Context attributes by name, unset ones left out.
        prefix: Precedes the name in a fault's path: ``$.`` for JSON, ``$[3].`` in a batch,
            ``ce-`` for headers (then ``datacontenttype`` is named ``content-type``).
    """
    if _plainly_valid(attributes):
        return []
    return _every_fault(attributes, prefix)


def is_valid(name: str, value: str) -> bool:
    """Whether the attribute *name* with *value* is valid in an event of version 1.0.

    An event is, if all its attributes are, the required ones are there, and they are at most
    ``ATTRIBUTES_MAX``: no other rule of version 1.0 looks at two attributes.
    """
    if name == "specversion" and value != "1.0":
        return False
    return _name_fault(name) is None and _value_fault(value, _CHECKS_1_0.get(name)) is None


def is_textual(name: str) -> bool:
    """Whether every value of the attribute *name* is a string, in each version that has it."""
    return name in _CHECKS_1_0 or name in _CHECKS_0_3


def takes_any_text(name: str) -> bool:
    """Whether no rule but the one for characters restricts values of the attribute *name*.

    Every text that is not empty, and in visible ASCII, then passes ``is_valid``, if the name does.
    """
    return _CHECKS_1_0.get(name, _not_empty) is _not_empty


def refuse(faults: Iterable[Fault]) -> NoReturn:
    """Raise *faults* as one ``EventError``, the first ``FAULTS_MAX`` of them."""
    listed = list(faults)
    if len(listed) > FAULTS_MAX:
        message = f"there are more faults; these are the first {FAULTS_MAX - 1}"
        listed[FAULTS_MAX - 1 :] = [Fault("$", "too-many", message)]
    raise EventError(listed)


def shown(text: str) -> str:
    """Return a sender's *text*, escaped and cut for a fault's path or message."""
    cut = text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def _plainly_valid(attributes: Mapping[str, object]) -> bool:
    """True only if there is no fault; False: the slow walk decides."""
    names = "".join(attributes)
    try:
        text = "".join(attributes.values())  # type: ignore[arg-type]  # the except is the check
    except TypeError:
        strings = {name: value for name, value in attributes.items() if type(value) is str}
        others = attributes.keys() - strings.keys()
        return (
            _CHECKS_1_0.keys().isdisjoint(others)
            and not any(_scalar_fault(attributes[name]) for name in others)
            and not any(_name_fault(name) for name in others)
            and len(attributes) <= ATTRIBUTES_MAX
            and _plainly_valid(strings)
        )
    return (
        # isprintable() is false for every forbidden character, and some more.
        text.isprintable()
        and len(text) <= ATTRIBUTE_CHARS_MAX
        and names.isascii()
        and names.isalnum()
        and names.islower()
        and len(names) <= NAME_CHARS_MAX
        and len(attributes) <= ATTRIBUTES_MAX
        and "" not in attributes
        and "data" not in attributes
        and _plainly_valid_values(attributes)  # type: ignore[arg-type]  # all are strings by now
    )


def _plainly_valid_values(attributes: Mapping[str, str]) -> bool:
    get = attributes.get
    if get("specversion") != "1.0" or not get("id") or not get("type"):
        return False
    return (
        is_uri_reference(get("source", ""))
        and ("time" not in attributes or is_timestamp(attributes["time"]))
        and ("datacontenttype" not in attributes or is_media_type(attributes["datacontenttype"]))
        and ("subject" not in attributes or attributes["subject"] != "")
        and ("dataschema" not in attributes or is_uri(attributes["dataschema"]))
    )


_CodeAndMessage: TypeAlias = tuple[str, str]
_Check: TypeAlias = Callable[[str], _CodeAndMessage | None]


def _every_fault(attributes: Mapping[str, object], prefix: str) -> list[Fault]:
    faults = [
        Fault(_path(prefix, name), "missing", "is required")
        for name in REQUIRED
        if name not in attributes
    ]
    if len(attributes) > ATTRIBUTES_MAX:
        message = f"an event has at most {ATTRIBUTES_MAX} attributes"
        whole = "$" if prefix == HEADER_PREFIX else prefix.removesuffix(".")
        faults.append(Fault(whole, "too-many", message))
    checks = _CHECKS_0_3 if attributes.get("specversion") == "0.3" else _CHECKS_1_0
    for name, value in attributes.items():
        fault = _name_fault(name) or _value_fault(value, checks.get(name))
        if fault is not None:
            code, message = fault
            faults.append(Fault(_path(prefix, name), code, message))
    return faults


def _path(prefix: str, name: str) -> str:
    if prefix == HEADER_PREFIX and name == "datacontenttype":
        return "content-type"
    return prefix + shown(name)


def _name_fault(name: str) -> _CodeAndMessage | None:
    if name in RESERVED_NAMES:
        return "reserved", "is reserved and cannot name an attribute"
    if not is_name(name):
        return "name", "an attribute name consists of a-z and 0-9"
    if len(name) > NAME_CHARS_MAX:
        return "name", f"an attribute name has at most {NAME_CHARS_MAX} characters"
    return None


def _value_fault(value: object, check: _Check | None) -> _CodeAndMessage | None:
    if not isinstance(value, str):
        return ("type", "must be a string") if check else _scalar_fault(value)
    if len(value) > ATTRIBUTE_CHARS_MAX:
        return "too-long", f"an attribute value has at most {ATTRIBUTE_CHARS_MAX} characters"
    forbidden = forbidden_character(value)
    if forbidden is not None:
        place = f"U+{ord(forbidden.group()):04X} at index {forbidden.start()}"
        return "character", f"{place} is not permitted in an attribute value"
    return None if check is None else check(value)


def _scalar_fault(value: object) -> _CodeAndMessage | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        if INTEGER_MIN <= value <= INTEGER_MAX:
            return None
        return "range", "an integer must fit in 32 bits with its sign"
    return "type", "must be a string, a boolean or an integer"


def _specversion(value: str) -> _CodeAndMessage | None:
    if value in SPECVERSIONS:
        return None
    if not value:
        return "empty", "must not be empty"
    return "version", f"known versions are 1.0 and 0.3, not {shown(value)!r}"


def _not_empty(value: str) -> _CodeAndMessage | None:
    return None if value else ("empty", "must not be empty")


def _rule(fits: Callable[[str], bool], code: str, message: str) -> _Check:
    def check(value: str) -> _CodeAndMessage | None:
        if fits(value):
            return None
        return (code, message) if value else ("empty", "must not be empty")

    return check


_RULES = "RFC 3986: percent-encode what is not ASCII, spaces and brackets"
_REFERENCE = f"must be a URI-reference ({_RULES})"

_CHECKS_BOTH: dict[str, _Check] = {
    "specversion": _specversion,
    "id": _not_empty,
    "source": _rule(is_uri_reference, "uri", _REFERENCE),
    "type": _not_empty,
    "subject": _not_empty,
    "time": _rule(is_timestamp, "time", "must be a date and time of RFC 3339"),
    "datacontenttype": _rule(is_media_type, "media-type", "must be a media type of RFC 2046"),
}
_CHECKS_1_0 = _CHECKS_BOTH | {
    "dataschema": _rule(is_uri, "uri", f"must be a URI with a scheme ({_RULES})"),
}
_CHECKS_0_3 = _CHECKS_BOTH | {
    "schemaurl": _rule(is_uri_reference, "uri", _REFERENCE),
    "datacontentencoding": _rule(is_token, "encoding", "must be an encoding of RFC 2045"),
}
