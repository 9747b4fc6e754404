"""The events: their types, attributes and data. Pure. The reference page is drawn from here."""

from typing import Final

import msgspec

from distributary.core.event import Event
from distributary.core.flow import ABOUT_ROUTE_TYPE
from distributary.resource.schema import Schema
from distributary.resource.times import format_time
from distributary.subscriptions.store import lifecycle_rows as rows

TRANSITIONS: Final[dict[str, str]] = {
    rows.STARTED: "It was created: every event accepted from now on is matched by it.",
    rows.UPDATED: "It was replaced, or its signing key was (`reason`).",
    rows.FAILING: "Deliveries to its sink have begun to fail; they are retried.",
    rows.RECOVERED: "A delivery to its sink has succeeded after some that failed.",
    rows.PAUSED: "Somebody has paused it: its events wait.",
    rows.RESUMED: "It is no longer paused: what waits is delivered.",
    rows.DISABLED: "It was disabled, by somebody or because it failed for too long (`reason`).",
    rows.ENABLED: "It is no longer disabled.",
    rows.ENDED: "It does not exist any more; `reason` says why.",
}
"""Transition -> what has happened, for people."""

_TYPE: Final = ABOUT_ROUTE_TYPE + "{}.v1"

DATA_SCHEMA: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["kind", "id", "namespace", "uid", "revision", "sink"],
    "properties": {
        "kind": {
            "enum": ["subscription", "trigger", "messaging-subscription"],
            "description": "Of the Subscriptions API, or the kind of its Kubernetes object.",
        },
        "id": {"type": "string", "description": "Its id, or the name of its object."},
        "namespace": {"type": "string"},
        "uid": {"type": "string", "description": "Never used again, unlike the id."},
        "revision": {"type": "integer", "minimum": 1, "description": "Its newest one."},
        "sink": {"type": "string", "description": "Where it delivers, without query."},
        "reason": {
            "type": "string",
            "description": (
                "Of started: created. Of updated: replaced, rotated. Of ended: deleted, expired,"
                " used-up. Of failing and disabled: why, as the status says it."
            ),
        },
        "since": {
            "type": "string",
            "format": "date-time",
            "description": "Of failing and recovered: since when deliveries fail or failed.",
        },
        "count": {
            "type": "integer",
            "minimum": 0,
            "description": "Of failing and recovered: attempts that have failed since then.",
        },
        "by": {"type": "string", "description": "Who asked for it, where somebody did."},
    },
}
"""JSON schema of the data. Later versions may add members; a type whose meaning changes gets
another number."""


def type_of(transition: str) -> str:
    """The ``type`` of the events of *transition*."""
    return _TYPE.format(transition)


def event_of(row: rows.OutboxRow, base_url: str) -> Event:
    """Make the event of *row*: the same one whenever it is made again.

    Args:
        row: What has happened.
        base_url: Of the server, without a slash at its end.
    """
    subject = row.id if row.kind == "subscription" else f"{row.kind}/{row.id}"
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": row.event_id,
        "source": f"{base_url}/namespaces/{row.namespace}",
        "type": type_of(row.transition),
        "subject": subject,
        "time": format_time(row.at_ms),
        "datacontenttype": "application/json",
    }
    data = {
        "kind": row.kind,
        "id": row.id,
        "namespace": row.namespace,
        "uid": row.uid,
        "revision": row.revision,
        **row.members,
    }
    return Event(attributes, msgspec.json.encode(data))
