"""PEM certificates as people paste them: with comments, subjects and keys between them."""

import re
import ssl
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_BLOCK: Final = re.compile(rf"{_BEGIN}\s+[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)


def certificates_in(text: str) -> str | None:
    """Return only the certificates of the PEM *text*.

    Returns:
        ASCII PEM that OpenSSL reads; None where there is no certificate, or an unreadable one.
    """
    found = _BLOCK.findall(text)
    if len(found) != text.count(_BEGIN):  # a block is cut off, or is not base64
        return None
    blocks = "\n".join(found)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=blocks)
    except (ssl.SSLError, ValueError):  # ValueError: no certificate
        return None
    return blocks
