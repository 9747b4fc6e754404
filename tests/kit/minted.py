"""Tokens as issuers mint them, and as attackers do. Callers: tests and benchmarks."""

import base64
import functools
import json
from typing import Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

URL: Final = "https://login.example.com/realms/shop"
"""The issuer's identifier."""

AUDIENCE: Final = "https://events.example.com"
"""This server, as the issuer knows it."""

NOW_S: Final = 1_900_000_000.0
"""When the tokens are shown, seconds since 1970."""

_CURVES: Final[dict[str, ec.EllipticCurve]] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}


def encode(raw: bytes) -> bytes:
    """*raw* as one part of a token."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def decode(part: bytes) -> bytes:
    """The bytes behind one *part* of a token."""
    return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))


class SigningKey(NamedTuple):
    """A private key of an issuer.

    Attributes:
        algorithm: Of its signatures.
        key_id: Its ``kid``.
        private: For ``cryptography``.
    """

    algorithm: str
    key_id: str
    private: Any

    def jwk(self, **more: object) -> dict[str, Any]:
        """The public half, as issuers publish it."""
        signs = jwt.get_algorithm_by_name(self.algorithm)
        public = signs.to_jwk(self.private.public_key(), as_dict=True)
        public.pop("key_ops", None)
        return {**public, "kid": self.key_id, "use": "sig", "alg": self.algorithm, **more}

    def sign(self, signed: bytes) -> bytes:
        """The signature over *signed*."""
        return jwt.get_algorithm_by_name(self.algorithm).sign(signed, self.private)

    def mint(self, claims: dict[str, Any] | bytes, header: dict[str, Any] | None = None) -> bytes:
        """A token of *claims* (an object, or bytes as they are).

        Args:
            claims: The claims set.
            header: Members besides ``alg``, ``kid`` and ``typ``; None as a value removes one.
        """
        whole = {"alg": self.algorithm, "kid": self.key_id, "typ": "JWT", **(header or {})}
        kept = {name: value for name, value in whole.items() if value is not None}
        body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        signed = encode(json.dumps(kept).encode()) + b"." + encode(body)
        return signed + b"." + encode(self.sign(signed))


@functools.cache
def signing_key(algorithm: str = "ES256", key_id: str = "one", bits: int = 2048) -> SigningKey:
    """A key, made once for each set of arguments in a process (RSA takes a while)."""
    private: Any
    if algorithm in _CURVES:
        private = ec.generate_private_key(_CURVES[algorithm])
    elif algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
    else:
        private = rsa.generate_private_key(65_537, bits)
    return SigningKey(algorithm, key_id, private)


def claims_of(**changed: object) -> dict[str, Any]:
    """Valid claims at ``NOW_S``, with changes; None as a value removes one."""
    usual = {
        "iss": URL,
        "aud": AUDIENCE,
        "sub": "system:serviceaccount:shop:till",
        "iat": int(NOW_S) - 60,
        "exp": int(NOW_S) + 3_600,
    }
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}
