"""Tokens by which the server publishes at its own receiver: replies, sources, sinks of its own.

A token names the namespace on whose behalf something is published, and is signed by a key of the
data directory. It may publish in that namespace and nowhere else: a reply or a reference reaches
another tenant's Broker only if that tenant lets it. Receivers know the public key alone.
"""

import base64
import binascii
import re
from typing import Final

from distributary.access.identity import Grant, Identity, IdentityKind, Verb
from distributary.core.tenant import NAMESPACE_PATTERN

SEED_BYTES: Final = 32
"""Size of the private key (RFC 8032 section 5.1.5)."""

PREFIX: Final = "di_"

_TOKEN: Final = re.compile(rf"di_({NAMESPACE_PATTERN})_([A-Za-z0-9_-]{{86}})")
_PURPOSE: Final = b"distributary: publish in namespace "
"""Begins every signed text: the key signs nothing else, and nothing of this form."""


class InternalKey:
    """The private key of a server, which makes tokens.

    Args:
        seed: ``SEED_BYTES`` random bytes.
    """

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - see below

        self._private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        self._tokens: dict[str, str] = {}

    @property
    def public(self) -> str:
        """What receivers know: the public key in hexadecimal digits."""
        return self._private.public_key().public_bytes_raw().hex()

    def token(self, namespace: str) -> str:
        """The token of *namespace*; always the same."""
        found = self._tokens.get(namespace)
        if found is None:
            signature = self._private.sign(_PURPOSE + namespace.encode())
            found = self._tokens[namespace] = f"{PREFIX}{namespace}_{_encoded(signature)}"
        return found


def _encoded(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).decode("ascii").rstrip("=")


def holder_of_token(text: str, public: str) -> Identity | None:
    """Who shows the token *text*, by the *public* key; None: it is no token of this server."""
    # Client commands read the settings of keys, and have no cryptography.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - see above

    parsed = _TOKEN.fullmatch(text)
    if parsed is None or not public:
        return None
    namespace = parsed[1]
    try:
        signature = base64.urlsafe_b64decode(parsed[2] + "==")
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(signature, _PURPOSE + namespace.encode())
    except (binascii.Error, ValueError, InvalidSignature):
        return None
    if _encoded(signature) != parsed[2]:  # the last digit has bits that mean nothing
        return None
    return publisher_for(namespace)


def publisher_for(namespace: str) -> Identity:
    """Who publishes where the server itself delivers on behalf of *namespace*."""
    return Identity(
        name=f"server:{namespace}",
        how=IdentityKind.LOCAL,
        grants=(Grant(may=(Verb.PUBLISH,), namespaces=(namespace,)),),
        subject=f"system:namespace:{namespace}",
    )
