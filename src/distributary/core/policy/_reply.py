"""The response of an HTTP sink, bounded and parsed."""

from dataclasses import dataclass
from typing import TypeAlias

from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.policy.acknowledgements import Acknowledgement


@dataclass(frozen=True, slots=True)
class Reply:
    """A sink's response to one attempt.

    Attributes:
        status: The status code received. Never invented: without a response there is a
            ``TransportError`` instead (decision 13, status codes).
        retry_after: The ``Retry-After`` header, unparsed; None: absent.
        content_type: The ``Content-Type`` header, unparsed; None: absent.
        body: The first bytes of the body, up to the transport's limit.
        cut: The response was too long or too slow to be read to its end, and the connection was
            closed: the sink costs more than others.
        event: The event in the response, if replies are used and the response may hold one: a 2xx
            but 202 (decision 14, replies). None: it holds none.
        carried: Carried header lines of that event (``event.carried``).
        event_fault: Why a response declared as an event could not be decoded, for people.
    """

    status: int
    retry_after: str | None
    content_type: str | None
    body: bytes
    cut: bool = False
    event: Event | None = None
    event_fault: str | None = None
    carried: bytes = b""


Answer: TypeAlias = Reply | Acknowledgement | TransportError
"""The result of an attempt: an HTTP sink's response, a broker's acknowledgement (perhaps negative),
or why there was neither."""
