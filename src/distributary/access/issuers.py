"""Issuers of bearer tokens, and what the claims of their tokens grant. Pure.

Called by ``tokens``, and by ``server``, which reads them from the settings and passes them to the
receivers as JSON. The operator writes rules; a token that fits none is valid and may do nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from distributary.access.identity import Grant, Identity, IdentityKind, Verb
from distributary.access.wildcards import matches
from distributary.core.tenant import is_namespace

LEEWAY_S_DEFAULT: Final = 30.0
"""Default difference between the issuer's clock and ours, seconds: machines with NTP differ by far
less, virtual machines that were paused by a few seconds."""

ASKED_S_MIN: Final = 30.0
"""Least time between two fetches of an issuer's keys that unknown keys ask for, seconds: whoever
sends tokens can ask."""

NAMESPACES_MAX: Final = 64
"""Most namespaces that are read from a claim: each is one comparison for every request."""


class ClaimRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grant for the tokens whose claims fit.

    Attributes:
        may: The verbs.
        subjects: Patterns of ``sub``, one of which must match; empty: any subject.
        claims: Expected claims, nested as in the token. Each leaf is a pattern, a number, a
            boolean, or a list of them of which one must match. A claim that is an array fits if
            one of its members does.
        namespaces: As in a grant.
        namespaces_claim: Path of the claim that holds further namespaces, a text or an array;
            empty: none. What it holds are names: ``*`` in it is none.
        names: As in a grant.
    """

    may: tuple[Verb, ...]
    subjects: tuple[str, ...] = ()
    claims: dict[str, Any] = {}
    namespaces: tuple[str, ...] = ()
    namespaces_claim: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def fits(self, claims: Mapping[str, Any]) -> bool:
        """Whether *claims*, of a verified token, fit."""
        subject = claims.get("sub")
        if self.subjects and not (
            isinstance(subject, str) and any(matches(each, subject) for each in self.subjects)
        ):
            return False
        return _fits(self.claims, claims)

    def grant(self, claims: Mapping[str, Any]) -> Grant | None:
        """What a verified token with *claims* may do by this rule; None: nothing."""
        if not self.fits(claims):
            return None
        found = claim_at(claims, self.namespaces_claim) if self.namespaces_claim else ()
        named = [found] if isinstance(found, str) else found
        further = named[:NAMESPACES_MAX] if isinstance(named, list) else ()
        valid = (name for name in further if isinstance(name, str) and is_namespace(name))
        namespaces = tuple(dict.fromkeys((*self.namespaces, *valid)))
        return Grant(may=self.may, namespaces=namespaces, names=self.names) if namespaces else None


class Issuer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An issuer whose tokens are accepted.

    Attributes:
        name: For people, unique among issuers.
        url: Its identifier: ``iss`` of its tokens, letter for letter.
        audiences: Names of this server; ``aud`` of a token must hold one, or the audience of a
            Broker or Channel.
        jwks_uri: Where its keys are; None: where its discovery document says.
        algorithms: Allowed values of ``alg``, out of ``jwks.ALGORITHMS``.
        grants: What its tokens may.
        leeway_s: Allowed difference of clocks, seconds.
    """

    name: str
    url: str
    audiences: tuple[str, ...]
    jwks_uri: str | None = None
    algorithms: tuple[str, ...] = ("RS256",)
    grants: tuple[ClaimRule, ...] = ()
    leeway_s: float = LEEWAY_S_DEFAULT

    def identity(self, claims: Mapping[str, Any], until_ms: int) -> Identity:
        """Who shows a verified token with *claims*."""
        subject = claims["sub"]
        grants = (rule.grant(claims) for rule in self.grants)
        return Identity(
            name=f"token:{self.name}:{subject}",
            how=IdentityKind.TOKEN,
            grants=tuple(grant for grant in grants if grant is not None),
            subject=subject,
            until_ms=until_ms,
        )


class IssuerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An issuer, with what is known of its keys: what receivers are told.

    Attributes:
        issuer: As in the settings.
        keys: Its public keys, as JWKs; empty: they are not known.
        fetched_ms: Wall clock at which they were fetched, milliseconds; 0: never.
        asked_ms: Likewise, because a token had shown an unknown key.
    """

    issuer: Issuer
    keys: tuple[dict[str, str], ...] = ()
    fetched_ms: int = 0
    asked_ms: int = 0


def claim_at(claims: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Returns the claim at *path*, names from the outside in; None: there is none."""
    found: Any = claims
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _fits(expected: Any, found: Any) -> bool:
    if isinstance(expected, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _fits(each, found[name]) for name, each in expected.items()
        )
    if isinstance(expected, list | tuple):
        return any(_fits(each, found) for each in expected)
    if isinstance(found, list):
        return any(not isinstance(each, list) and _fits(expected, each) for each in found)
    if isinstance(expected, str):
        return isinstance(found, str) and matches(expected, found)
    return type(found) is type(expected) and bool(found == expected)
