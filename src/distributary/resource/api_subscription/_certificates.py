"""``protocolsettings.cacerts``: certificates that a sink is trusted by, besides the system's."""

import re
import ssl
from typing import Final

from distributary.resource._faults import Faults

CA_CERTS_CHARS_MAX: Final = 64 * 1024
"""Longest ``cacerts``: some thirty certificates. A sink is signed by one or two."""

_BLOCK = re.compile(
    r"-----BEGIN CERTIFICATE-----\s+[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII
)
_BEGIN = re.compile(r"-----BEGIN ([^-]*)-----")


def realize_certificates(faults: Faults, path: str, value: object) -> str | None:
    """The certificates of the PEM text *value*, and nothing that stands between them.

    They are shown to whoever reads the subscription: a private key that was pasted along is
    refused, and never repeated.

    Returns:
        PEM that OpenSSL reads; None with a fault noted.
    """
    text = faults.text_at(path, value, CA_CERTS_CHARS_MAX)
    if text is None:
        return None
    if any(label != "CERTIFICATE" for label in _BEGIN.findall(text)):
        message = "there is something else than certificates in it; keys never belong here"
        faults.add(path, "value", message)
        return None
    blocks = "\n".join(_BLOCK.findall(text))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=blocks)
    except (ssl.SSLError, ValueError):  # the latter: there is none
        faults.add(path, "value", "expected one or more X.509 certificates in PEM")
        return None
    return blocks
