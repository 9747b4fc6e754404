"""What a broker says about one message, and the row of a table that says what that means."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.policy._verdict import Decision

TEXT_CHARS_MAX: Final = 256
"""Characters of a broker's own words that are kept: for people, in logs and dead letters."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A broker's answer to one message, or to the connection that should have carried it.

    HTTP sinks answer with a ``Reply``; this is what the other protocols have in its place.

    Attributes:
        protocol: Delivery protocol, one of the six names.
        code: The answer as the protocol names it (``0x97``, ``released``,
            ``MSG_SIZE_TOO_LARGE``...); the key of the protocol's table. ``other`` stands for
            every code that the table does not know.
        text: What the broker added for people, cut at ``TEXT_CHARS_MAX``; never a secret.
    """

    protocol: str
    code: str
    text: str = ""


class AcknowledgementRule(NamedTuple):
    """One row of a protocol's table: what an answer means.

    Attributes:
        code: The answer as the protocol names it.
        decision: ``DELIVERED``, ``RETRY`` (until the attempts are used up) or ``DEAD_LETTER``.
        meaning: For people, in the words of the protocol where it has any.
    """

    code: str
    decision: Decision
    meaning: str


def delivered(code: str, meaning: str) -> AcknowledgementRule:
    """A row for an answer that takes responsibility for the event."""
    return AcknowledgementRule(code, Decision.DELIVERED, meaning)


def retried(code: str, meaning: str) -> AcknowledgementRule:
    """A row for an answer that may be another one later."""
    return AcknowledgementRule(code, Decision.RETRY, meaning)


def dead_lettered(code: str, meaning: str) -> AcknowledgementRule:
    """A row for an answer that stays: it is about this event, or about who may send it."""
    return AcknowledgementRule(code, Decision.DEAD_LETTER, meaning)
