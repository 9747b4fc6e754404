"""What a sink answered, as far as the rest of the system may know it."""

from dataclasses import dataclass
from typing import TypeAlias

from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.policy.acknowledgements import Acknowledgement


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a sink to one attempt.

    Attributes:
        status: The response code as it came. Never invented: where no answer came there is a
            ``TransportError`` instead (decision 13).
        retry_after: The ``Retry-After`` header as it came; None: absent.
        content_type: The ``Content-Type`` header as it came; None: absent.
        body: The first bytes of the body; the transport has cut it at its limit.
        cut: The answer was not read to its end, because it was too long or too slow, and the
            connection is lost: the sink costs more than others.
        event: The event in the answer, where one was asked for and the answer may hold one: a 2xx
            but 202 (decision 14). None: it holds none.
        carried: Header lines of the answer that go along with its event (``event.carried``).
        event_fault: Why what says that it is an event could not be read as one, for people.
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
"""What comes of an attempt: an HTTP sink's reply, a broker's acknowledgement (perhaps a no), or
why there was neither."""
