"""Syntax of names, labels and annotation keys, with the API server's error messages."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from distributary.knative.apiserver.machinery.status import Cause

LABEL_CHARS_MAX: Final = 63
"""Longest DNS label (RFC 1123, section 2.1), and longest name part of a qualified name."""

SUBDOMAIN_CHARS_MAX: Final = 253
"""Longest DNS subdomain (RFC 1123, section 2.1)."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

_SHOWN_CHARS_MAX: Final = 300
"""Values in messages are truncated to this: a message must not be as large as a bad request."""


def label_faults(text: str) -> Iterator[str]:
    """Faults of *text* as a DNS label; none: valid."""
    return _faults(text, LABEL_CHARS_MAX, _LABEL, _LABEL_RULE)


def subdomain_faults(text: str) -> Iterator[str]:
    """Faults of *text* as a DNS subdomain; none: valid."""
    return _faults(text, SUBDOMAIN_CHARS_MAX, _SUBDOMAIN, _SUBDOMAIN_RULE)


def qualified_faults(text: str) -> Iterator[str]:
    """Faults of *text* as the key of a label, ``[prefix/]name``; none: valid."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        if not prefix:
            yield "prefix part must be non-empty"
        else:
            yield from (f"prefix part {fault}" for fault in subdomain_faults(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > LABEL_CHARS_MAX:
        yield f"name part must be no more than {LABEL_CHARS_MAX} characters"
    if not _QUALIFIED.fullmatch(name):
        yield _QUALIFIED_RULE


def value_faults(text: str) -> Iterator[str]:
    """Faults of *text* as the value of a label; none: valid."""
    return _faults(text, LABEL_CHARS_MAX, _VALUE, _VALUE_RULE)


def _faults(text: str, chars_max: int, pattern: re.Pattern[str], rule: str) -> Iterator[str]:
    if len(text) > chars_max:
        yield f"must be no more than {chars_max} characters"
    if not pattern.fullmatch(text):
        yield rule


def shown(value: object) -> str:
    """*value* for messages: strings in quotes, truncated, on one line."""
    text = f'"{value}"' if isinstance(value, str) else _json_like(value)
    text = text.replace("\n", "\\n").replace("\r", "\\r")
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "..."


def _json_like(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "object" if isinstance(value, dict) else "array"
    return str(value)


def required(field: str, why: str = "") -> Cause:
    """*field* is absent."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {why}" if why else ""))


def bad_value(field: str, value: object, why: str) -> Cause:
    """*field* has an invalid *value*."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {why}")


def wrong_type(field: str, value: object, expected: str) -> Cause:
    """*field* has a *value* of another JSON type than *expected*."""
    why = f"must be of type {expected}"
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {why}")


def unsupported(field: str, value: object, supported: Iterable[str]) -> Cause:
    """*field* has a *value* that is none of *supported*."""
    names = ", ".join(f'"{name}"' for name in supported)
    message = f"Unsupported value: {shown(value)}: supported values: {names}"
    return Cause(field, "FieldValueNotSupported", message)


def forbidden(field: str, why: str) -> Cause:
    """*field* may not be set, or not in this combination."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def too_long(field: str, why: str) -> Cause:
    """*field* exceeds its size limit."""
    return Cause(field, "FieldValueTooLong", f"Too long: {why}")
