"""``sinkCredential``: validates it, and separates what may be shown from secrets.

Called by ``_parse``. Hides both spellings of the members. No fault repeats a value: a client that
misplaced a secret may have put it anywhere.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from distributary.core.deliver.credential import (
    CREDENTIAL_TYPES,
    SECRET_MEMBERS,
    Credential,
    CredentialType,
)
from distributary.core.protocol import protocols
from distributary.resource import is_loopback, patterns
from distributary.resource.credential_texts import IDENTIFIER, SECRET, TOKEN
from distributary.resource.faults import Faults, one_of
from distributary.resource.rules import ResourceRules
from distributary.resource.schema import Schema, checked
from distributary.resource.times import parse_time_ms
from distributary.resource.uri import check_http_sink

CREDENTIAL_MEMBERS: Final = ("sinkCredential", "sinkcredential")
"""Names of the member: the reference's, and the later spelling."""

TOKEN_TYPE_CHARS_MAX: Final = 64
"""Longest ``accessTokenType``; registered authentication schemes have at most 20 characters."""

CREDENTIAL_SHAPE: Final[dict[CredentialType, dict[str, bool]]] = {
    "PLAIN": {"identifier": True, "secret": True},
    "ACCESSTOKEN": {"accessToken": True, "accessTokenType": True, "accessTokenExpiresUtc": True},
    "REFRESHTOKEN": {
        "accessToken": True,
        "accessTokenType": True,
        "accessTokenExpiresUtc": True,
        "refreshToken": True,
        "refreshTokenEndpoint": False,
    },
}
"""Type -> its members beside ``credentialType``, and whether they are required."""

REFERENCE_SHAPE: Final[dict[CredentialType, dict[str, bool]]] = {
    "PLAIN": {"identifier": True, "secretRef": True},
    "ACCESSTOKEN": {"accessTokenType": True, "secretRef": True},
}
"""The same of a credential that names a secret of its namespace; what it names may change, so it
has no expiry here."""


CREDENTIAL_PROPERTIES: Final[dict[str, Schema]] = {
    "identifier": IDENTIFIER,
    "secret": SECRET,
    "accessToken": TOKEN,
    "accessTokenType": {
        "type": "string",
        "minLength": 1,
        "maxLength": TOKEN_TYPE_CHARS_MAX,
        "pattern": patterns.HTTP_NAME,
        "examples": ["Bearer"],
        "x-expected": "expected a name such as Bearer (a token of RFC 9110)",
    },
    "accessTokenExpiresUtc": {
        "type": "string",
        "format": "date-time",
        "description": "Expiry: the token is not used after this time (RFC 3339).",
    },
    "refreshToken": TOKEN,
    "refreshTokenEndpoint": {
        "$ref": "#/components/schemas/HttpSink",
        "description": "Token endpoint, to refresh the access token; https, or on this machine.",
    },
    "secretRef": {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "minLength": 1,
                "maxLength": 63,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "x-expected": "expected a label of DNS, such as crm-password",
            }
        },
        "required": ["name"],
        "additionalProperties": False,
        "description": "Names a secret that the operator keeps for the namespace.",
    },
}
"""Member -> its schema; what ``credentialType`` allows is in ``CREDENTIAL_SHAPE``."""

_TYPE: Final[Schema] = {"enum": list(CREDENTIAL_TYPES), "x-codes": {"enum": "unknown"}}

_NAMES: Final = {name.lower(): name for name in ("credentialType", *CREDENTIAL_PROPERTIES)}


class ReadCredential(NamedTuple):
    """A credential as read.

    Attributes:
        credential: All of it.
        realized: The part that may be shown, in the names of the reference.
    """

    credential: Credential
    realized: dict[str, Any]


def refuse_credentials(faults: Faults, path: str, value: Mapping[str, Any]) -> None:
    """Note a credential where none is allowed. Never looks at its content."""
    for name in CREDENTIAL_MEMBERS:
        if name in value:
            message = "a credential is for the subscription's own sink alone (decision 10)"
            faults.add(f"{path}.{name}", "unsupported", message)


def read_credential(
    faults: Faults, body: Mapping[str, Any], rules: ResourceRules, *, kept: bool
) -> ReadCredential | None:
    """The credential of the subscription *body*; None where it has none, or with faults noted.

    Args:
        faults: Receives what is wrong.
        body: The whole proposal.
        rules: Where a refresh token may be sent (as events), and the time.
        kept: A credential may omit its secrets, all of them: the stored ones are kept, with every
            required member omitted along with them.

    Source:
        Subscriptions API 3.2.3; decision 10, credentials.
    """
    names = [name for name in CREDENTIAL_MEMBERS if name in body]
    if not names:
        return None
    path = f"$.{names[0]}"
    if len(names) > 1:
        faults.add(f"$.{names[1]}", "conflict", f"{one_of(names)} are the same; give one of them")
        return None
    written = faults.object_at(path, body[names[0]])
    if written is None:
        return None
    return _Reader(faults, path, written, rules, body.get("protocol")).read(kept=kept)


def credential_faults(
    faults: Faults, path: str, type_: CredentialType, elsewhere: str | None = None
) -> None:
    """Note each missing secret; none is stored that may be kept.

    Args:
        faults: Receives them.
        path: Of the credential.
        type_: Its type.
        elsewhere: Why stored secrets may not be kept; None: none are stored.
    """
    for name in SECRET_MEMBERS[type_]:
        if elsewhere is None:
            _missing(faults, f"{path}.{name}", type_)
        else:
            faults.add(f"{path}.{name}", "missing", f"{elsewhere}: send the secrets again")


