"""Regular expressions for texts in resources, shared by published schemas and the checker.

ECMA-262 patterns without flags and lookaround, which every validator and generator of test data
reads. Those of URIs accept more than ``uri`` does.
"""

from collections.abc import Iterable
from typing import Final

from distributary.core.protocol import protocols
from distributary.resource.durations import PLAIN_UNITS

_URI_CHAR: Final = r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=]"
_PERCENT: Final = "%[0-9A-Fa-f]{2}"

# A name whose last label is not a number: with one it could be read as an address.
_LABEL: Final = "[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_MORE: Final = "[A-Za-z0-9_-]*"
_LAST_LABEL: Final = (
    f"(?:[A-Za-z_]{_MORE}"
    f"|(?:[1-9][0-9]*|0[0-9]+)[A-Za-z_-]{_MORE}"
    f"|0[A-WYZa-wyz_-]{_MORE}"
    f"|0[Xx][0-9A-Fa-f]*[G-Zg-z_-]{_MORE})"
)
_NAME: Final = rf"(?:{_LABEL}\.)*{_LAST_LABEL}\.?"

_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"

_GROUP: Final = "[0-9A-Fa-f]{1,4}"
_LAST_32_BITS: Final = f"(?:{_GROUP}:{_GROUP}|{_IPV4})"


def _ipv6() -> str:
    """RFC 3986, section 3.2.2: eight groups, or fewer around one ``::``."""
    forms = [f"(?:{_GROUP}:){{6}}{_LAST_32_BITS}"]
    for after in range(5, -1, -1):
        before = f"(?:(?:{_GROUP}:){{0,{4 - after}}}{_GROUP})?" if after < 5 else ""
        forms.append(f"{before}::(?:{_GROUP}:){{{after}}}{_LAST_32_BITS}")
    forms.append(f"(?:(?:{_GROUP}:){{0,5}}{_GROUP})?::{_GROUP}")
    forms.append(f"(?:(?:{_GROUP}:){{0,6}}{_GROUP})?::")
    return f"(?:{'|'.join(forms)})"


_PORT: Final = (
    "(?:0{0,4}[1-9]|0{0,3}[1-9][0-9]|0{0,2}[1-9][0-9]{2}|0?[1-9][0-9]{3}"
    "|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)

_AUTHORITY: Final = rf"(?:{_NAME}|{_IPV4}|\[{_ipv6()}\])(?::{_PORT})?"
# Brokers' hosts, by their characters. The exact pattern, repeated for many hosts, is too large for
# generators of test data.
_BROKER: Final = r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_REST: Final = rf"(?:[/?](?:{_URI_CHAR}|{_PERCENT})*)?"
PATH: Final = rf"(?:/(?:{_URI_CHAR.replace('?', '')}|{_PERCENT})*)?"


def _any_case(text: str) -> str:
    assert not set(text) & set("\\.^$*?()[]{}|/"), "these would have to be escaped"
    cased = (f"[{char.upper()}{char.lower()}]" if char.isalpha() else char for char in text)
    return "".join(cased).replace("+", r"\+")


def sink_uri(protocol: str) -> str:
    """The pattern of a sink's absolute URI, without user information and fragment.

    Args:
        protocol: A delivery protocol.
    """
    row = protocols()[protocol]
    requests = [name for name, each in row.schemes.items() if each.path == "request"]
    others = [name for name in row.schemes if name not in requests]
    host = _BROKER if others else _AUTHORITY
    forms = [f"(?:{'|'.join(map(_any_case, requests))})://{host}{_REST}"] if requests else []
    if others:
        placed = row.schemes[others[0]].path == "place"
        rest = (row.place_path or PATH) if placed else "/?"
        more = f"(?:,{host}){{0,{row.hosts_max - 1}}}" if row.hosts_max > 1 else ""
        hosts = f"{host}{more}" if row.hosts_max else ""
        forms.append(f"(?:{'|'.join(map(_any_case, others))})://{hosts}{rest}")
    return f"^(?:{'|'.join(forms)})$"


# Characters of RFC 3986, and beyond ASCII those of RFC 3987.
_REFERENCE_CHAR: Final = '[^\\u0000-\\u0020"<>\\\\^`{|}%\\u007f-\\u009f\U0010fffe\U0010ffff]'

REFERENCE: Final = f"^(?:{_REFERENCE_CHAR}|{_PERCENT})+$"
"""A URI reference by its characters, for values that are compared and never dialled."""

ATTRIBUTE_NAME: Final = "^[a-z0-9]+$"
"""CloudEvents 1.0, Naming Conventions."""

_WHOLE: Final = "[0-9]+"
_FRACTION: Final = "[0-9]+(?:[.,][0-9]+)?"
_CLOCK: Final = (
    f"T(?:{_FRACTION}H|(?:{_WHOLE}H)?{_FRACTION}M|(?:{_WHOLE}H)?(?:{_WHOLE}M)?{_FRACTION}S)"
)

_ISO: Final = f"P(?:{_FRACTION}W|{_FRACTION}D|(?:{_WHOLE}D)?{_CLOCK})"
_PLAIN: Final = rf"[0-9]+(?:\.[0-9]+)?\s*(?:{'|'.join(map(_any_case, PLAIN_UNITS))})?"

ISO_DURATION: Final = f"^{_ISO}$"
"""An ISO 8601 duration without years and months, with a fraction in the last component."""

DURATION: Final = rf"^(?:{_ISO}|\s+{_ISO}\s*|\s*{_PLAIN}\s*)$"
"""Such a duration; or a number with a unit, or without one: seconds."""

TIME: Final = (
    "^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""A date and time with its offset (RFC 3339); not every month has a 31st."""

HTTP_NAME: Final = r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$"
"""A header name, and an authentication scheme (RFC 9110, section 5.6.2)."""


PLAIN_TEXT: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"
"""Text without control characters."""


def any_case_of(names: Iterable[str], *, or_beginning: str) -> str:
    """A pattern of exactly *names*, or of what begins with *or_beginning*, in any case."""
    whole = "|".join(_any_case(name) for name in sorted(names))
    return f"^(?:(?:{whole})$|{_any_case(or_beginning)})"
