"""The API description (OpenAPI 3.1) of every path of the port."""

from typing import Any, Final

from distributary import __version__
from distributary.resource import published, ref
from distributary.subscriptions.http._openapi_cluster import CLUSTER_SCHEMAS, cluster_path
from distributary.subscriptions.http._openapi_deliveries import (
    DELIVERY_SCHEMAS,
    consent_path,
    delivery_paths,
)
from distributary.subscriptions.http._openapi_events import (
    EVENT_SCHEMAS,
    event_paths,
    search_of_events,
)
from distributary.subscriptions.http._openapi_filters import FILTER_SCHEMAS, filter_paths
from distributary.subscriptions.http._openapi_keys import KEY_SCHEMAS, key_paths
from distributary.subscriptions.http._openapi_parts import (
    NEXT_PART,
    PART_SIZE,
    Node,
    answer,
    header,
    in_namespaces,
    json_content,
    operation,
    parameter,
    problems,
    with_head_and_options,
)
from distributary.subscriptions.http._openapi_runs import RUN_SCHEMAS, run_paths, steering_paths
from distributary.subscriptions.http._openapi_status import STATE, STATUS_SCHEMAS, status_paths
from distributary.subscriptions.http._openapi_system import (
    SYSTEM_PATHS,
    SYSTEM_SCHEMAS,
    events_path,
)
from distributary.subscriptions.http._schemas import BEYOND_SCHEMAS, SCHEMAS

_TAG: Final = "subscriptions"

_ETAG: Final[Node] = {"ETag": header("Changes with every revision.")}
_LOCATION: Final[Node] = {
    "Location": header(
        "Path of the subscription.",
        {"type": "string", "pattern": "^(/namespaces/[^/]+)?/subscriptions/"},
    )
}
_PENDING: Final[Node] = {
    "503": {
        "Retry-After": header("Seconds.", {"type": "integer"}),
        "Location": header(
            "Present only if the change is stored and takes effect when the log is back: read the"
            " subscription there instead of sending the change again.",
            required=False,
        ),
    }
}

_ID: Final[Node] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {
        "type": "string",
        "pattern": "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$",
        "maxLength": 128,
    },
}

_TAGS_SCHEMA: Final[Node] = {
    "type": "string",
    "pattern": r'^(?:\*|(?:W/)?"[!#-~]*"(?:, ?(?:W/)?"[!#-~]*")*)$',
}
_IF_MATCH: Final = parameter(
    "If-Match",
    "header",
    "Only if the subscription has one of these entity tags (*: any).",
    _TAGS_SCHEMA,
)
_IF_ABSENT: Final = parameter(
    "If-None-Match",
    "header",
    "Only if the subscription has none of these entity tags (*: if it does not exist).",
    _TAGS_SCHEMA,
)
_IF_CHANGED: Final = parameter(
    "If-None-Match", "header", "Respond 304 if it still has one of these entity tags.", _TAGS_SCHEMA
)

_BODY_PROBLEMS: Final = ("invalid", "unsupported-media-type")
_CHANGE_PROBLEMS: Final = ("log-unavailable", "store-failed")


def _body(schema: str) -> Node:
    return {"required": True, "content": json_content(schema)}


def _links(id_expression: str) -> Node:
    return {
        name: {"operationId": f"{name}Subscription", "parameters": {"id": id_expression}}
        for name in ("retrieve", "replace", "delete")
    }


