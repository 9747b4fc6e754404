"""What a dead letter says about its failure (decision 16; Knative's extension attributes)."""

import base64

from distributary.core.event import Event
from distributary.core.outcome.dead_letter import Failure
from distributary.core.policy import Acknowledgement, Answer, Reply
from distributary.core.shown import shown_uri

ERROR_DATA_BYTES_MAX = 1024
"""Bytes of the failing answer's body that are kept, cut before encoding (decision 16)."""


def failure_of(answer: Answer, reason: str, dest: str) -> Failure:
    """Why a delivery to the URI *dest* failed; it is noted as everybody may see it.

    The code is absent where no answer came; a status is never invented (decision 13).
    """
    dest = shown_uri(dest)
    if isinstance(answer, Reply):
        data = base64.b64encode(answer.body[:ERROR_DATA_BYTES_MAX]).decode() or None
        return Failure(reason, dest, answer.status, data)
    if isinstance(answer, Acknowledgement):
        return Failure(f"{reason}: {answer.text}" if answer.text else reason, dest)
    return Failure(f"{reason}: {answer.reason}: {answer}", dest)


def dead_letter_event(event: Event, failure: Failure) -> Event:
    """*event* with ``knativeerrordest``, ``knativeerrorcode`` and ``knativeerrordata``.

    Attributes of that name which the event carried before are replaced: they told of an
    earlier failure somewhere else.
    """
    attributes = {
        name: value
        for name, value in event.attributes.items()
        if name not in {"knativeerrordest", "knativeerrorcode", "knativeerrordata"}
    }
    # Rows of an older version have all of the URI.
    attributes["knativeerrordest"] = shown_uri(failure.dest)
    if failure.code is not None:
        attributes["knativeerrorcode"] = failure.code
    if failure.data is not None:
        attributes["knativeerrordata"] = failure.data
    return Event(attributes, event.data)
