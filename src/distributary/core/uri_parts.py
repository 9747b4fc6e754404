"""The parts of a URI, also where it names several hosts."""

import re
from typing import Final
from urllib.parse import SplitResult

_URI: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)


def split_uri(text: str) -> SplitResult:
    """Split *text* into scheme, authority, path, query and fragment (RFC 3986, appendix B).

    For URIs of Kafka and PostgreSQL: their authority is a list of hosts. ``urlsplit`` of newer
    Pythons refuses such a list with an IPv6 address in it.

    Returns:
        The parts as they stand there, the scheme in lower case. ``hostname`` and ``port`` of
        several hosts mean nothing.
    """
    found = _URI.fullmatch(text)
    assert found is not None  # each part may be empty, and the path takes what is left
    scheme, *others = (part or "" for part in found.groups())
    return SplitResult(scheme.lower(), *others)
