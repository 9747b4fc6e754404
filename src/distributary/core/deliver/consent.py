"""What a delivery must know of its target's consent (CloudEvents http-webhook 1.0, section 4)."""

from dataclasses import dataclass
from typing import Final

AWAITS_CONSENT: Final = "consent"
"""Reason, in status and conditions, of a route whose target has not consented to deliveries."""


@dataclass(frozen=True, slots=True)
class Consent:
    """How far an HTTP target agrees to deliveries.

    Attributes:
        given: False: nothing is sent there, and what is for it waits.
        origin: Sent as ``WebHook-Request-Origin`` with each delivery; empty: not sent.
        rate_per_s: Most requests a second that the target allows this partition; None: any.
        private_alone: No question was needed, because the target is on a private address: on any
            other, nothing is sent.
    """

    given: bool
    origin: str = ""
    rate_per_s: float | None = None
    private_alone: bool = False


def waits_for_consent(sink_queue: str) -> str:
    """Queue name on which everything for a target without consent waits; never a valid URI."""
    return f"consent of {sink_queue}"
