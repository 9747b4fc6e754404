"""Verdicts: what an attempt means for its event, as ``classify`` returns it."""

import enum
from dataclasses import dataclass
from typing import Final


class Decision(enum.Enum):
    """The next step for the event. All but ``RETRY`` are final."""

    DELIVERED = "delivered"
    """The sink has accepted it."""
    RETRY = "retry"
    """Another attempt after ``Verdict.wait_s``."""
    DEAD_LETTER = "dead-letter"
    """No further attempt at this destination; the event goes to the dead letter sink or is kept."""
    DROPPED = "dropped"
    """Nothing is sent any more, with a recorded reason (such as a deleted route)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, its reason, and the wait.

    Attributes:
        decision: What happens next.
        reason: A stable short text for journals, logs and metrics: ``delivered``,
            ``status-503``, ``timeout``, ``attempts-used-up: status-503``. Holds no text of the
            sink, so no secret.
        wait_s: Seconds until the next attempt, from 0.0; 0.0 unless the decision is ``RETRY``.
    """

    decision: Decision
    reason: str
    wait_s: float = 0.0


DELIVERED: Final = Verdict(Decision.DELIVERED, "delivered")
"""The verdict of every success: one shared value, since the hot path needs it for each event."""
