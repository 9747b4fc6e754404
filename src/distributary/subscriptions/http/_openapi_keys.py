"""The API description of API keys, and of what the sender of a request may do."""

from typing import Any, Final

from distributary.access import IdentityKind, Verb, spelling
from distributary.resource import Schema, closed, ref
from distributary.subscriptions.api_keys import GRANT, KEY_ID, KEY_NAME, PROPOSAL
from distributary.subscriptions.http._openapi_parts import (
    TEXT,
    TIME,
    Node,
    answer,
    header,
    json_content,
    operation,
    parameter,
    problems,
)

_TAG: Final = "access"
_PLACED: Final = "subscriptions|dead-letters|brokers|channels|triggers|events|history|keys|metrics"

QUESTION: Final[dict[str, Schema]] = {
    "verb": {"enum": list(Verb)},
    "resource": {
        "type": "string",
        "pattern": (
            f"^(?:{_PLACED}|(?:brokers|channels)/{spelling.NAMESPACE}/"
            f"{spelling.TARGET.partition('/')[2]})$"
        ),
        "x-expected": "expected one of "
        f"{_PLACED.replace('|', ', ')}; or a Broker or Channel such as brokers/shop/default",
    },
    "namespace": {
        "type": "string",
        "pattern": rf"^(?:{spelling.NAMESPACE}|\*)$",
        "x-expected": "expected the name of a namespace, or * for all",
    },
}
"""Parameters of ``/can``."""

_KEY: Final[dict[str, Schema]] = {
    "id": KEY_ID,
    "name": KEY_NAME,
    **GRANT,
    "created": TIME,
    "createdby": TEXT | {"description": "Name of the identity that made it."},
    "configured": {"const": True, "description": "It stands in the configuration file."},
    "expires": TIME,
    "lastused": TIME
    | {
        "description": "The minute of its last use; some minutes late. Of several nodes, at the"
        " one that led then."
    },
}
_KEY_REQUIRED: Final = ("id", "name", "may", "namespaces")

KEY_SCHEMAS: Final[dict[str, Schema]] = {
    "KeyProposal": PROPOSAL,
    "Key": closed(_KEY, required=_KEY_REQUIRED),
    "NewKey": closed(
        _KEY | {"key": TEXT | {"description": "The whole key. Nothing shows it again."}},
        required=(*_KEY_REQUIRED, "key"),
    ),
    "Identity": closed(
        {
            "name": TEXT,
            "how": {"enum": list(IdentityKind), "description": "What showed it."},
            "subject": TEXT,
            "namespaces": {"type": "array", "items": TEXT},
            "grants": {
                "type": "array",
                "items": closed(GRANT, required=["may", "namespaces"]),
            },
            "until": TIME | {"description": "When what showed it ends."},
        },
        required=["name", "how", "namespaces", "grants"],
    ),
    "Answer": closed(
        {
            "allowed": {"type": "boolean"},
            "name": TEXT | {"description": "Who asked."},
            "missing": TEXT | {"description": "What would be needed."},
            "reason": TEXT | {"description": "Which other rule refuses it: an EventPolicy."},
            "filteredby": {
                "type": "array",
                "items": TEXT,
                "description": "EventPolicies: each event must pass the filters of one of them.",
            },
        },
        required=["allowed", "name"],
    ),
}


def _asked(name: str, text: str, *, required: bool = True) -> dict[str, Any]:
    return parameter(name, "query", text, QUESTION[name]) | {"required": required}


def key_paths() -> dict[str, Node]:
    """The paths."""
    keys: Schema = {"type": "array", "items": ref("Key")}
    location = {"Location": header("Path of the key.")}
    return {
        "/keys": {
            "get": operation(
                "listKeys",
                _TAG,
                "List the API keys of the namespaces that you administer, by name.",
                {"200": answer("The keys.", json_content(keys))} | problems("store-failed"),
            ),
            "post": operation(
                "createKey",
                _TAG,
                "Make an API key that allows no more than you may do yourself.",
                {"201": answer("The key: keep it.", json_content("NewKey"), location)}
                | problems(
                    "invalid", "unsupported-media-type", "forbidden", "conflict", "store-failed"
                ),
                requestBody={"required": True, "content": json_content("KeyProposal")},
            ),
        },
        "/keys/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": KEY_ID}],
            "get": operation(
                "retrieveKey",
                _TAG,
                "Read an API key, without its text.",
                {"200": answer("The key.", json_content("Key"))}
                | problems("notfound", "store-failed"),
            ),
            "delete": operation(
                "revokeKey",
                _TAG,
                "Revoke an API key. It is refused within a second.",
                {"200": answer("Its last state.", json_content("Key"))}
                | problems("notfound", "conflict", "store-failed"),
            ),
        },
        "/whoami": {
            "get": operation(
                "whoami",
                _TAG,
                "Tell who sends the request, and what they may do.",
                {"200": answer("The identity.", json_content("Identity"))} | problems(),
            )
        },
        "/can": {
            "get": operation(
                "can",
                _TAG,
                "Tell whether the sender of the request may do something.",
                {"200": answer("Whether.", json_content("Answer"))} | problems("invalid"),
                parameters=[
                    _asked("verb", "What."),
                    _asked("resource", "To what."),
                    _asked(
                        "namespace",
                        "Where, if the resource does not say: * is all; default: `default`.",
                        required=False,
                    ),
                ],
            )
        },
    }
