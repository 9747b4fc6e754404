"""The API description of dead letters and demands."""

from typing import Final

from distributary.core.demand import RATE_MAX, RATE_MIN
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
    one,
    operation,
    parameter,
    problems,
)

_TAG: Final = "deliveries"
RUN: Final[Schema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{1,64}$",
    "x-expected": "expected 1 to 64 of the characters A-Z a-z 0-9 _ -",
}
NAME: Final[Schema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9._-]{1,128}$",
    "x-expected": "expected 1 to 128 of the characters A-Z a-z 0-9 . _ -",
}
IDS_MAX: Final = 1_000
"""Dead letters named in one request: some 20 KB."""

ASKED: Final[dict[str, Schema]] = {
    "filters": {
        "type": "array",
        "maxItems": 100,
        "items": ref("Filter"),  # the caller checks them
        "description": "Only events that all of these filters choose; as in a subscription.",
    },
    "rateLimit": {
        "type": "number",
        "minimum": RATE_MIN,
        "maximum": RATE_MAX,
        "description": "Most events a second; each partition has an equal share. A dry run counts"
        " as fast as it can.",
    },
    "dryRun": {"type": "boolean", "description": "Only count what would be done."},
    "run": RUN,
}
"""What every request for a run may say beside its selection."""

LETTER_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9]{1,3}-[0-9]{1,18}$",
    "x-expected": "expected the id of a kept dead letter, such as 0-17",
}
"""Of a kept dead letter: its partition, and its number there."""

SELECTION: Final[Schema] = closed(
    {
        "subscription": NAME,
        "route": NAME,
        "ids": {
            "type": "array",
            "minItems": 1,
            "maxItems": IDS_MAX,
            "items": LETTER_ID,
        },
        "all": {"type": "boolean", "const": True},
        "since": TIME | {"description": "Only those kept then or later."},
        "until": TIME | {"description": "Only those kept before."},
        **ASKED,
    }
) | {
    "description": "Which dead letters, and an id that makes the request idempotent.",
    "oneOf": [{"required": [name]} for name in ("subscription", "route", "ids", "all")],
}

DELIVERY_SCHEMAS: Final[dict[str, Schema]] = {
    "Run": closed({"run": RUN}, required=["run"]),
    "LetterSelection": SELECTION,
    "DeadLetter": closed(
        {
            "id": LETTER_ID,
            "route": TEXT,
            "subscription": TEXT | {"description": "Its id, while it exists."},
            "object": TEXT | {"description": "Resource, namespace and name, while it exists."},
            "namespace": TEXT | {"description": "Of either."},
            "kept": TIME,
            "reason": TEXT,
            "sink": TEXT,
            "status": {"type": "integer"},
            "event": {"type": "object", "description": "The event in the JSON format."},
            "damaged": {"const": True, "description": "The stored event is damaged."},
        },
        required=["id", "route", "kept", "reason", "sink"],
    ),
}


def starting(name: str, tag: str, summary: str, body: str, *, required: bool = True) -> Node:
    """The operation that starts a run, as *body*, the name of a schema, asks for it."""
    location = {"Location": header("Path of the run.")}
    answers = {"202": answer("Asked.", json_content("Run"), location)}
    wrong = problems("invalid", "unsupported-media-type", "notfound", "conflict", "store-failed")
    content = {"required": required, "content": json_content(body)}
    return {"post": operation(name, tag, summary, answers | wrong, requestBody=content)}


def consent_path() -> Node:
    """``/consent/{name}``: one path for all namespaces, since the name says whose it is."""
    name = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
    given = {"200": answer("Given.", {"text/plain": {"schema": TEXT}})}
    answers = given | problems("invalid", "notfound", "store-failed")
    summary = "Consent to events, by the URL that a target was offered."
    path = parameter("name", "path", "Of the target.", name) | {"required": True}
    key = parameter("key", "query", "Secret of the URL.", TEXT)
    return {
        "parameters": [path, key],
        "get": operation("consentByLink", _TAG, summary, answers),
        "post": operation("consentByCallback", _TAG, summary, answers),
    }


def delivery_paths() -> dict[str, Node]:
    """The paths of dead letters."""
    letter = parameter("id", "path", "Id in the list.", LETTER_ID) | {"required": True}
    found: Schema = {"type": "array", "items": ref("DeadLetter")}
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
                    parameter("cursor", "query", "From the Link of the previous part.", LETTER_ID),
                    parameter("subscription", "query", "Id of a subscription.", NAME),
                    parameter("route", "query", "Uid of a route: not beside subscription.", NAME),
                    parameter("since", "query", "Only those kept then or later.", TIME),
                    parameter("until", "query", "Only those kept before.", TIME),
                ],
            )
        },
        "/dead-letters/redrive": starting(
            "redriveDeadLetters",
            _TAG,
            "Send kept dead letters again, by the newest filters and sinks; failures are kept.",
            "LetterSelection",
        ),
        "/dead-letters/purge": starting(
            "purgeDeadLetters", _TAG, "Delete kept dead letters.", "LetterSelection"
        ),
        "/dead-letters/{id}": {"parameters": [letter]}
        | one(
            "get",
            "deadLetter",
            _TAG,
            "Read a kept dead letter.",
            {"200": answer("As asked.", json_content("DeadLetter"))},
        ),
    }
