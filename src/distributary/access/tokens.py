"""Verifies bearer tokens: JSON Web Tokens of issuers that the operator trusts. Pure.

Called for every surface: HTTP's ``Authorization: Bearer`` and OAUTHBEARER of the AMQP port. A token
comes from an attacker until ``verify`` has returned a ``VerifiedToken``; nothing in it is followed
(no ``jku``, ``x5u``, ``jwk`` or ``x5c``), and ``kid`` is compared with the issuer's keys and used
for nothing else.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from distributary.access import audiences, jwks
from distributary.access._compact import TOKEN_BYTES_MAX, Compact, take_apart
from distributary.access.identity import Identity
from distributary.access.issuers import ASKED_S_MIN, Issuer, IssuerRecord

SUBJECT_CHARS_MAX: Final = 1_024
"""Longest ``sub``, characters: it stands in log lines. OpenID Connect allows 255, Kubernetes names
have up to 340."""

AUDIENCES_MAX: Final = 64
"""Audiences of a token that may name a Broker or Channel: each is one comparison for every request.
Of further ones only those that the setting lists count."""

TIME_S_MAX: Final = 1e11
"""No time of a token is as late, seconds since 1970: that is beyond the year 5000."""

_KINDS: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
"""Accepted values of ``typ``, in lower case. Others are tokens for another use (RFC 8725, 3.11),
such as ``logout+jwt``."""


class TokenFault(StrEnum):
    """Why a token is refused: stable names, for people, logs and counts."""

    TOO_LARGE = "token-too-large"
    MALFORMED = "malformed-token"
    ALGORITHM = "algorithm-not-allowed"
    ISSUER = "unknown-issuer"
    KEYS = "issuer-without-keys"
    KEY = "unknown-key"
    SIGNATURE = "bad-signature"
    CLAIMS = "malformed-claims"
    AUDIENCE = "wrong-audience"
    EXPIRED = "expired-token"
    EARLY = "token-not-valid-yet"


ABOUT: Final = {
    TokenFault.TOO_LARGE: f"The token is longer than {TOKEN_BYTES_MAX:,} bytes",
    TokenFault.MALFORMED: "The token is not a signed JSON Web Token in compact form",
    TokenFault.ALGORITHM: "The token is signed with an algorithm that is not allowed here",
    TokenFault.ISSUER: "The token is of an issuer that this server does not trust",
    TokenFault.KEYS: "The token is of an issuer whose keys are not known at present",
    TokenFault.KEY: "The token is signed with a key that its issuer does not publish",
    TokenFault.SIGNATURE: "The signature of the token is not that of its issuer",
    TokenFault.CLAIMS: "A claim of the token is missing or malformed: sub, aud, exp, nbf or iat",
    TokenFault.AUDIENCE: "The token is for another audience",
    TokenFault.EXPIRED: "The token has expired",
    TokenFault.EARLY: "The token is not valid yet",
}
"""A sentence for the sender, without a full stop. Quotes nothing of the token."""


CHEAP: Final = frozenset(
    {
        TokenFault.TOO_LARGE,
        TokenFault.MALFORMED,
        TokenFault.ALGORITHM,
        TokenFault.ISSUER,
        TokenFault.KEYS,
        TokenFault.KEY,
    }
)
"""Faults that are found before the signature is verified: anybody makes such tokens at no cost, and
to refuse one costs no more than any request."""


class Trusted(NamedTuple):
    """An issuer with its keys."""

    issuer: Issuer
    keys: jwks.KeySet


class VerifiedToken(NamedTuple):
    """A token whose signature, audience and times were checked.

    Attributes:
        issuer: Who signed it.
        subject: Its ``sub``: printable, 1 to ``SUBJECT_CHARS_MAX`` characters.
        claims: All its claims.
        until_s: It is valid before this wall clock time, seconds since 1970.
        targets: Brokers and Channels that it is for alone, such as ``brokers/shop/default``; None:
            it is for the whole server.
    """

    issuer: Issuer
    subject: str
    claims: Mapping[str, Any]
    until_s: float
    targets: tuple[str, ...] | None = None


class RefusedToken(NamedTuple):
    """A token that is not accepted.

    Attributes:
        fault: Why.
        issuer: URL of the trusted issuer whose newest keys may change that; None: they cannot.
    """

    fault: TokenFault
    issuer: str | None = None

    @property
    def cheap(self) -> bool:
        """Whether it was refused before its signature was verified."""
        return self.fault in CHEAP

    def __str__(self) -> str:
        """Why, as a sentence without a full stop."""
        return ABOUT[self.fault]


class TokenVerifier:
    """Finds out who shows a token.

    Args:
        records: The trusted issuers, with their keys.
    """

    def __init__(self, records: Iterable[IssuerRecord]) -> None:
        self._records = {record.issuer.url: record for record in records}
        self._trusted = {
            url: Trusted(record.issuer, jwks.key_set(record.keys))
            for url, record in self._records.items()
        }

    def identity(self, token: bytes, now_ms: int) -> Identity | RefusedToken:
        """Who shows *token*; any bytes give one of the two.

        Args:
            token: What stands behind ``Bearer``.
            now_ms: Wall clock, milliseconds since 1970.
        """
        found = verify(token, self._trusted, now_ms / 1000)
        if isinstance(found, RefusedToken):
            return found
        identity = found.issuer.identity(found.claims, int(found.until_s * 1000))
        if found.targets is None:
            return identity
        grants = audiences.narrowed(identity, found.targets)
        return msgspec.structs.replace(identity, grants=grants)

    def is_for_now(self, refused: RefusedToken, now_ms: int) -> bool:
        """Whether the same token may be accepted in a moment, when newer keys have been fetched.

        False where they were fetched for such a token a moment ago: then the key is none.
        """
        if refused.issuer is None:
            return False
        asked_ms = self._records[refused.issuer].asked_ms
        return refused.fault is TokenFault.KEYS or now_ms - asked_ms > ASKED_S_MIN * 1000


def verify(
    token: bytes, trusted: Mapping[str, Trusted], now_s: float
) -> VerifiedToken | RefusedToken:
    """Verify *token*; any bytes give one of the two.

    Args:
        token: What stands behind ``Bearer``.
        trusted: Issuers by their URL.
        now_s: Wall clock, seconds since 1970.

    Source:
        RFC 7519, section 7.2; RFC 8725, sections 3.1 to 3.12; RFC 9068, section 4.
    """
    parts = _parts(token)
    if isinstance(parts, RefusedToken):
        return parts
    url = parts.claims.get("iss")  # chooses the issuer, and so the keys; not believed before
    one = trusted.get(url) if isinstance(url, str) else None
    if one is None:
        return RefusedToken(TokenFault.ISSUER)
    refused = _refused_signature(parts, one)
    if refused is not None:
        return refused
    claims, issuer = parts.claims, one.issuer
    meant = _meant(claims, issuer)
    fault = (
        _subject_fault(claims)
        or (meant if isinstance(meant, TokenFault) else None)
        or _time_fault(claims, issuer, now_s)
    )
    if fault is not None:
        return RefusedToken(fault)
    assert not isinstance(meant, TokenFault)
    return VerifiedToken(issuer, claims["sub"], claims, claims["exp"] + issuer.leeway_s, meant)


def _parts(token: bytes) -> Compact | RefusedToken:
    if len(token) > TOKEN_BYTES_MAX:
        return RefusedToken(TokenFault.TOO_LARGE)
    parts = take_apart(token)
    if parts is None:
        return RefusedToken(TokenFault.MALFORMED)
    fault = _header_fault(parts.header)
    return parts if fault is None else RefusedToken(fault)


def _header_fault(header: Mapping[str, Any]) -> TokenFault | None:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in jwks.ALGORITHMS:
        return TokenFault.ALGORITHM
    # No extension is understood here, so none can be critical (RFC 7515, section 4.1.11); b64
    # changes what is signed.
    if "crit" in header or "b64" in header:
        return TokenFault.MALFORMED
    kind = header.get("typ", "jwt")
    if not isinstance(kind, str) or kind.lower() not in _KINDS:
        return TokenFault.MALFORMED
    key_id = header.get("kid")
    return None if key_id is None or isinstance(key_id, str) else TokenFault.MALFORMED


def _refused_signature(parts: Compact, one: Trusted) -> RefusedToken | None:
    algorithm, key_id = parts.header["alg"], parts.header.get("kid")
    if algorithm not in one.issuer.algorithms:
        return RefusedToken(TokenFault.ALGORITHM)
    if not one.keys.keys:
        return RefusedToken(TokenFault.KEYS, one.issuer.url)
    key = one.keys.find(key_id, algorithm)
    if key is None:
        # A known key of another type is no reason to fetch anew.
        known = key_id is not None and one.keys.knows(key_id)
        return RefusedToken(TokenFault.KEY, None if known else one.issuer.url)
    if not jwks.is_signed(key, algorithm, parts.signed, parts.signature):
        return RefusedToken(TokenFault.SIGNATURE)
    return None


def _subject_fault(claims: Mapping[str, Any]) -> TokenFault | None:
    subject = claims.get("sub")
    usable = (
        isinstance(subject, str) and 0 < len(subject) <= SUBJECT_CHARS_MAX and subject.isprintable()
    )
    return None if usable else TokenFault.CLAIMS


def _meant(claims: Mapping[str, Any], issuer: Issuer) -> tuple[str, ...] | TokenFault | None:
    """For which Brokers and Channels the token is; None: for the whole server.

    The audience of a Broker or Channel, as its address shows it, needs no setting: a token that has
    no other audience of ours counts there alone, also where the setting lists it.
    """
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list):
        return TokenFault.CLAIMS
    texts = [each for each in named if isinstance(each, str)]
    if any(each in issuer.audiences and audiences.target_of(each) is None for each in texts):
        return None
    targets = map(audiences.target_of, texts[:AUDIENCES_MAX])
    return tuple(target for target in targets if target) or TokenFault.AUDIENCE


def _time_fault(claims: Mapping[str, Any], issuer: Issuer, now_s: float) -> TokenFault | None:
    begins = [claims[name] for name in ("nbf", "iat") if name in claims]
    if not all(map(_is_time, (claims.get("exp"), *begins))):
        return TokenFault.CLAIMS
    if now_s >= claims["exp"] + issuer.leeway_s:
        return TokenFault.EXPIRED
    if any(now_s < begin - issuer.leeway_s for begin in begins):
        return TokenFault.EARLY
    return None


def _is_time(value: Any) -> bool:
    """Whether *value* is a NumericDate (RFC 7519, section 2)."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < TIME_S_MAX
