"""Reads the public keys of an issuer (JWK sets), and verifies signatures with them. Pure.

Called by ``tokens``, and by ``server``, which fetches the sets. Hides PyJWT, of which only the
algorithms are used: they bind ``cryptography`` to the names and key forms of JOSE. Which key and
which algorithm count is decided here and in ``tokens``.

Importing this module imports PyJWT (50 ms): whoever has no issuer does without.
"""

import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from distributary.core.errors import ResourceError
from distributary.resource import decode_json

KEYS_MAX: Final = 100
"""Most keys of one issuer that are read. Large ones publish three to ten."""

KEY_ID_CHARS_MAX: Final = 256
"""Longest ``kid``, characters: most are hashes of 20 to 64. Longer ones are no keys of ours."""

RSA_BITS_MIN: Final = 2_048
"""Shortest RSA key, bits (RFC 7518, section 3.3)."""

RSA_BITS_MAX: Final = 8_192
"""Longest RSA key, bits: the time to verify grows with the square."""

RSA_EXPONENT_BITS_MAX: Final = 32
"""Longest public exponent of an RSA key, bits: the time to verify grows with it, from
0.03 to 4.6 ms a token for 3,072 bits. Issuers use 65537, and Go reads no more than 31 bits."""

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}

ALGORITHMS: Final = (*_RSA, *_CURVES.values(), "EdDSA")
"""Signatures that can be allowed: those with public keys. ``none`` and the ``HS`` family, whose
key is a secret shared with the issuer, never."""

_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""Members that make a public key, by type; private ones, published by mistake, are not read."""

_verifiers: Final = {name: jwt.get_algorithm_by_name(name) for name in ALGORITHMS}


class PublicKey(NamedTuple):
    """A key of an issuer.

    Attributes:
        key_id: Its ``kid``; None: it has none.
        fits: Algorithms whose signatures it can verify.
        jwk: Its public members, as JSON has them.
        key: For ``verify``.
    """

    key_id: str | None
    fits: tuple[str, ...]
    jwk: Mapping[str, str]
    key: Any


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of one issuer.

    Attributes:
        keys: The usable ones, in the order of the set.
        left_out: ``kid`` of each other one; None: it has none that can be one.
    """

    keys: tuple[PublicKey, ...] = ()
    left_out: tuple[str | None, ...] = ()

    def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """Returns the key for a token; None: there is none, or more than one.

        Args:
            key_id: The token's ``kid``, compared with those of the set and used for nothing else.
                None: the only key that fits.
            algorithm: The token's ``alg``.
        """
        named = (key for key in self.keys if key_id is None or key.key_id == key_id)
        found = [key for key in named if algorithm in key.fits]
        return found[0] if len(found) == 1 else None

    def knows(self, key_id: str | None) -> bool:
        """Whether a key has this ``kid``."""
        return any(key.key_id == key_id for key in self.keys)


def read_keys(body: bytes) -> KeySet | None:
    """Returns the usable keys of a JWK set; None: *body* is no JWK set.

    Keys of other types and uses, too weak ones and malformed ones are left out: a set may hold
    them beside those that sign tokens.

    Args:
        body: Any bytes, whose number the caller bounds.

    Source:
        RFC 7517, section 5; RFC 7518, section 6; RFC 8037, section 2.
    """
    try:
        found = decode_json(body)
    except ResourceError:
        return None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list) or len(keys) > KEYS_MAX:
        return None
    return key_set(keys)


def key_set(jwks: Iterable[object]) -> KeySet:
    """Returns the keys that *jwks*, JWKs as JSON has them, hold."""
    read = [(jwk, _public_key(jwk)) for jwk in jwks]
    return KeySet(
        tuple(key for _jwk, key in read if key is not None),
        tuple(_named(jwk) for jwk, key in read if key is None),
    )


def is_signed(key: PublicKey, algorithm: str, signed: bytes, signature: bytes) -> bool:
    """Whether *signature* is that of *key* over *signed*; *algorithm* is one that the key fits."""
    assert algorithm in key.fits
    return _verifiers[algorithm].verify(signed, key.key, signature)


def _public_key(jwk: object) -> PublicKey | None:
    if not isinstance(jwk, dict) or not _is_for_signatures(jwk):
        return None
    kind, key_id = jwk.get("kty"), jwk.get("kid")
    if not isinstance(kind, str) or kind not in _MEMBERS or not _is_key_id(key_id):
        return None
    members = {name: jwk.get(name) for name in _MEMBERS[kind]}
    fits = _fitting(kind, jwk.get("crv"), jwk.get("alg"))
    if not fits or not all(isinstance(value, str) for value in members.values()):
        return None
    kept: dict[str, Any] = {"kty": kind, **members}
    key = _loaded(fits[0], kept)
    if key_id is not None:
        kept["kid"] = key_id
    if len(fits) == 1:
        kept["alg"] = fits[0]
    return None if key is None else PublicKey(key_id, fits, kept, key)


def _is_for_signatures(jwk: Mapping[str, Any]) -> bool:
    operations = jwk.get("key_ops", ["verify"])
    return (
        jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    )


def _is_key_id(value: object) -> bool:
    return value is None or (isinstance(value, str) and 0 < len(value) <= KEY_ID_CHARS_MAX)


def _named(jwk: object) -> str | None:
    name = jwk.get("kid") if isinstance(jwk, dict) else None
    return name if isinstance(name, str) and _is_key_id(name) else None


def _fitting(kind: str, curve: object, named: object) -> tuple[str, ...]:
    """Algorithms of a key: by its type and curve, and no other than the one that it names."""
    fits: tuple[str, ...] = _RSA
    if kind == "EC":
        fits = (_CURVES[curve],) if isinstance(curve, str) and curve in _CURVES else ()
    elif kind == "OKP":
        fits = ("EdDSA",) if curve == "Ed25519" else ()
    return fits if named is None else tuple(name for name in fits if name == named)


def _loaded(algorithm: str, jwk: dict[str, Any]) -> Any:
    try:
        key = _verifiers[algorithm].from_jwk(jwk)
    except (jwt.PyJWTError, binascii.Error, ValueError, TypeError, OverflowError):
        return None
    return None if isinstance(key, RSAPublicKey) and not _is_cheap_and_strong(key) else key


def _is_cheap_and_strong(key: RSAPublicKey) -> bool:
    exponent = key.public_numbers().e
    return (
        RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX
        and exponent.bit_length() <= RSA_EXPONENT_BITS_MAX
    )