def _collection() -> Node:
    found = {"type": "array", "items": ref("Subscription")}
    return {
        "get": operation(
            "querySubscriptions",
            _TAG,
            "List subscriptions in the order of ids: all, or in parts of a limit.",
            {"200": answer("The subscriptions.", json_content(found), NEXT_PART)}
            | problems("invalid", "store-failed"),
            parameters=[
                parameter("limit", "query", "Most subscriptions.", PART_SIZE),
                parameter(
                    "cursor",
                    "query",
                    "Opaque, from the Link of the previous part.",
                    {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": 171},
                ),
                parameter("state", "query", "Only those that stand so.", STATE),
            ],
        ),
        "post": operation(
            "createSubscription",
            _TAG,
            "Create a subscription. On response, it applies to every event accepted from then on.",
            {
                "201": answer(
                    "As realized.",
                    json_content("Subscription"),
                    _ETAG | _LOCATION,
                    _links("$response.body#/id"),
                )
            }
            | problems(*_BODY_PROBLEMS, *_CHANGE_PROBLEMS, headers=_PENDING),
            requestBody=_body("SubscriptionProposal"),
        ),
    }


def _member() -> Node:
    subscription = json_content("Subscription")
    return {
        "parameters": [_ID],
        "get": operation(
            "retrieveSubscription",
            _TAG,
            "Read a subscription.",
            {
                "200": answer("The subscription.", subscription, _ETAG),
                "304": answer("It has not changed.", headers=_ETAG),
            }
            | problems("notfound", "conflict", "store-failed"),
            parameters=[_IF_MATCH, _IF_CHANGED],
        ),
        "put": operation(
            "replaceSubscription",
            _TAG,
            "Replace the whole subscription, or create it under this id.",
            {
                "200": answer("Replaced; as realized.", subscription, _ETAG),
                "201": answer(
                    "Created; as realized.",
                    subscription,
                    _ETAG | _LOCATION,
                    _links("$request.path.id"),
                ),
            }
            | problems("conflict", *_BODY_PROBLEMS, *_CHANGE_PROBLEMS, headers=_PENDING),
            parameters=[_IF_MATCH, _IF_ABSENT],
            requestBody=_body("SubscriptionReplacement"),
        ),
        "delete": operation(
            "deleteSubscription",
            _TAG,
            "Delete a subscription and drop its waiting deliveries.",
            {"200": answer("Its last state.", subscription)}
            | problems("notfound", "conflict", *_CHANGE_PROBLEMS),
            parameters=[_IF_MATCH, _IF_ABSENT],
        ),
    }


def _rotation() -> Node:
    return {
        "parameters": [_ID],
        "post": operation(
            "rotateSignature",
            _TAG,
            "Replace the key that signs deliveries. The answer alone has a new secret.",
            {"200": answer("Rotated; as realized.", json_content("Subscription"), _ETAG)}
            | problems("notfound", "conflict", *_BODY_PROBLEMS, *_CHANGE_PROBLEMS),
            parameters=[_IF_MATCH, _IF_ABSENT],
            requestBody={"required": False, "content": json_content("SignatureRotation")},
        ),
    }


def _description() -> str:
    beyond = "\n".join(f"- `{code}`: {meaning}" for code, meaning in BEYOND_SCHEMAS.items())
    return (
        "Errors are problem details with a stable `code`. A body that violates a schema is refused."
        " Another one may still be `invalid`, for what no schema can express:\n\n" + beyond
    )


_BEARER: Final[Node] = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, or a token of an issuer that the server trusts.",
}


def build_openapi() -> dict[str, Any]:
    """Build the document; always the same."""
    tenants: Node = {
        "/events": events_path() | {"get": search_of_events()},
        **event_paths(_ID),
        "/subscriptions": _collection(),
        "/subscriptions/{id}": _member(),
        "/subscriptions/{id}/signature/rotate": _rotation(),
        **status_paths(_ID),
        **delivery_paths(),
        **steering_paths(_ID),
        **run_paths(),
        **filter_paths(),
    }
    paths: Node = tenants | in_namespaces(tenants) | key_paths() | SYSTEM_PATHS
    paths["/cluster"] = cluster_path()
    paths["/consent/{name}"] = consent_path()
    schemas = (
        SCHEMAS | DELIVERY_SCHEMAS | RUN_SCHEMAS | STATUS_SCHEMAS | KEY_SCHEMAS | FILTER_SCHEMAS
    )
    schemas |= SYSTEM_SCHEMAS | EVENT_SCHEMAS | CLUSTER_SCHEMAS
    return {
        "openapi": "3.1.1",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "distributary",
            "version": __version__,
            "summary": "CloudEvents subscription manager and event router",
            "description": _description(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # Where authentication is off, nothing need be shown.
        "security": [{"bearer": []}, {}],
        "paths": published({path: with_head_and_options(item) for path, item in paths.items()}),
        "components": {"schemas": published(schemas), "securitySchemes": {"bearer": _BEARER}},
    }