class _Reader:
    """Reads one credential.

    Args:
        faults: Receives what is wrong.
        path: Of the credential.
        written: The object.
        rules: See ``read_credential``.
        protocol: Of the deliveries; any text where it is faulty.
    """

    def __init__(
        self,
        faults: Faults,
        path: str,
        written: Mapping[str, Any],
        rules: ResourceRules,
        protocol: object,
    ) -> None:
        self._faults = faults
        self._path = path
        self._written = written
        self._rules = rules
        self._protocol = protocol
        self._spelling: dict[str, str] = {}

    def read(self, *, kept: bool) -> ReadCredential | None:
        count_before = len(self._faults.found)
        self._find_members()
        type_ = self._type()
        if type_ is None:
            return None
        self._check_members(type_, kept=kept)
        credential = self._credential(type_)
        self._check_expiry(credential)
        if len(self._faults.found) != count_before:
            return None
        shown = {
            name: self._value(name)
            for name in ("credentialType", *self._shape(type_))
            if name in self._spelling and name not in SECRET_MEMBERS[type_]
        }
        return ReadCredential(credential, shown)

    def _find_members(self) -> None:
        known = {*_NAMES, *_NAMES.values()}
        self._faults.unknown_members(self._path, self._written, sorted(known))
        for name in self._written:
            if name not in known:
                continue
            member = _NAMES[name.lower()]
            if member in self._spelling:
                first = self._spelling[member]
                message = f"{first} and {name} are the same; give one of them"
                self._faults.add(f"{self._path}.{name}", "conflict", message)
            else:
                self._spelling[member] = name

    def _at(self, member: str) -> str:
        return f"{self._path}.{self._spelling.get(member, member)}"

    def _value(self, member: str) -> object:
        return self._written[self._spelling[member]]

    def _type(self) -> CredentialType | None:
        where = self._at("credentialType")
        if "credentialType" not in self._spelling:
            self._faults.add(where, "missing", "a credential names its type")
            return None
        found: CredentialType | None = checked(
            self._faults, where, _TYPE, self._value("credentialType")
        )
        return found

    def _shape(self, type_: CredentialType) -> dict[str, bool]:
        named = "secretRef" in self._spelling and type_ in REFERENCE_SHAPE
        return REFERENCE_SHAPE[type_] if named else CREDENTIAL_SHAPE[type_]

    def _check_members(self, type_: CredentialType, *, kept: bool) -> None:
        """Note missing members, and those of other types."""
        shape = self._shape(type_)
        given = (*SECRET_MEMBERS[type_], "secretRef")
        bare = kept and not any(name in self._spelling for name in given)
        for name, required in shape.items():
            # A kept secret needs its account: the identifier is never omitted.
            required_now = required and (not bare or name == "identifier")
            if required_now and name not in self._spelling:
                _missing(self._faults, self._at(name), type_)
        for name in self._spelling:
            if name not in shape and name != "credentialType":
                message = f"does not apply to the type {type_}; it has {one_of(shape)}"
                self._faults.add(self._at(name), "not-applicable", message)

    def _credential(self, type_: CredentialType) -> Credential:
        found = {name: self._checked(name) for name in self._shape(type_) if name in self._spelling}
        expires = found.get("accessTokenExpiresUtc")
        return Credential(
            type_,
            identifier=found.get("identifier"),
            secret=found.get("secret"),
            access_token=found.get("accessToken"),
            access_token_type=found.get("accessTokenType"),
            access_token_expires_ms=None if expires is None else parse_time_ms(expires),
            refresh_token=found.get("refreshToken"),
            refresh_token_endpoint=found.get("refreshTokenEndpoint"),
            secret_ref=found.get("secretRef"),
        )

    def _checked(self, name: str) -> str | None:
        path, value = self._at(name), self._value(name)
        if name == "refreshTokenEndpoint":
            return self._endpoint(path, value)
        if name == "secretRef":
            named = checked(self._faults, path, CREDENTIAL_PROPERTIES[name], value)
            return named.get("name") if isinstance(named, dict) else None
        text: str | None = checked(self._faults, path, CREDENTIAL_PROPERTIES[name], value)
        if name == "identifier" and ":" in (text or "") and not self._colon_allowed():
            # Basic authentication joins the two with a colon.
            self._faults.add(path, "value", "an identifier has no colon (RFC 7617)")
        return text

    def _colon_allowed(self) -> bool:
        """Whether the protocol sends account name and password as separate fields."""
        return self._protocol in protocols() and self._protocol != "HTTP"

    def _check_expiry(self, credential: Credential) -> None:
        """Note an expired token without a refresh token: it could never be used."""
        if (
            credential.complete
            and not credential.refreshable
            and credential.expired(self._rules.wall_ms())
        ):
            message = "expected a time in the future: without a refresh token nothing is ever sent"
            self._faults.add(self._at("accessTokenExpiresUtc"), "value", message)

    def _endpoint(self, path: str, value: object) -> str | None:
        uri = check_http_sink(self._faults, path, value, self._rules.sinks)
        if (
            uri is not None
            and not uri.lower().startswith("https:")
            and not is_loopback(urlsplit(uri).hostname or "")
        ):
            message = "a refresh token is sent by https alone (http only on this machine)"
            self._faults.add(path, "uri", message)
            return None
        return uri


def _missing(faults: Faults, path: str, type_: CredentialType) -> None:
    faults.add(path, "missing", f"required for the type {type_}")
