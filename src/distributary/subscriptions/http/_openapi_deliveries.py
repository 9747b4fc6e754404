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
        "description": "parked: nothing is sent until somebody resumes.",
    },
    "waiting": _COUNT | {"description": "Matches that wait one by one: for a retry, mostly."},
    "lagging": {"type": "boolean", "description": "It reads the log behind the others."},
    "kept": closed({"count": _COUNT, "bytes": _COUNT}, required=["count", "bytes"])
    | {"description": "Dead letters that no sink took."},
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
    "description": "Which kept letters, and an id by which the run is asked for once.",
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
            "handled": _COUNT | {"description": "Letters that were sent again, or deleted."},
            "passed": _COUNT | {"description": "Letters that the newest filters do not match."},
        },
        required=["run", "kind", "asked", "state", "handled", "passed"],
    ),
    "LetterSelection": SELECTION,
    "DeadLetter": closed(
        {
            "id": _TEXT,
            "route": _TEXT,
            "subscription": _TEXT | {"description": "Its id, while it stands."},
            "object": _TEXT | {"description": "Resource, namespace and name, while it stands."},
            "kept": _TIME,
            "reason": _TEXT,
            "sink": _TEXT,
            "status": {"type": "integer"},
            "event": {"type": "object", "description": "The event in the JSON format."},
            "damaged": {"const": True, "description": "What was kept of the event is damaged."},
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
                "List dead letters that no sink took, in parts; the oldest of a partition first.",
                {"200": answer("A part.", json_content(found), NEXT_PART)}
                | problems("invalid", "notfound", "store-failed"),
                parameters=[
                    parameter("limit", "query", "At most so many; else 100.", PART_SIZE),
                    parameter("cursor", "query", "From the Link of the part before.", cursor),
                    parameter("subscription", "query", "Id of a subscription.", NAME),
                    parameter("route", "query", "Uid of a route: not beside subscription.", NAME),
                ],
            )
        },
        "/dead-letters/redrive": _asking(
            "redriveDeadLetters",
            "Send kept letters again, by the newest filters and sinks; what fails is kept again.",
        ),
        "/dead-letters/purge": _asking("purgeDeadLetters", "Delete kept letters."),
        "/dead-letters/runs/{run}": _one(
            run,
            "get",
            "deadLetterRun",
            "How far a redrive or a purge is.",
            {"200": answer("As asked.", json_content("RunState"))},
        ),
        "/subscriptions/{id}/status": _one(
            id_parameter,
            "get",
            "subscriptionStatus",
            "How the deliveries of a subscription stand.",
            {"200": answer("As asked.", json_content("SubscriptionStatus"))},
        ),
        "/subscriptions/{id}/resume": _one(
            id_parameter,
            "post",
            "resumeSubscription",
            "Send to a parked subscription again. Nothing changes where it is not parked.",
            {"202": answer("It goes on in a moment.", json_content("Run"))},
        ),
    }
