"""The API description of how subscriptions stand."""

from typing import Final

from distributary.resource import Schema, closed
from distributary.subscriptions.http._openapi_parts import (
    COUNT,
    TEXT,
    TIME,
    Node,
    answer,
    json_content,
    operation,
    problems,
)
from distributary.subscriptions.service import Word

_TAG: Final = "deliveries"
_NUMBER: Final[Schema] = {"type": "number", "minimum": 0}
_ROUTE: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}
_NOTHING: Final[Schema] = {"type": "null"}
STATE: Final[Schema] = {
    "enum": [word.value for word in Word],
    "description": "disabled, paused, parked: nothing is sent until it is enabled or resumed."
    " awaiting-consent: a target has not consented, and what is for it waits.",
}

_CONSENT: Final[dict[str, Schema]] = {
    "sink": TEXT,
    "state": {"enum": ["asked", "refused", "given", "private"]},
    "since": TIME,
    "asked": TIME,
    "until": TIME,
    "ratePerMinute": {"type": "integer", "minimum": 1},
    "reason": TEXT,
    "next": TIME | {"description": "When it is asked next."},
}

_FAILING: Final = closed(
    {
        "since": TIME,
        "last": TIME,
        "count": COUNT | {"description": "Failed attempts since the last delivery."},
        "reason": TEXT,
        "sink": TEXT,
        "status": {"type": "integer"},
    },
    required=["since", "last", "count", "reason", "sink"],
)

_SHORT: Final[dict[str, Schema]] = {
    "state": STATE,
    "failing": {"anyOf": [_FAILING, _NOTHING], "description": "null: its deliveries do not fail."},
    "lastSuccess": {"anyOf": [TIME, _NOTHING]},
    "inFlight": COUNT | {"description": "Attempts under way."},
    "waiting": COUNT | {"description": "Matches that wait, mostly for a retry."},
    "delivered": COUNT,
    "deadLettered": COUNT,
    "rate": _NUMBER | {"description": "Deliveries a second over the last minute."},
    "rates": {
        "type": "array",
        "items": _NUMBER,
        "description": "The same in steps of 5 s, the oldest first; empty: there were none.",
    },
}

_OPTIONAL: Final[dict[str, Schema]] = {
    "paused": closed({"since": TIME, "by": TEXT}, required=["since", "by"]),
    "disabled": closed(
        {"since": TIME, "by": TEXT, "reason": TEXT}, required=["since", "by", "reason"]
    ),
    "consent": {
        "type": "array",
        "items": closed(_CONSENT, required=["sink", "state", "since", "asked"]),
        "description": "What is known of the consent of its HTTP targets. In lists only while"
        " `state` is `awaiting-consent`.",
    },
}
"""Members that may be absent from a short status: what holds the deliveries up."""

_BACKFILL: Final = closed(
    {
        "position": {
            "type": "array",
            "items": closed(
                {"partition": COUNT, "offset": COUNT, "end": COUNT},
                required=["partition", "offset", "end"],
            ),
        },
        "distance": COUNT | {"description": "Records of the log that it has not looked at yet."},
        "waitsFor": TEXT | {"description": "What it waits for: events of the archive, and why."},
    },
    required=["position", "distance"],
)

_CONDITION: Final = closed(
    {
        "type": {"enum": ["Ready", "Delivering"]},
        "status": {"enum": ["True", "False", "Unknown"]},
        "reason": TEXT,
        "message": TEXT,
        "lastTransitionTime": TIME,
    },
    required=["type", "status", "reason", "message", "lastTransitionTime"],
)

