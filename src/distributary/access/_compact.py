"""Takes a token in compact form apart, strictly. Pure.

Called by ``tokens``. Nothing here is verified yet: every byte is an attacker's. PyJWT's own parser
is not used: it accepts padded parts and members that occur twice, which two readers could read
differently.
"""

import base64
import binascii
import re
from typing import Any, Final, NamedTuple

from distributary.core.errors import ResourceError
from distributary.resource import decode_json

TOKEN_BYTES_MAX: Final = 8 * 1024
"""Largest token, bytes. Those of Keycloak and Entra with their groups have 1 to 4 KiB, and most
servers take no longer header line."""

_PART: Final = re.compile(rb"[A-Za-z0-9_-]+")


class Compact(NamedTuple):
    """A token's parts, unverified.

    Attributes:
        header: The JOSE header.
        claims: The claims set.
        signed: What the signature covers.
        signature: As bytes.
    """

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def take_apart(token: bytes) -> Compact | None:
    """Returns the parts of *token*; None: it is not exactly one signed token in compact form.

    Args:
        token: At most ``TOKEN_BYTES_MAX`` bytes.

    Source:
        RFC 7515, sections 5.2 and 7.1; RFC 7519, section 7.2. Stricter: no padding, no bits beyond
        the last byte, no member twice, no deep nesting, no empty part (so ``none`` fails here).
    """
    parts = token.split(b".", 3)
    if len(parts) != 3:
        return None
    header, claims, signature = (_decoded(part) for part in parts)
    if header is None or claims is None or signature is None:
        return None
    header_object, claims_object = _object(header), _object(claims)
    if header_object is None or claims_object is None:
        return None
    return Compact(header_object, claims_object, token[: token.rindex(b".")], signature)


def _decoded(part: bytes) -> bytes | None:
    """The bytes behind *part*, if it is the one spelling of them."""
    if not _PART.fullmatch(part):
        return None
    try:
        raw = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except binascii.Error:  # one character beyond whole bytes
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == part else None


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = decode_json(raw)
    except ResourceError:
        return None
    return value if isinstance(value, dict) else None
