"""Syntax of attribute names, URIs, timestamps, media types and strings.

Called by ``validity``. Pure predicates, each with its clause; every pattern takes time linear in
the text, for any text.
"""

import ipaddress
import re

MEDIA_TYPE_CHARS_MAX = 1_024
"""Most characters of a content type: both names have at most 127 each (RFC 6838), a boundary 70
(RFC 2046). Content types are keys of caches, so they must be short."""

_NAME = re.compile(r"[a-z0-9]+")

# RFC 3986, appendix A. An IPv6 address is checked apart. No group that is repeated possessively
# holds an alternative or a count: Python before 3.11.5 goes on behind what such a group has begun
# to match.
_PLAIN = r"A-Za-z0-9\-._~!$&'()*+,;="


def _run(characters: str) -> str:
    """Any number of *characters* and percent-encoded octets."""
    return rf"[{characters}]*+(?:%[0-9A-Fa-f][0-9A-Fa-f][{characters}]*+)*+"


_SEGMENTS = _run(f"{_PLAIN}:@/")
_AUTHORITY = (
    rf"(?:{_run(f'{_PLAIN}:')}@)?"
    rf"(?:\[(?:(?P<ipv6>[0-9A-Fa-f:.]++)|[vV][0-9A-Fa-f]++\.[{_PLAIN}:]++)\]|{_run(_PLAIN)})"
    r"(?::[0-9]*+)?"
)
_END = rf"(?:\?{_run(f'{_PLAIN}:@/?')})?(?:\#{_run(f'{_PLAIN}:@/?')})?"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*+:"
# A path without an authority does not begin with two slashes; without a scheme its first segment
# has no colon.
_HIER = rf"(?://{_AUTHORITY}(?:/{_SEGMENTS})?|(?!//){_SEGMENTS})"
_RELATIVE = rf"(?://{_AUTHORITY}(?:/{_SEGMENTS})?|(?!//)(?![^/?\#:]*+:){_SEGMENTS})"
_URI = re.compile(rf"{_SCHEME}{_HIER}{_END}")
_RELATIVE_REFERENCE = re.compile(rf"(?=.){_RELATIVE}{_END}")
# Fast path for most sources.
_PLAIN_PATH = re.compile(r"/?[A-Za-z0-9\-._~][A-Za-z0-9\-._~/]*+")

# RFC 3339 section 5.6; a leap second is permitted in any minute, since only a table could tell.
_TIME = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_DAYS_EVERY_MONTH_HAS = "28"
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# RFC 2046 with the syntax of RFC 2045 section 5.1; empty parameters as RFC 9110 allows them.
_WORD = r"[A-Za-z0-9!#$%&'*+\-.^_`|~]++"
_QUOTED = r'"[ !#-\[\]-~]*+(?:\\[ -~][ !#-\[\]-~]*+)*+"'  # in ASCII (RFC 2045 section 5.1)
_PARAMETER = rf"{_WORD}=(?:{_WORD}|{_QUOTED})"
_MEDIA_TYPE = re.compile(rf"{_WORD}/{_WORD}(?:[ \t]*+;[ \t]*+(?:{_PARAMETER})?)*[ \t]*+")
_TOKEN = re.compile(_WORD)
_COMMON_MEDIA_TYPES = frozenset({"application/json", "application/json; charset=utf-8"})

# CloudEvents 1.0, Type System, String: control characters, surrogates, noncharacters.
_FORBIDDEN_CHARACTER = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)


def is_name(text: str) -> bool:
    """Whether *text* may name an attribute (CloudEvents 1.0, Naming Conventions)."""
    return _NAME.fullmatch(text) is not None


def forbidden_character(text: str) -> re.Match[str] | None:
    """Return the first character that a String must not hold (CloudEvents 1.0, Type System)."""
    if text.isprintable():  # Then there is none, at a tenth of the cost: texts may be large.
        return None
    return _FORBIDDEN_CHARACTER.search(text)


def is_uri_reference(text: str) -> bool:
    """Whether *text* is a non-empty URI-reference (RFC 3986 section 4.1)."""
    return (
        _PLAIN_PATH.fullmatch(text) is not None
        or is_uri(text)
        or _fits(_RELATIVE_REFERENCE.fullmatch(text))
    )


def is_uri(text: str) -> bool:
    """Whether *text* is a URI with a scheme (RFC 3986 section 3)."""
    return _fits(_URI.fullmatch(text))


def _fits(match: re.Match[str] | None) -> bool:
    if match is None:
        return False
    address = match["ipv6"]
    if address is None:
        return True
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True


def is_media_type(text: str) -> bool:
    """Whether *text* is a media type with optional parameters (RFC 2046)."""
    if text in _COMMON_MEDIA_TYPES:
        return True
    return len(text) <= MEDIA_TYPE_CHARS_MAX and _MEDIA_TYPE.fullmatch(text) is not None


def is_token(text: str) -> bool:
    """Whether *text* is a token (RFC 2045 section 5.1)."""
    return _TOKEN.fullmatch(text) is not None


def is_timestamp(text: str) -> bool:
    """Whether *text* is an existing date and time (RFC 3339), leap seconds included."""
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day = match.groups()
    if day <= _DAYS_EVERY_MONTH_HAS:
        return True
    if month == "02" and day == "29":
        number = int(year)
        return number % 4 == 0 and (number % 100 != 0 or number % 400 == 0)
    return int(day) <= _DAYS_OF_MONTH[int(month) - 1]
