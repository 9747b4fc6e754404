"""The API description of publishing and of the system's own paths."""

from typing import Final

from distributary.core import filter as filter_room
from distributary.core.deliver.credential import CREDENTIAL_TYPES
from distributary.core.event import ATTRIBUTES_MAX
from distributary.core.event import json_format as event_json
from distributary.core.protocol import protocols
from distributary.datadir.seen import SEEN_CHARS_MAX, SEEN_NAMES_MAX
from distributary.resource import Schema, closed, patterns, ref
from distributary.subscriptions.http._openapi_parts import (
    Node,
    answer,
    header,
    json_content,
    operation,
    problems,
)

_TEXT: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
_SOME_TEXT: Final = _TEXT.replace("*", "+")
_UNSET: Final = "null means absent."


def _attribute(pattern: str = _SOME_TEXT, *, optional: bool = True) -> Schema:
    if not optional:
        return {"type": "string", "pattern": pattern}
    return {"type": ["string", "null"], "pattern": pattern, "description": _UNSET}


_EVENT_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "A CloudEvent in the JSON format; further members are extension attributes.",
    "required": ["specversion", "id", "source", "type"],
    "maxProperties": ATTRIBUTES_MAX + 2,
    "properties": {
        "specversion": {"enum": ["1.0", "0.3"]},
        "id": _attribute(optional=False),
        "source": _attribute(patterns.REFERENCE, optional=False),
        "type": _attribute(optional=False),
        "subject": _attribute(),
        "time": _attribute(patterns.TIME),
        "datacontenttype": _attribute("^[!-~]+/[!-~][ -~]*$"),
        "dataschema": _attribute(),
        "data": {"description": "Any JSON; under a content type that is not JSON: a string."},
        "data_base64": {"type": ["string", "null"], "description": "Binary data."},
    },
    "propertyNames": {"pattern": "^(?:[a-z0-9]{1,256}|data_base64)$"},
    "additionalProperties": {
        "anyOf": [
            {"type": ["string", "null"], "pattern": _TEXT},
            {"type": "boolean"},
            {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
        ]
    },
    "examples": [{"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.example.order"}],
}

_SEEN_SCHEMA: Final[Schema] = {
    "type": "array",
    "items": {"type": "string", "maxLength": SEEN_CHARS_MAX},
    "maxItems": SEEN_NAMES_MAX,
    "uniqueItems": True,
}

_STRINGS: Final[Schema] = {"type": "array", "items": {"type": "string"}}
_SCHEMA_BY_NAME: Final[Schema] = {"type": "object", "additionalProperties": {"type": "object"}}

_DESCRIPTION_PROPERTIES: Final[dict[str, Schema]] = {
    "name": {"const": "distributary"},
    "version": {"type": "string"},
    "description": {"type": "string"},
    "specification": {"type": "string"},
    "links": {"type": "object", "additionalProperties": {"type": "string"}},
    "operations": _STRINGS,
    "protocols": {
        "type": "object",
        "propertyNames": {"enum": list(protocols())},
        "additionalProperties": closed(
            {
                "sinkschemes": _STRINGS
                | {"description": "Schemes that the URI of a sink may have."},
                "settings": {"type": "object", "description": "JSON schema of protocolsettings."},
            },
            required=["sinkschemes", "settings"],
        ),
    },
    "dialects": {"type": "array", "items": {"enum": list(filter_room.DIALECTS)}},
    "subscriptionconfig": _SCHEMA_BY_NAME
    | {"description": "Keys of config, each with the JSON schema of its value."},
    "credentialtypes": {"type": "array", "items": {"enum": list(CREDENTIAL_TYPES)}},
    "eventtypes": _SEEN_SCHEMA | {"description": "Types of accepted events, the first seen."},
    "eventtypes_truncated": {"type": "boolean", "description": "There were more."},
    "eventsources": _SEEN_SCHEMA | {"description": "Sources of accepted events, the first seen."},
    "eventsources_truncated": {"type": "boolean", "description": "There were more."},
    "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
}

SYSTEM_SCHEMAS: Final[dict[str, Schema]] = {
    "CloudEvent": _EVENT_SCHEMA,
    "CloudEventBatch": {
        "type": "array",
        "items": ref("CloudEvent"),
        "maxItems": event_json.BATCH_EVENTS_MAX,
        "description": "Events of one version; all are accepted, or none.",
    },
    "ServiceDescription": closed(_DESCRIPTION_PROPERTIES, required=_DESCRIPTION_PROPERTIES),
}


def events_path() -> Node:
    """``/events``: publishing."""
    post = operation(
        "publishEvents",
        "events",
        "Publish an event (binary or structured) or a batch.",
        {"202": answer("Every event of the request is durable in the log.")}
        | problems("malformed-event", "notfound", "unsupported-media-type", "log-unavailable"),
        description=(
            "Binary mode: the attributes are header fields `ce-...` (`ce-specversion`, `ce-id`,"
            " `ce-source` and `ce-type` are required), the body is the data and the content type"
            " theirs. The same is at `/brokers/default/default`."
        ),
        requestBody={
            "required": False,
            "content": {
                "application/cloudevents+json": {"schema": ref("CloudEvent")},
                "application/cloudevents-batch+json": {"schema": ref("CloudEventBatch")},
                "*/*": {"schema": {"description": "Binary mode: the data."}},
            },
        },
    )
    return {"post": post}


def _text(media_type: str) -> Node:
    return {media_type: {"schema": {"type": "string"}}}


def _reading(name: str, summary: str, content: Node) -> Node:
    answers = {"200": answer("As asked.", content)} | problems()
    return {"get": operation(name, "system", summary, answers)}


def _published(name: str, summary: str, kind: str) -> Node:
    content = {f"application/{kind}": {"schema": {"type": "object"}}}
    answers = {"200": answer("As asked.", content)} | problems("notfound")
    return {"get": operation(name, "system", summary, answers)}


def _description_path() -> Node:
    found = _reading(
        "describe",
        "Describe the server, and the types and sources of events seen.",
        json_content("ServiceDescription"),
    )
    location = {"Location": header("Path of the console.")}
    found["get"]["responses"]["303"] = answer("To browsers, which take HTML.", headers=location)
    return found


SYSTEM_PATHS: Final[dict[str, Node]] = {
    "/": _description_path(),
    "/healthz": _reading("health", "Is the server alive?", _text("text/plain")),
    "/readyz": _reading(
        "readiness",
        "Does the pipeline run, and does the log accept events? 503 names what fails.",
        json_content(closed({"ready": {"const": True}}, required=["ready"])),
    ),
    "/metrics": _reading("metrics", "Prometheus metrics.", _text("text/plain")),
    "/openapi.json": _reading("openapi", "This description.", json_content({"type": "object"})),
    "/.well-known/openid-configuration": _published(
        "issuer", "Describe this server as the issuer of the tokens of its deliveries.", "json"
    ),
    "/openid/v1/jwks": _published("issuerKeys", "The public keys of these tokens.", "jwk-set+json"),
    "/docs": _reading("docs", "This description for people.", _text("text/html")),
}
"""All paths except publishing and subscriptions."""
