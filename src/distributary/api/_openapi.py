"""The API description (OpenAPI 3.1) of everything that the port answers."""

from typing import Any, Final

from distributary import __version__
from distributary.api._schemas import SCHEMAS
from distributary.control import PAGE_MAX
from distributary.errors import CATALOGUE

Node = dict[str, Any]

_ETAG: Final[Node] = {
    "ETag": {"schema": {"type": "string"}, "description": "Changes with every revision."}
}
_LOCATION: Final[Node] = {"Location": {"schema": {"type": "string", "format": "uri-reference"}}}

_ID: Final[Node] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
}


def _header(name: str, text: str) -> Node:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": text}


_IF_MATCH = _header("If-Match", "Only if the subscription stands with this entity tag.")
_IF_ABSENT = _header("If-None-Match", "With *: only if there is none of this id.")
_IF_CHANGED = _header("If-None-Match", "Answer 304 if it still has this entity tag.")


def _json(schema: str | Node) -> Node:
    node = {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
    return {"application/json": {"schema": node}}


def _ok(text: str, schema: str | Node | None = None, headers: Node | None = None) -> Node:
    node: Node = {"description": text}
    if schema is not None:
        node["content"] = _json(schema)
    if headers:
        node["headers"] = headers
    return node


def _problems(*codes: str) -> Node:
    """Responses for *codes*; codes that share a status share a response."""
    texts: dict[str, list[str]] = {}
    for code in codes:
        entry = CATALOGUE[code]
        texts.setdefault(str(entry.status), []).append(f"{entry.title} (`{code}`).")
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {"application/problem+json": {"schema": schema}}
    return {status: {"description": " ".join(t), "content": content} for status, t in texts.items()}


_BODY: Final[Node] = {"required": True, "content": _json("SubscriptionProposal")}
_BODY_PROBLEMS: Final = ("invalid", "bad-request", "content-too-large", "unsupported-media-type")
_CHANGE_PROBLEMS: Final = ("unavailable", "log-unavailable", "store-failed")


def _operation(name: str, summary: str, responses: Node, **more: Any) -> Node:
    return {"operationId": name, "summary": summary, **more, "responses": responses}


def _collection() -> Node:
    page = {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}
    link = {"Link": {"schema": {"type": "string"}, "description": 'rel="next": the next part.'}}
    found = {"type": "array", "items": {"$ref": "#/components/schemas/Subscription"}}
    return {
        "get": _operation(
            "querySubscriptions",
            "List subscriptions: all of them, or with a limit part by part.",
            {"200": _ok("The subscriptions.", found, link)} | _problems("invalid", "store-failed"),
            parameters=[
                {"name": "limit", "in": "query", "schema": page},
                {"name": "cursor", "in": "query", "schema": {"type": "string"}},
            ],
        ),
        "post": _operation(
            "createSubscription",
            "Create a subscription. Answers once every event accepted from now on is judged by it.",
            {"201": _ok("As realized.", "Subscription", _ETAG | _LOCATION)}
            | _problems(*_BODY_PROBLEMS, *_CHANGE_PROBLEMS),
            requestBody=_BODY,
        ),
    }


def _member() -> Node:
    return {
        "parameters": [_ID],
        "get": _operation(
            "retrieveSubscription",
            "Read a subscription.",
            {
                "200": _ok("The subscription.", "Subscription", _ETAG),
                "304": _ok("It has not changed."),
            }
            | _problems("notfound", "store-failed"),
            parameters=[_IF_CHANGED],
        ),
        "put": _operation(
            "replaceSubscription",
            "Replace the whole subscription, or create it under this id.",
            {
                "200": _ok("Replaced; as realized.", "Subscription", _ETAG),
                "201": _ok("Created; as realized.", "Subscription", _ETAG | _LOCATION),
            }
            | _problems("conflict", *_BODY_PROBLEMS, *_CHANGE_PROBLEMS),
            parameters=[_IF_MATCH, _IF_ABSENT],
            requestBody=_BODY,
        ),
        "delete": _operation(
            "deleteSubscription",
            "Delete a subscription; deliveries that wait are dropped.",
            {"200": _ok("As it stood.", "Subscription")}
            | _problems("notfound", "conflict", "bad-request", *_CHANGE_PROBLEMS),
            parameters=[_IF_MATCH],
        ),
    }


def _events() -> Node:
    event: Node = {"type": "object", "description": "A CloudEvent in the JSON format."}
    content = {
        "application/cloudevents+json": {"schema": event},
        "application/cloudevents-batch+json": {"schema": {"type": "array", "items": event}},
        "*/*": {"schema": {}},
    }
    return {
        "post": _operation(
            "publishEvents",
            "Publish an event (binary: attributes as ce- headers; structured) or a batch.",
            {"202": _ok("Durable in the log.")}
            | _problems(
                "malformed-event",
                "content-too-large",
                "unsupported-media-type",
                "headers-too-large",
                "log-unavailable",
            ),
            requestBody={"required": False, "content": content},
        )
    }


def _text(media_type: str) -> Node:
    return {"description": "As asked.", "content": {media_type: {"schema": {"type": "string"}}}}


def _system() -> Node:
    anything: Node = {"type": "object"}
    return {
        "/": {
            "get": _operation(
                "describe", "What this server can do.", {"200": _ok("As asked.", anything)}
            )
        },
        "/healthz": {
            "get": _operation("health", "Is the server alive?", {"200": _text("text/plain")})
        },
        "/readyz": {
            "get": _operation(
                "readiness",
                "Does the pipeline run, and does the log accept?",
                {"200": _ok("Yes.", anything)} | _problems("unavailable"),
            )
        },
        "/metrics": {
            "get": _operation("metrics", "Prometheus metrics.", {"200": _text("text/plain")})
        },
        "/openapi.json": {
            "get": _operation("openapi", "This description.", {"200": _ok("As asked.", anything)})
        },
        "/docs": {
            "get": _operation("docs", "This description, for people.", {"200": _text("text/html")})
        },
    }


def build_openapi() -> Node:
    """The description, a JSON object."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "distributary",
            "version": __version__,
            "summary": "CloudEvents subscription manager and event router",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/events": _events(),
            "/subscriptions": _collection(),
            "/subscriptions/{id}": _member(),
            **_system(),
        },
        "components": {"schemas": SCHEMAS},
    }
