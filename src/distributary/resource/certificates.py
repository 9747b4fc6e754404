"""Certificates in PEM, as people paste them: with comments, subjects and keys between them."""

import re
import ssl
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_BLOCK: Final = re.compile(rf"{_BEGIN}\s+[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)


def certificates_in(text: str) -> str | None:
    """The certificates of the PEM *text*, and nothing that stands between them.

    Returns:
        PEM that OpenSSL reads, in ASCII; None where there is none, or one that cannot be read.
    """
    found = _BLOCK.findall(text)
    if len(found) != text.count(_BEGIN):  # one is cut off, or holds something else
        return None
    blocks = "\n".join(found)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=blocks)
    except (ssl.SSLError, ValueError):  # the latter: there is none
        return None
    return blocks