_STATUS: Final[dict[str, Schema]] = {
    "id": TEXT,
    "route": _ROUTE,
    "revision": COUNT,
    **_SHORT,
    "dropped": COUNT,
    "attemptsFailed": COUNT,
    "lagging": {"type": "boolean", "description": "It backfills older events of the log."},
    "backfill": {"anyOf": [_BACKFILL, _NOTHING]},
    "lastAnswer": closed({"time": TIME, "status": COUNT}, required=["time", "status"]),
    "kept": closed({"count": COUNT, "bytes": COUNT}, required=["count", "bytes"])
    | {"description": "Dead letters kept by the server."},
    **_OPTIONAL,
    "parked": closed(
        {"since": TIME, "reason": TEXT, "sink": TEXT, "partitions": COUNT},
        required=["since", "reason", "sink", "partitions"],
    ),
    "conditions": {"type": "array", "items": _CONDITION},
    "lastError": closed(
        {"since": TIME, "last": TIME, "count": COUNT, "reason": TEXT, "sink": TEXT},
        required=["since", "last", "count", "reason", "sink"],
    )
    | {"description": "The same as failing, as earlier versions spelled it.", "deprecated": True},
}

_LATENCY: Final[Schema] = {"anyOf": [_NUMBER, _NOTHING]}
_RATES: Final[dict[str, Schema]] = dict.fromkeys(
    ("accepted", "delivered", "deadLettered", "dropped", "attemptsFailed"), _NUMBER
)
_POINT: Final[dict[str, Schema]] = {
    "time": TIME,
    **_RATES,
    "failing": COUNT,
    "waiting": COUNT,
    "backlog": {"anyOf": [COUNT, _NOTHING]},
    "p50": _LATENCY,
    "p99": _LATENCY,
}
_OVERVIEW: Final[dict[str, Schema]] = {
    "namespace": TEXT,
    "time": TIME,
    "accepted": _NUMBER | {"description": "Events a second, over the last ten seconds."},
    "delivered": _NUMBER | {"description": "Deliveries a second, likewise."},
    **{
        word.value: COUNT | {"description": "Subscriptions and Triggers that stand so."}
        for word in Word
        if word is not Word.READY
    },
    "waiting": COUNT,
    "inFlight": COUNT,
    "deadLetters": COUNT | {"description": "Kept ones."},
    "kept": closed({"count": COUNT, "bytes": COUNT}, required=["count", "bytes"]),
    "latency": closed({"p50": _LATENCY, "p99": _LATENCY}, required=["p50", "p99"])
    | {
        "description": "Of all namespaces, in seconds: from an event's append to its delivery. Null"
        " for who may not observe all of them."
    },
    "backlog": {"anyOf": [COUNT, _NOTHING]}
    | {
        "description": "Records of the log, of all namespaces, that deliveries have not passed;"
        " null likewise."
    },
    "seconds": {
        "type": "array",
        "items": closed(_POINT, required=list(_POINT)),
        "description": "The last two minutes, a point each five seconds.",
    },
    "minutes": {
        "type": "array",
        "items": closed(_POINT, required=list(_POINT)),
        "description": "The last hour, a point each minute.",
    },
}

_SOMETIMES: Final = ("lastAnswer", "paused", "disabled", "parked", "consent", "lastError")
STATUS_SCHEMAS: Final[dict[str, Schema]] = {
    "SubscriptionStatus": closed(
        _STATUS, required=[name for name in _STATUS if name not in _SOMETIMES]
    ),
    "SubscriptionShortStatus": closed(_SHORT | _OPTIONAL, required=list(_SHORT)),
    "Overview": closed(_OVERVIEW, required=list(_OVERVIEW)),
}


def _reading(name: str, summary: str, schema: str, *codes: str) -> Node:
    answers = {"200": answer("As asked.", json_content(schema))}
    return operation(name, _TAG, summary, answers | problems(*codes))


def status_paths(id_parameter: Node) -> dict[str, Node]:
    """The paths; *id_parameter* is the id of a subscription."""
    return {
        "/subscriptions/{id}/status": {
            "parameters": [id_parameter],
            "get": _reading(
                "subscriptionStatus",
                "Read how a subscription stands.",
                "SubscriptionStatus",
                "notfound",
                "store-failed",
            ),
        },
        "/status": {
            "get": _reading(
                "overview",
                "Read the numbers of the namespace, and their past.",
                "Overview",
                "notfound",
                "store-failed",
            )
        },
    }
