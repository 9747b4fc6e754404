"""The API description of how deliveries stand, and of what people may ask of them."""

from typing import Final

from distributary.api._openapi_parts import Node, answer, json_content, operation, problems
from distributary.api._schema_parts import Schema, closed

_TAG: Final = "deliveries"
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_TEXT: Final[Schema] = {"type": "string"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
RUN: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
ROUTE: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}

_STATUS: Final[dict[str, Schema]] = {
    "id": _TEXT,
    "route": ROUTE,
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

DELIVERY_SCHEMAS: Final[dict[str, Schema]] = {
    "SubscriptionStatus": closed(
        _STATUS, required=["id", "route", "state", "waiting", "lagging", "kept"]
    ),
    "Run": closed({"run": RUN}, required=["run"]),
}


def delivery_paths(id_parameter: Node) -> dict[str, Node]:
    """The paths; *id_parameter* is the id of a subscription."""
    return {
        "/subscriptions/{id}/status": {
            "parameters": [id_parameter],
            "get": operation(
                "subscriptionStatus",
                _TAG,
                "How the deliveries of a subscription stand.",
                {"200": answer("As asked.", json_content("SubscriptionStatus"))}
                | problems("notfound", "store-failed"),
            ),
        },
        "/subscriptions/{id}/resume": {
            "parameters": [id_parameter],
            "post": operation(
                "resumeSubscription",
                _TAG,
                "Send to a parked subscription again. Nothing changes where it is not parked.",
                {"202": answer("It goes on in a moment.", json_content("Run"))}
                | problems("notfound", "store-failed"),
            ),
        },
    }
