"""The API description of steering and runs."""

from typing import Final

from distributary.resource import Schema, closed, ref
from distributary.subscriptions.http._openapi_deliveries import ASKED, NAME, RUN, starting
from distributary.subscriptions.http._openapi_parts import (
    COUNT,
    NEXT_PART,
    PART_SIZE,
    TEXT,
    TIME,
    Node,
    answer,
    json_content,
    one,
    operation,
    parameter,
    problems,
)
from distributary.subscriptions.service import PHASES
from distributary.subscriptions.store.demands import RUN_KINDS
from distributary.subscriptions.store.steering import REASON_MAX

_TAG: Final = "runs"
KIND: Final[Schema] = {"type": "string", "enum": list(RUN_KINDS)}
PHASE: Final[Schema] = {"type": "string", "enum": list(PHASES)}

REPLAY: Final[Schema] = closed(
    {
        "from": TIME | {"description": "Records appended then or later."},
        "to": TIME | {"description": "Records appended before; without it, before the request."},
        **ASKED,
    },
    required=["from"],
)
RETRY: Final[Schema] = closed({"run": ASKED["run"], "dryRun": ASKED["dryRun"]})
DISABLE: Final[Schema] = closed({"reason": TEXT | {"maxLength": REASON_MAX}})

_SINCE: Final[dict[str, Schema]] = {"since": TIME, "by": TEXT}

RUN_SCHEMAS: Final[dict[str, Schema]] = {
    "Replay": REPLAY,
    "Retry": RETRY,
    "Disable": DISABLE,
    "Steering": closed(
        {
            "paused": {"anyOf": [closed(_SINCE, required=_SINCE), {"type": "null"}]},
            "disabled": {
                "anyOf": [
                    closed(_SINCE | {"reason": TEXT}, required=[*_SINCE, "reason"]),
                    {"type": "null"},
                ]
            },
        },
        required=["paused", "disabled"],
    ),
    "RunState": closed(
        {
            "run": RUN,
            "kind": KIND,
            "state": PHASE,
            "reason": TEXT | {"description": "Why it ended early."},
            "asked": TIME,
            "by": TEXT | {"description": "Who asked."},
            "subscription": TEXT | {"description": "Its id, while it exists."},
            "object": TEXT | {"description": "Resource, namespace and name, while it exists."},
            "route": TEXT,
            "selected": COUNT | {"description": "What it has chosen so far."},
            "handled": COUNT
            | {"description": "Of these, sent again, deleted or made due; if dry, would be."},
            "passed": COUNT
            | {
                "description": (
                    "Of these, left as they are: no filter matches them any more, they wait"
                    " already, or the redrive is of all and their subscription is paused."
                )
            },
            "looked": COUNT | {"description": "Dead letters or records looked at."},
            "total": COUNT | {"description": "Dead letters or records to look at."},
            "dryRun": {"type": "boolean"},
            "rateLimit": {"type": "number"},
            "filters": {"type": "array", "items": {"type": "object"}},
            "ids": {"type": "array", "items": TEXT},
            "since": TIME,
            "until": TIME,
            "from": TIME,
            "to": TIME,
            "oldest": TIME
            | {"description": "The log begins only here: retention has what came before."},
            "missing": {
                "type": "array",
                "description": "What a replay passed since it is lost: by partition, the"
                " first record and the one after the last, and how many between are missing.",
                "items": closed(
                    {"partition": COUNT, "from": COUNT, "to": COUNT, "records": COUNT},
                    required=["partition", "from", "to", "records"],
                ),
            },
            "waitsFor": TEXT
            | {
                "description": "What it waits for: events of the archive, and why; or the end of a"
                " pause."
            },
        },
        required=[
            "run",
            "kind",
            "state",
            "asked",
            "by",
            "selected",
            "handled",
            "passed",
            "looked",
            "total",
            "dryRun",
        ],
    ),
}


def _setting(name: str, summary: str) -> Node:
    answers = {"200": answer("What is set now.", json_content("Steering"))}
    return one("post", name, _TAG, summary, answers)


def steering_paths(id_parameter: Node) -> dict[str, Node]:
    """The paths below a subscription; *id_parameter* is its id."""
    disable = _setting("disableSubscription", "Send nothing until it is enabled.")
    disable["post"]["requestBody"] = {"required": False, "content": json_content("Disable")}
    disable["post"]["responses"] |= problems("invalid", "unsupported-media-type")
    paths = {
        "pause": _setting(
            "pauseSubscription", "Send nothing until it is resumed; what matches meanwhile waits."
        ),
        "resume": one(
            "post",
            "resumeSubscription",
            _TAG,
            "End a pause, and send to a parked sink again; any other is left as it is.",
            {"202": answer("Deliveries resume in a moment.", json_content("Run"))}
            | problems("conflict"),
        ),
        "disable": disable,
        "enable": _setting("enableSubscription", "End that it is disabled."),
        "retry": starting(
            "retrySubscription", _TAG, "Make its waiting retries now.", "Retry", required=False
        ),
        "replay": starting(
            "replaySubscription",
            _TAG,
            "Send events of the log again, by its newest filters.",
            "Replay",
        ),
    }
    return {
        f"/subscriptions/{{id}}/{name}": {"parameters": [id_parameter], **node}
        for name, node in paths.items()
    }


def run_paths() -> dict[str, Node]:
    """``/runs`` and the paths below it."""
    below = {"parameters": [{"name": "run", "in": "path", "required": True, "schema": RUN}]}
    found: Schema = {"type": "array", "items": ref("RunState")}
    state = {"200": answer("As asked.", json_content("RunState"))}
    ending = {"202": answer("It ends in a moment.", json_content("RunState"))}
    cursor = {"type": "string", "pattern": "^[0-9]{1,18}$"}
    older = "As /runs/{run}: an older spelling."
    return {
        "/runs": {
            "get": operation(
                "listRuns",
                _TAG,
                "List runs of the last week, and longer ones, in parts; the newest first.",
                {"200": answer("A part.", json_content(found), NEXT_PART)}
                | problems("invalid", "notfound", "store-failed"),
                parameters=[
                    parameter("limit", "query", "Most runs; default 100.", PART_SIZE),
                    parameter("cursor", "query", "From the Link of the previous part.", cursor),
                    parameter("subscription", "query", "Id of a subscription.", NAME),
                    parameter("route", "query", "Uid of a route.", NAME),
                    parameter("kind", "query", "Only of this kind.", KIND),
                    parameter("state", "query", "Only in this state.", PHASE),
                ],
            )
        },
        "/runs/{run}": below | one("get", "readRun", _TAG, "Read the progress of a run.", state),
        "/runs/{run}/cancel": below
        | one("post", "cancelRun", _TAG, "End a run where it is.", ending),
        "/dead-letters/runs/{run}": below
        | one("get", "deadLetterRun", _TAG, older, state, deprecated=True),
    }
