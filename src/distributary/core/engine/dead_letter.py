"""Failure attributes of dead letters (decision 16, dead letters; Knative's extensions)."""

import base64

from distributary.core.event import Event
from distributary.core.outcome.dead_letter import Failure
from distributary.core.policy import Acknowledgement, Answer, Reply
from distributary.core.shown import shown_uri

ERROR_DATA_BYTES_MAX = 1024
"""Bytes kept of an error body, cut before encoding (decision 16, dead letters)."""


def failure_of(answer: Answer, reason: str, dest: str) -> Failure:
    """The failure of a delivery to the URI *dest*, which is stored without its secrets.

    Without an answer there is no code; a status is never invented (decision 13, status codes).
    """
    dest = shown_uri(dest)
    if isinstance(answer, Reply):
        data = base64.b64encode(answer.body[:ERROR_DATA_BYTES_MAX]).decode() or None
        return Failure(reason, dest, answer.status, data)
    if isinstance(answer, Acknowledgement):
        return Failure(f"{reason}: {answer.text}" if answer.text else reason, dest)
    named = reason if reason.endswith(answer.reason) else f"{reason}: {answer.reason}"
    return Failure(f"{named}: {answer}", dest)


def dead_letter_event(event: Event, failure: Failure) -> Event:
    """*event* with ``knativeerrordest``, ``knativeerrorcode`` and ``knativeerrordata``.

    Replaces attributes of these names that the event already has: they describe an earlier failure
    elsewhere.
    """
    attributes = {
        name: value
        for name, value in event.attributes.items()
        if name not in {"knativeerrordest", "knativeerrorcode", "knativeerrordata"}
    }
    # Rows of an older version have the whole URI.
    attributes["knativeerrordest"] = shown_uri(failure.dest)
    if failure.code is not None:
        attributes["knativeerrorcode"] = failure.code
    if failure.data is not None:
        attributes["knativeerrordata"] = failure.data
    return Event(attributes, event.data)
