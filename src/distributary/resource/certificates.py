"""PEM certificates as people paste them: with comments, subjects and keys between them."""

import base64
import binascii
import hashlib
import re
import ssl
from collections.abc import Iterable
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
# Possessive (``++``), so without backtracking: whoever writes a Secret chooses the text.
_BLOCK: Final = re.compile(rf"{_BEGIN}\s[A-Za-z0-9+/=\s]++-----END CERTIFICATE-----", re.ASCII)
_BEGIN_OF_ANY: Final = "-----BEGIN "
_BODY: Final = slice(len(_BEGIN), -len("-----END CERTIFICATE-----"))

Fingerprints = tuple[str, ...]
"""SHA-256 of certificates, in hexadecimal, sorted, each once: certificates are compared by them."""


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


def fingerprints_in(text: str) -> Fingerprints | None:
    """The certificates of the PEM *text*, whatever is written between them.

    Strict, since OpenSSL reads the same text to trust by it: it must find no other certificate
    there.

    Returns:
        None where there is no certificate, or anything else in PEM, or what is not plain Base64.
    """
    blocks = _BLOCK.findall(text)
    if not blocks or len(blocks) != text.count(_BEGIN_OF_ANY):
        return None
    try:
        found = {base64.b64decode("".join(each[_BODY].split()), validate=True) for each in blocks}
    except binascii.Error:
        return None
    return tuple(sorted(hashlib.sha256(each).hexdigest() for each in found))


def adds_trust(now: Fingerprints | None, given: Iterable[str]) -> bool:
    """Whether *now* has a certificate that is not among those that a secret was *given* for.

    Who may add one, and can answer at the address of the sink, would get the secret. None, what is
    not known, adds trust too.
    """
    return now is None or not set(now).issubset(given)
