"""The API description of trying a filter."""

from typing import Any, Final

from distributary.resource import Schema, closed, ref
from distributary.subscriptions import resource as subscription
from distributary.subscriptions.http._openapi_parts import (
    TEXT,
    Node,
    answer,
    json_content,
    operation,
    problems,
)

EVENTS_TRIED_MAX: Final = 100
"""Most events of one trial: more than a person reads."""

_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": EVENTS_TRIED_MAX}
RECENT: Final[Schema] = {
    "type": "integer",
    "minimum": 1,
    "maximum": EVENTS_TRIED_MAX,
    "description": "In place of events: so many of the last that the namespace accepted.",
}
_FILTERS: Final[Schema] = {"type": "array", "items": ref("Filter")}

_EXPLANATION: Final[dict[str, Any]] = {
    "dialect": TEXT | {"description": "Of the expression; `subscription`: all of it."},
    "path": TEXT | {"description": "JSON path of the part in the request."},
    "verdict": {"type": "boolean"},
    "reason": TEXT | {"description": "For people, in one line."},
    "decided": {"type": "boolean", "description": "It caused the verdict of the whole."},
    "parts": {"type": "array", "items": ref("FilterExplanation")},
}

FILTER_SCHEMAS: Final[dict[str, Schema]] = {
    "FilterTrial": closed(
        {
            **subscription.SELECTION,
            "filters": _FILTERS
            | {"description": "All of them must match; none: every event does."},
            "filter": ref("EarlierFilter"),
            "events": {
                "type": "array",
                "items": ref("CloudEvent"),
                "maxItems": EVENTS_TRIED_MAX,
                "description": "Filters do not look at their data, which may be left out.",
            },
            "recent": RECENT,
        }
    )
    | {
        "description": "Members of a subscription that select events, and the events.",
        "allOf": [
            {"not": {"required": ["filter", "filters"]}},
            {"not": {"required": ["events", "recent"]}},
        ],
    },
    "FilterVerdicts": closed(
        {
            "tried": _COUNT,
            "matched": _COUNT,
            "results": {"type": "array", "items": ref("FilterVerdict")},
        },
        required=["tried", "matched", "results"],
    ),
    "FilterVerdict": closed(
        {
            "id": TEXT,
            "source": TEXT,
            "type": TEXT,
            "position": TEXT | {"description": "Of a recent event."},
            "matched": {"type": "boolean"},
            "why": ref("FilterExplanation"),
        },
        required=["id", "source", "type", "matched", "why"],
    ),
    "FilterExplanation": closed(
        _EXPLANATION, required=["dialect", "path", "verdict", "reason", "decided"]
    ),
}


def filter_paths() -> dict[str, Node]:
    """``/filters/try``."""
    post = operation(
        "tryFilter",
        "filters",
        "Try a filter on events: the verdict on each, with the part that decided. Changes nothing.",
        {"200": answer("The verdicts, in the order of the events.", json_content("FilterVerdicts"))}
        | problems(
            "invalid", "unsupported-media-type", "notfound", "store-failed", "log-unavailable"
        ),
        requestBody={"required": True, "content": json_content("FilterTrial")},
    )
    return {"/filters/try": {"post": post}}
