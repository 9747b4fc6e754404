"""Signs requests by Standard Webhooks 1.0: the header fields of one attempt.

Called by ``_transport``, which knows the bytes of the body. What is signed is
``id.timestamp.body``; attributes in header fields (binary mode) are not covered.
"""

import binascii
import hmac
from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from distributary.core.deliver.signing import SigningKey, SigningKeys

_MS_PER_S: Final = 1000


def signer_of(key: SigningKey) -> Callable[[bytes], bytes]:
    """The function that makes the signature of some content with *key*."""
    if key.scheme == "v1a":
        return Ed25519PrivateKey.from_private_bytes(key.value).sign
    value = key.value
    return lambda content: hmac.digest(value, content, "sha256")


class RequestSigner:
    """Signs the requests of one destination.

    Args:
        keys: One or more; while one replaces another, each attempt has a signature of each.
    """

    __slots__ = ("_signers",)

    def __init__(self, keys: SigningKeys) -> None:
        self._signers = [(key, key.scheme.encode() + b",", signer_of(key)) for key in keys.keys]

    def lines(self, identity: str, wall_ms: int, body: bytes) -> bytes:
        r"""The three header fields of an attempt, each ending with ``\r\n``.

        Args:
            identity: Of the delivery: equal for all its attempts.
            wall_ms: Wall clock, milliseconds since 1970.
            body: As it is sent.

        Source:
            Standard Webhooks 1.0, "Signature scheme": the id has no full stop, since that separates
            the parts of the signed content.
        """
        assert identity
        named = identity.replace(".", "-").encode("ascii")
        stamp = b"%d" % (wall_ms // _MS_PER_S)
        content = b"%b.%b.%b" % (named, stamp, body)
        signatures = b" ".join(
            [
                scheme + binascii.b2a_base64(sign(content), newline=False)
                for key, scheme, sign in self._signers
                if not key.ended(wall_ms)
            ]
        )
        return b"webhook-id: %b\r\nwebhook-timestamp: %b\r\nwebhook-signature: %b\r\n" % (
            named,
            stamp,
            signatures,
        )
