"""What an answer tells about the health of its sink.

Called by ``_queue``, which adapts concurrency and breaker to it.
"""

from typing import Final

from distributary.core.errors import TransportError
from distributary.core.policy import (
    Acknowledgement,
    Answer,
    Decision,
    Reply,
    acknowledgement_rule,
)

SLOW_DOWN: Final = 429
"""Too Many Requests: the lowest status that concerns the sink, not only the event."""


def healthy(answer: Answer) -> bool:
    """Whether the sink works, even if it refused the event."""
    if isinstance(answer, Reply):
        return answer.status < SLOW_DOWN
    return (
        isinstance(answer, Acknowledgement)
        and acknowledgement_rule(answer).decision is not Decision.RETRY
    )


def silent(answer: Answer) -> bool:
    """Whether an unhealthy *answer* means overload, or that nobody is there.

    A broker's retryable refusal does.
    """
    return isinstance(answer, Acknowledgement) or (
        isinstance(answer, TransportError) and answer.retryable
    )
