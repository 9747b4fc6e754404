"""The API description of delivery status and dead letters."""

from typing import Final

from distributary.resource import Schema, closed, ref
from distributary.subscriptions.http._openapi_parts import (
    NEXT_PART,
    PART_SIZE,
    Node,
    answer,
    header,
    json_content,
    operation,
    parameter,
    problems,
)

_TAG: Final = "deliveries"
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_TEXT: Final[Schema] = {"type": "string"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_RUN: Final[Schema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{1,64}$",
    "x-expected": "expected 1 to 64 of the characters A-Z a-z 0-9 _ -",
}
NAME: Final[Schema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9._-]{1,128}$",
    "x-expected": "expected 1 to 128 of the characters A-Z a-z 0-9 . _ -",
}
_ROUTE: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}

_STATUS: Final[dict[str, Schema]] = {
    "id": _TEXT,
    "route": _ROUTE,
    "state": {
        "enum": ["ready", "lagging", "failing", "parked"],
        "description": "parked: nothing is sent until it is resumed.",
    },
    "waiting": _COUNT | {"description": "Matches that wait, mostly for a retry."},
    "lagging": {"type": "boolean", "description": "It backfills older events of the log."},
    "kept": closed({"count": _COUNT, "bytes": _COUNT}, required=["count", "bytes"])
    | {"description": "Dead letters kept by the server."},
    "parked": closed(
        {"since": _TIME, "reason": _TEXT, "sink": _TEXT, "partitions": _COUNT},
        required=["since", "reason", "sink", "partitions"],
    ),
    "lastError": closed(
        {"since": _TIME, "last": _TIME, "count": _COUNT, "reason": _TEXT, "sink": _TEXT},
        required=["since", "last", "count", "reason", "sink"],
    ),
}

SELECTION: Final[Schema] = closed(
    {
        "subscription": NAME,
        "route": NAME,
        "all": {"type": "boolean", "const": True},
        "run": _RUN,
    }
) | {
    "description": "Which dead letters, and an id that makes the request idempotent.",
    "oneOf": [{"required": [name]} for name in ("subscription", "route", "all")],
}

DELIVERY_SCHEMAS: Final[dict[str, Schema]] = {
    "SubscriptionStatus": closed(
        _STATUS, required=["id", "route", "state", "waiting", "lagging", "kept"]
    ),
    "Run": closed({"run": _RUN}, required=["run"]),
    "RunState": closed(
        {
            "run": _RUN,
            "kind": {"enum": ["redrive", "purge"]},
            "asked": _TIME,
            "state": {"enum": ["running", "done"]},
            "handled": _COUNT | {"description": "Dead letters that were sent again, or deleted."},
            "passed": _COUNT | {"description": "Those that the newest filters do not match."},
        },
        required=["run", "kind", "asked", "state", "handled", "passed"],
    ),
    "LetterSelection": SELECTION,
    "DeadLetter": closed(
        {
            "id": _TEXT,
            "route": _TEXT,
            "subscription": _TEXT | {"description": "Its id, while it exists."},
            "object": _TEXT | {"description": "Resource, namespace and name, while it exists."},
            "kept": _TIME,
            "reason": _TEXT,
            "sink": _TEXT,
            "status": {"type": "integer"},
            "event": {"type": "object", "description": "The event in the JSON format."},
            "damaged": {"const": True, "description": "The stored event is damaged."},
        },
        required=["id", "route", "kept", "reason", "sink"],
    ),
}


def _asking(name: str, summary: str) -> Node:
    location = {"Location": header("Path of the run.")}
    return {
        "post": operation(
            name,
            _TAG,
            summary,
            {"202": answer("Asked.", json_content("Run"), location)}
            | problems("invalid", "unsupported-media-type", "notfound", "conflict", "store-failed"),
            requestBody={"required": True, "content": json_content("LetterSelection")},
        )
    }


def _one(parameter: Node, method: str, name: str, summary: str, answers: Node) -> Node:
    """A path below the one of *parameter*, with one operation."""
    done = operation(name, _TAG, summary, answers | problems("notfound", "store-failed"))
    return {"parameters": [parameter], method: done}


def delivery_paths(id_parameter: Node) -> dict[str, Node]:
    """The paths; *id_parameter* is the id of a subscription."""
    run = {"name": "run", "in": "path", "required": True, "schema": _RUN}
    found: Schema = {"type": "array", "items": ref("DeadLetter")}
    cursor = {"type": "string", "pattern": "^[0-9]{1,3}-[0-9]{1,18}$"}
    return {
        "/dead-letters": {
            "get": operation(
                "listDeadLetters",
                _TAG,
                "List kept dead letters, in parts; the oldest of a partition first.",
                {"200": answer("A part.", json_content(found), NEXT_PART)}
                | problems("invalid", "notfound", "store-failed"),
                parameters=[
                    parameter("limit", "query", "Most dead letters; default 100.", PART_SIZE),
                    parameter("cursor", "query", "From the Link of the previous part.", cursor),
                    parameter("subscription", "query", "Id of a subscription.", NAME),
                    parameter("route", "query", "Uid of a route: not beside subscription.", NAME),
                ],
            )
        },
        "/dead-letters/redrive": _asking(
            "redriveDeadLetters",
            "Send kept dead letters again, by the newest filters and sinks; failures are kept.",
        ),
        "/dead-letters/purge": _asking("purgeDeadLetters", "Delete kept dead letters."),
        "/dead-letters/runs/{run}": _one(
            run,
            "get",
            "deadLetterRun",
            "Read the progress of a redrive or a purge.",
            {"200": answer("As asked.", json_content("RunState"))},
        ),
        "/subscriptions/{id}/status": _one(
            id_parameter,
            "get",
            "subscriptionStatus",
            "Read the delivery status of a subscription.",
            {"200": answer("As asked.", json_content("SubscriptionStatus"))},
        ),
        "/subscriptions/{id}/resume": _one(
            id_parameter,
            "post",
            "resumeSubscription",
            "Resume a parked subscription; any other is left as it is.",
            {"202": answer("Deliveries resume in a moment.", json_content("Run"))},
        ),
    }
