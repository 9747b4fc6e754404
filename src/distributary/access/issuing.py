"""Tokens by which this server shows others who delivers, and the documents that verify them. Pure.

A token is a JWT (RFC 7519) for one audience, as Kubernetes issues them for service accounts. Who
receives one verifies it by the published keys, which the document of the issuer names. Called by
``partitions``, which signs, and by ``server``, which publishes.

Importing this module imports PyJWT (50 ms): who has no key does without.

Source:
    OpenID Connect Discovery 1.0, section 3; RFC 7517; RFC 7638 (the ``kid``); Knative Eventing,
    "Sender identity".
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from distributary.access.jwks import RSA_BITS_MAX, RSA_BITS_MIN
from distributary.core.errors import SettingsError

TOKEN_S: Final = 3600
"""Life of a token, seconds: as of the tokens that Knative requests."""

RENEW_S: Final = TOKEN_S * 3 // 4
"""Age at which a token is replaced, seconds: what is left outlasts an outage of the key's file."""

KEYS_MAX: Final = 10
"""Most private keys: one signs, and the others are on their way in or out."""

_BLOCK: Final = re.compile(
    rb"-----BEGIN ([A-Z0-9 ]{0,40})PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL
)
_MEMBERS: Final = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y")}
_MEMBERS_OKP: Final = ("crv", "kty", "x")
_EXPECTED: Final = (
    f"expected an RSA key of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, an EC key of the curve P-256,"
    " or an Ed25519 key, in PEM and without a password"
)


@dataclass(frozen=True, slots=True)
class IssuingKey:
    """A private key that signs tokens.

    Attributes:
        key_id: Its ``kid``: the thumbprint of the public key.
        algorithm: As JOSE names it.
        jwk: The public key, as JSON has it.
        private: Left out of the ``repr``.
    """

    key_id: str
    algorithm: str
    jwk: dict[str, str]
    private: Any = field(repr=False)

    def token(self, issuer: str, subject: str, audience: str, now_s: int) -> str:
        """A token of *issuer* for *audience*, which says that *subject* delivers.

        Args:
            issuer: URL of the issuer.
            subject: Who delivers.
            audience: For whom it is.
            now_s: Seconds since 1970; it expires ``TOKEN_S`` later.
        """
        claims = {
            "iss": issuer,
            "sub": subject,
            "aud": [audience],
            "iat": now_s,
            "exp": now_s + TOKEN_S,
        }
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.key_id})


def read_private_keys(pem: bytes, source: str) -> tuple[IssuingKey, ...]:
    """The keys in *pem*, in their order: the first signs.

    Args:
        pem: Any bytes, whose number the caller bounds.
        source: Where they are from, for the message.

    Raises:
        SettingsError: A key cannot be used, or there is none, or more than ``KEYS_MAX``. The
            message has a line for each fault, and nothing of the keys.
    """
    blocks = [found[0] for found in _BLOCK.finditer(pem)]
    if not 1 <= len(blocks) <= KEYS_MAX:
        raise SettingsError(f"{source}: expected 1 to {KEYS_MAX} private keys; got {len(blocks)}")
    keys = [_key(block) for block in blocks]
    faults = [f"{source}: key {at}: {_EXPECTED}" for at, key in enumerate(keys, 1) if key is None]
    if faults:
        raise SettingsError("\n".join(faults))
    found = tuple(key for key in keys if key is not None)
    if len({key.key_id for key in found}) < len(found):
        raise SettingsError(f"{source}: it has a key twice")
    return found


def issuer_document(issuer: str, jwks_uri: str, keys: Iterable[IssuingKey]) -> bytes:
    """The document about *issuer*, whose keys are at *jwks_uri*, as JSON."""
    algorithms = sorted({key.algorithm for key in keys})
    return _json(
        {
            "issuer": issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }
    )


def keys_document(keys: Iterable[IssuingKey]) -> bytes:
    """The JWK set of *keys*, as JSON: their public parts alone."""
    return _json(
        {
            "keys": [
                {**key.jwk, "kid": key.key_id, "alg": key.algorithm, "use": "sig"} for key in keys
            ]
        }
    )


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _key(block: bytes) -> IssuingKey | None:
    try:
        private = load_pem_private_key(block, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None  # what they say may quote the key
    algorithm = _algorithm(private)
    if algorithm is None:
        return None
    public = private.public_key()
    full: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(public, as_dict=True)
    jwk = {name: str(full[name]) for name in _MEMBERS.get(full["kty"], _MEMBERS_OKP)}
    digest = hashlib.sha256(json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode())
    key_id = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    return IssuingKey(key_id, algorithm, jwk, private)


def _algorithm(private: object) -> str | None:
    if isinstance(private, RSAPrivateKey):
        return "RS256" if RSA_BITS_MIN <= private.key_size <= RSA_BITS_MAX else None
    if isinstance(private, EllipticCurvePrivateKey):
        return "ES256" if isinstance(private.curve, SECP256R1) else None
    return "EdDSA" if isinstance(private, Ed25519PrivateKey) else None
