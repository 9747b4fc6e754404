"""Identities, their grants, and the questions that are asked of them."""

import enum
import json
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

ALL_NAMESPACES: Final = "*"
"""Namespace of what concerns all of them; in a grant: each."""


class Verb(enum.StrEnum):
    """What an identity may do."""

    PUBLISH = "publish"
    """Send events to Brokers and Channels."""
    READ = "read"
    """Get, list and watch subscriptions, resources, dead letters and history; no secrets."""
    WRITE = "write"
    """Change them; includes ``READ``."""
    OBSERVE = "observe"
    """Read metrics of a namespace; in all: of the whole server, and why it is not ready."""
    ADMIN = "admin"
    """Make and revoke keys; includes all others."""


INCLUDES: Final = {
    Verb.PUBLISH: frozenset((Verb.PUBLISH,)),
    Verb.READ: frozenset((Verb.READ,)),
    Verb.WRITE: frozenset((Verb.READ, Verb.WRITE)),
    Verb.OBSERVE: frozenset((Verb.OBSERVE,)),
    Verb.ADMIN: frozenset(Verb),
}
"""What each verb allows."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What an identity may do, and where.

    Attributes:
        may: The verbs.
        namespaces: Names of namespaces; ``*``: all, and what concerns all of them.
        names: Brokers and Channels that ``publish`` is limited to, such as ``brokers/default``;
            empty: all.
    """

    may: tuple[Verb, ...]
    namespaces: tuple[str, ...]
    names: tuple[str, ...] = ()

    def allows(self, permission: "Permission") -> bool:
        """Whether this grant alone allows *permission*."""
        namespaces, asked = self.namespaces, permission.namespace
        if asked is not None and asked not in namespaces and ALL_NAMESPACES not in namespaces:
            return False
        if not any(permission.verb in INCLUDES[verb] for verb in self.may):
            return False
        return not (
            self.names and permission.verb is Verb.PUBLISH and permission.name not in self.names
        )


class Permission(NamedTuple):
    """The right to do one thing in one place, as a request needs it.

    Attributes:
        verb: What it does.
        namespace: Where; ``*``: in all namespaces; None: in any one of them.
        name: Broker or Channel that it publishes to, such as ``brokers/default``; else empty.
    """

    verb: Verb
    namespace: str | None
    name: str = ""

    @property
    def target(self) -> str:
        """What it publishes to, with its namespace: ``brokers/shop/default``."""
        kind, _, name = self.name.partition("/")
        return f"{kind}/{self.namespace}/{name}"

    def __str__(self) -> str:
        """The permission for people: ``publish to brokers/default in namespace shop``."""
        where = "all namespaces"
        if self.namespace is None:
            where = "any namespace"
        elif self.namespace != ALL_NAMESPACES:
            where = f"namespace {self.namespace}"
        verb = "administer keys" if self.verb is Verb.ADMIN else self.verb
        return f"{verb} to {self.name} in {where}" if self.name else f"{verb} in {where}"


class IdentityKind(enum.StrEnum):
    """What shows who a client is."""

    NONE = "none"
    """Nothing: authentication is off."""
    LOCAL = "local"
    """The server itself, or who runs it: the sockets in the data directory are private."""
    KEY = "key"
    TOKEN = "token"  # noqa: S105 - a kind of identity, no secret
    CERTIFICATE = "certificate"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request.

    Attributes:
        name: For people and the audit log, such as ``key:till``; unique.
        how: What showed it.
        grants: What it may do; any of them suffices.
        subject: For patterns of Knative's ``EventPolicy``: the ``sub`` of a token, the name of a
            key or certificate.
        until_ms: Wall-clock time at which it ends, in milliseconds; None: with what showed it.
    """

    name: str
    how: IdentityKind
    grants: tuple[Grant, ...]
    subject: str = ""
    until_ms: int | None = None

    def may(self, permission: Permission) -> bool:
        """Whether *permission* is allowed."""
        return any(grant.allows(permission) for grant in self.grants)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces in which it may do anything, in order; ``*`` alone: all."""
        names = {name for grant in self.grants for name in grant.namespaces}
        return (ALL_NAMESPACES,) if ALL_NAMESPACES in names else tuple(sorted(names))

    def where(self, verb: Verb) -> frozenset[str] | None:
        """Namespaces in which it may do *verb* to everything; None: in all."""
        asked = Permission(verb, None)
        each = (grant.namespaces for grant in self.grants if grant.allows(asked))
        names = frozenset(name for named in each for name in named)
        return None if ALL_NAMESPACES in names else names

    @property
    def tenant(self) -> str | None:
        """The only namespace in which it may do anything; None: it may in several, or in none."""
        first, *others = self.namespaces or (ALL_NAMESPACES,)
        return None if others or first == ALL_NAMESPACES else first

    @property
    def holder(self) -> str:
        """Whose share it takes of places that tenants share: see ``shares``.

        The namespaces in which it may do anything, with commas: whoever acts in the same ones takes
        from one share, however many keys or tokens there are. Empty: it may in all, or in none.
        """
        names = self.namespaces
        return "" if ALL_NAMESPACES in names else ",".join(names)


_EVERYTHING: Final = (Grant(may=(Verb.ADMIN,), namespaces=(ALL_NAMESPACES,)),)

ANYBODY: Final = Identity(name="anybody", how=IdentityKind.NONE, grants=_EVERYTHING)
"""Who sends a request while authentication is off."""

NOBODY: Final = Identity(name="nobody", how=IdentityKind.NONE, grants=())
"""Who sends a request to a path that needs no identity, and shows none."""

LOCAL: Final = Identity(name="local", how=IdentityKind.LOCAL, grants=_EVERYTHING)
"""Who uses a private socket of the data directory."""


IDENTITY_FIELD: Final = b"x-distributary-identity"
"""Header field in which a receiver tells the control process who sends a request. Receivers drop
what clients send under this name; the socket between the two is private."""


def encode_identity(identity: Identity) -> bytes:
    """*identity* as a header value: JSON in ASCII. Receivers send it to the control process."""
    return json.dumps(msgspec.to_builtins(identity), separators=(",", ":")).encode("ascii")


def decode_identity(value: bytes) -> Identity:
    """The identity in *value*, made by ``encode_identity``.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: It is none.
    """
    return msgspec.json.decode(value, type=Identity)


def sender_of(headers: Iterable[tuple[bytes, bytes]]) -> Identity:
    """Who sent a request that reached the control process, by its header fields.

    A request that passed no receiver came by the private socket: ``LOCAL``.
    """
    told = [value for name, value in headers if name == IDENTITY_FIELD]
    if not told:
        return LOCAL
    # Receivers set the field once, and drop what clients send under its name.
    assert len(told) == 1
    return decode_identity(told[0])
