"""The API description of the search for events, and of the way of one."""

from typing import Final

from distributary.resource import Schema, closed, ref
from distributary.subscriptions.http._openapi_parts import (
    NEXT_PART,
    PART_SIZE,
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

_TAG: Final = "events"
_TEXT_OR_NONE: Final[Schema] = {"type": ["string", "null"]}
_VALUE: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "x-expected": "expected 1 to 4096 characters",
}
_NAME: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}

TEXT_PARAMETERS: Final[dict[str, Schema]] = {
    "id": _VALUE,
    "source": _VALUE,
    "type": _VALUE,
    "subject": _VALUE,
    "since": TEXT,
    "until": TEXT,
}
"""Parameters of the search, besides names of Brokers and Channels."""

_POSITION: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9]{1,4}-[0-9]{1,19}-[0-9]{1,6}$",
    "description": "Partition, offset of the record, and index in it.",
}
_HEAD: Final[dict[str, Schema]] = {
    "position": _POSITION,
    "time": TIME | {"description": "When it was accepted."},
    "by": _TEXT_OR_NONE | {"description": "Who published it; null: not known."},
    "address": _TEXT_OR_NONE | {"description": "Where it was published; null: a timer made it."},
    "event": {"oneOf": [ref("FoundAttributes"), {"type": "null"}]},
}
_NAMES: Final = ["position", "time", "by", "address", "event"]
_OUTCOME: Final[Schema] = {"enum": ["delivered", "dead-lettered", "dropped", None]}
_ATTEMPT: Final[dict[str, Schema]] = {
    "time": TIME | {"description": "When it ended."},
    "stage": {"enum": ["event", "dead-letter", "reply"]},
    "attempt": {"type": "integer", "minimum": 1},
    "duration": {"type": ["number", "null"], "description": "Seconds."},
    "status": {"type": ["integer", "null"]},
    "decision": _TEXT_OR_NONE,
    "reason": _TEXT_OR_NONE,
    "answer": TEXT | {"description": "Begin of the answer of a failed attempt, for who may write."},
}
_ATTEMPT_NAMES: Final = ["time", "stage", "attempt", "duration", "status", "decision", "reason"]

EVENT_SCHEMAS: Final[dict[str, Schema]] = {
    "FoundAttributes": {
        "type": "object",
        "description": "The event in the JSON format.",
        "required": ["specversion", "id", "source", "type"],
    },
    "FoundEvent": closed(
        _HEAD
        | {
            "dataBytes": {
                "type": "integer",
                "minimum": 0,
                "description": "Length of data that are left out, since they are long.",
            }
        },
        required=_NAMES,
    ),
    "EventAttempt": closed(_ATTEMPT, required=_ATTEMPT_NAMES),
    "SubscriptionAttempt": closed(
        {
            "position": _POSITION,
            "event": closed(
                dict.fromkeys(("id", "source", "type"), _TEXT_OR_NONE),
                required=["id", "source", "type"],
            ),
            "outcome": _OUTCOME | {"description": "What it brought; null: the delivery went on."},
        }
        | _ATTEMPT,
        required=["position", "event", "outcome", *_ATTEMPT_NAMES],
    ),
    "EventMatch": closed(
        {
            "uid": TEXT,
            "subscription": TEXT | {"description": "Id of a subscription."},
            "trigger": TEXT | {"description": "Name of a Trigger."},
            "object": TEXT | {"description": "Another object of the Kubernetes API."},
            "revision": {"type": ["integer", "null"]},
            "matched": {"type": "boolean"},
            "why": {
                "type": "array",
                "description": "Why its filters do not pass the event.",
                "items": closed({"path": TEXT, "reason": TEXT}, required=["path", "reason"]),
            },
            "changed": {
                "type": "boolean",
                "description": "It has changed since: its filters may have been others then.",
            },
            "deleted": {
                "type": "boolean",
                "description": "It was deleted since, or has ended: the history has its id, if it"
                " was a subscription.",
            },
            "outcome": _OUTCOME,
            "waiting": {
                "type": "boolean",
                "description": "Of a match without an outcome: whether one is to come. If not, it"
                " was not recorded, or is no longer kept.",
            },
            "ended": TIME,
            "reason": TEXT,
            "attempts": {"type": "array", "items": ref("EventAttempt")},
        },
        required=["uid", "revision", "matched", "outcome", "attempts"],
    ),
    "EventWay": closed(
        _HEAD
        | {
            "attempts": {
                "enum": ["all", "failures", "none", "elsewhere"],
                "description": "Which attempts are recorded here.",
            },
            "repeats": TEXT
            | {
                "description": "Position of an earlier record of the same event: this one was"
                " delivered to nobody (once_window_s)."
            },
            "matches": {"type": "array", "items": ref("EventMatch")},
            "more": {"type": "boolean", "description": "There are more than are told."},
        },
        required=[*_NAMES, "attempts", "matches", "more"],
    ),
}

_SEARCH: Final = [
    ("id", "Their id.", _VALUE),
    ("source", "Their source.", _VALUE),
    ("type", "Their type.", _VALUE),
    ("subject", "Their subject.", _VALUE),
    ("since", "Accepted at this time or later (RFC 3339).", TIME),
    ("until", "Accepted before this time.", TIME),
    ("broker", "Published to this Broker of the namespace.", _NAME),
    ("channel", "Published to this Channel of the namespace.", _NAME),
    ("limit", "Most events.", PART_SIZE),
    (
        "cursor",
        "Opaque, from the Link of the previous part.",
        {"type": "string", "pattern": "^[0-9~-]+$"},
    ),
]


def search_of_events() -> Node:
    """The search, at the path that publishes."""
    looked = header(
        "All events accepted after this time have been looked at.", TIME, required=False
    )
    return operation(
        "findEvents",
        _TAG,
        "Find accepted events, the newest first. A part may be empty while there is a next one.",
        {
            "200": answer(
                "A part of the events.",
                json_content({"type": "array", "items": ref("FoundEvent")}),
                NEXT_PART | {"distributary-looked-to": looked},
            )
        }
        | problems("invalid", "notfound", "store-failed", "log-unavailable"),
        parameters=[parameter(name, "query", text, schema) for name, text, schema in _SEARCH],
    )


def event_paths(id_parameter: Node) -> dict[str, Node]:
    """The paths below the search; *id_parameter* is the id of a subscription."""
    looked = header(
        "All later attempts have been looked at; there may be older ones.", TIME, required=False
    )
    listed = json_content({"type": "array", "items": ref("SubscriptionAttempt")})
    newest = answer("The newest first.", listed, {"distributary-looked-to": looked})
    place = {"name": "position", "in": "path", "required": True, "schema": _POSITION}
    answers = {"200": answer("As far as it has come.", json_content("EventWay"))}
    return {
        "/subscriptions/{id}/attempts": {
            "parameters": [id_parameter],
            "get": operation(
                "subscriptionAttempts",
                _TAG,
                "Read the newest recorded attempts of a subscription.",
                {"200": newest} | problems("invalid", "notfound", "store-failed"),
                parameters=[parameter("limit", "query", "Most attempts.", PART_SIZE)],
            ),
        },
        "/events/{position}": {
            "parameters": [place],
            "get": operation(
                "eventWay",
                _TAG,
                "Read the way of an event: matches, attempts, outcomes. Rows come within 5 s.",
                answers | problems("invalid", "notfound", "store-failed", "log-unavailable"),
                parameters=[
                    parameter("subscription", "query", "Only to the one with this id.", _NAME),
                    parameter("route", "query", "Only to the route with this uid.", _NAME),
                ],
            ),
        },
    }
