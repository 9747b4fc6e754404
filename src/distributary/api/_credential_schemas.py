"""JSON schemas of sink credentials: as a client writes them, and as they are answered."""

from typing import Final

from distributary.api import _patterns
from distributary.api._schema_parts import Schema, closed, ref
from distributary.resource import SECRET_MEMBERS, CredentialType
from distributary.resource import api_subscription as subscription

_TOKEN_SCHEMA: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": subscription.TOKEN_CHARS_MAX,
    "pattern": "^[!-~](?:[ -~]*[!-~])?$",
}

_CREDENTIAL_PROPERTIES: Final[dict[str, Schema]] = {
    "identifier": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.IDENTIFIER_BYTES_MAX,
        "pattern": _patterns.PLAIN_TEXT,
        "description": "Account name; for HTTP without a colon.",
    },
    "secret": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.SECRET_BYTES_MAX,
        "pattern": _patterns.PLAIN_TEXT,
        "description": "Password.",
    },
    "accessToken": _TOKEN_SCHEMA,
    "accessTokenType": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.TOKEN_TYPE_CHARS_MAX,
        "pattern": _patterns.HTTP_NAME,
        "examples": ["Bearer"],
    },
    "accessTokenExpiresUtc": {
        "type": "string",
        "pattern": _patterns.TIME,
        "description": "From then on no request leaves with the token (RFC 3339).",
    },
    "refreshToken": _TOKEN_SCHEMA,
    "refreshTokenEndpoint": ref("HttpSink")
    | {"description": "Trades it; https, or on this machine."},
}


def proposed_credential_schema(*, kept: bool) -> Schema:
    """``sinkCredential`` as a client writes it, in either spelling of each member.

    Args:
        kept: All secrets may be left out where they are stored already (decision 10).
    """
    kinds = [_proposed(type_, bare=False) for type_ in subscription.CREDENTIAL_SHAPE]
    if kept:
        kinds += [_proposed(type_, bare=True) for type_ in subscription.CREDENTIAL_SHAPE]
    return {
        "description": "Authorizes deliveries at the subscription's own sink.",
        "anyOf": kinds,
    }


def _proposed(type_: CredentialType, *, bare: bool) -> Schema:
    """A credential of this type; *bare*: without its secrets, which are stored."""
    properties: dict[str, Schema] = {"credentialType": {"const": type_}}
    required = ["credentialType"]
    for name, is_required in subscription.CREDENTIAL_SHAPE[type_].items():
        secret = name in SECRET_MEMBERS[type_]
        if secret and bare:
            continue
        properties[name] = _CREDENTIAL_PROPERTIES[name] | ({"writeOnly": True} if secret else {})
        if is_required and (not bare or name == "identifier"):
            required.append(name)
    spelled = {
        spelling: schema
        for name, schema in properties.items()
        for spelling in dict.fromkeys((name, name.lower()))
    }
    twice = [name for name in properties if name != name.lower()]
    schema = closed(spelled, required=[name for name in required if name not in twice])
    schema["allOf"] = [
        {"oneOf": [{"required": [name]}, {"required": [name.lower()]}]}
        if name in required
        else {"not": {"required": [name, name.lower()]}}
        for name in twice
    ]
    return schema


def shown_credential_schema() -> Schema:
    """``sinkCredential`` as it is answered: no secrets, in the names of the reference."""
    shown = {
        name: _CREDENTIAL_PROPERTIES[name]
        for type_, shape in subscription.CREDENTIAL_SHAPE.items()
        for name in shape
        if name not in SECRET_MEMBERS[type_]
    }
    kinds: Schema = {"enum": list(subscription.CREDENTIAL_SHAPE)}
    return closed({"credentialType": kinds} | shown, required=("credentialType",)) | {
        "description": "What may be shown of the credential; its secrets never are."
    }
