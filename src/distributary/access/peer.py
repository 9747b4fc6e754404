"""Whom a verified client certificate names."""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from distributary.access.presented import PeerCertificate

NAMES_MAX: Final = 64
"""Names of one certificate that are read; the others identify nobody."""

_NAME_CHARS_MAX: Final = 2_048
"""Longest name that is read: SPIFFE IDs have at most as many bytes."""

_KINDS: Final = {"URI": "uri", "DNS": "dns", "email": "email"}
"""Alternative names that identify a client, in the words of ``ssl``: the most exact first."""


def read_peer(found: Mapping[str, Any]) -> PeerCertificate:
    """Read a verified certificate.

    Args:
        found: In the form of ``ssl.SSLSocket.getpeercert``; of a transport, ``peercert``.

    Source:
        RFC 6125 section 6.4.4: the common name counts only where there is no alternative name.
    """
    listed = found.get("subjectAltName", ())
    names = [
        f"{_KINDS[kind]}:{name}"
        for wanted in _KINDS
        for kind, name in listed[:NAMES_MAX]
        if kind == wanted and _usable(name)
    ]
    if not listed:
        parts = [part for group in found.get("subject", ()) for part in group]
        names = [f"cn:{name}" for kind, name in parts if kind == "commonName" and _usable(name)]
    until_s = ssl.cert_time_to_seconds(found["notAfter"])
    return PeerCertificate(tuple(names[:NAMES_MAX]), int(until_s * 1000))


def _usable(name: str) -> bool:
    """Whether *name* identifies anybody: it can stand in a header or a log line as it is."""
    return 0 < len(name) <= _NAME_CHARS_MAX and name.isprintable()
