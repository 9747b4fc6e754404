"""Attribute values as HTTP header text, both ways (HTTP Protocol Binding 1.0.2, 3.1.3.2).

Called by ``http``, and by transports whose headers follow the same rule. Pure text; ``validate``
decides whether an event may hold a value.
"""

import re
from urllib.parse import quote, unquote_to_bytes

_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')

_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)

_OPTIONAL_WHITESPACE = b" \t"


def percent_encode(value: str) -> str:
    """Percent-encode space, double quote, percent and all but U+0021-U+007E in *value*.

    Raises:
        UnicodeEncodeError: *value* holds a lone surrogate, which no valid event does.
    """
    return quote(value, safe=_SAFE, errors="strict")


def percent_decode(value: bytes) -> str:
    """Decode header bytes *value* to an attribute value.

    Unquotes a value that is one quoted string, then percent-decodes once. A percent sign without
    two hexadecimal digits is kept, as are quotes elsewhere and UTF-8 beyond ASCII, which senders of
    older versions do not encode.

    Raises:
        UnicodeDecodeError: The result is not UTF-8 (overlong forms and surrogates included).
    """
    value = value.strip(_OPTIONAL_WHITESPACE)
    quoted = _QUOTED.fullmatch(value)
    if quoted is not None:
        value = _ESCAPED.sub(rb"\1", quoted.group(1))
    return unquote_to_bytes(value).decode()
