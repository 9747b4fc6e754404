"""What schemathesis cannot know by itself; loaded by it, see ``schemathesis.toml``."""

import schemathesis

from distributary.subscriptions.http import BEYOND_SCHEMAS

OF_STATE = {404, 412}
"""Answers to a good request that does not fit the state: no such subscription, another revision."""

BEYOND_EVENT_SCHEMA = {
    "base64", "encoding", "exclusive", "media-type", "name", "time", "too-many", "type", "uri",
    "version",
}  # fmt: skip
"""Faults of events that their schema lets through: data under a content type, mixed versions."""

EVENTS = ("/events", "/namespaces/{namespace}/events")
"""Paths to which events are published."""

TRIALS = ("/filters/try", "/namespaces/{namespace}/filters/try")
"""Paths that take events beside a filter."""


@schemathesis.check
def good_requests_are_taken(_ctx, response, case):
    """A request that satisfies the document is refused only for what a document cannot say."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    tags = [case.headers.get(name) for name in ("If-Match", "If-None-Match")]
    if any(tag is not None and not str(tag).startswith(("*", '"', "W/")) for tag in tags):
        return  # it sends 0 where it draws nothing that fits the pattern: that is no entity tag
    status = response.status_code
    if status < 400 or status in OF_STATE or case.method.upper() == "HEAD":
        return
    sent_as = response.request.headers.get("content-type", "")
    if case.path in EVENTS and "application/cloudevents" not in str(sent_as):
        return  # binary mode: the attributes are header fields that no schema can demand
    faults = response.json()["faults"] if status == 400 else []
    known = BEYOND_EVENT_SCHEMA if case.path in EVENTS else set(BEYOND_SCHEMAS)
    if case.path in TRIALS:
        known |= BEYOND_EVENT_SCHEMA
    told = [fault["code"] in known or fault["path"] == "cursor" for fault in faults]
    assert told, f"{status}: {response.text}"
    assert all(told), faults
