"""Tables of broker acknowledgements, one for each protocol, read by ``policy.classify``.

The documentation is drawn from the tables and the tests iterate over them, so one row changes
everything. All of them follow one principle:

* An answer about the *connection* (none, the server is busy or shutting down, login rejected) is
  retried: the event itself was not judged.
* A place that does not exist is retried, as 404 is (Knative data plane, response table).
* An answer about *this message* that would be the same for every attempt (too large, not allowed,
  rejected by the receiver) is a dead letter, as 400, 403 and 413 are.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.core.policy._verdict import Decision
from distributary.core.protocol import load, protocols

TEXT_CHARS_MAX: Final = 256
"""Most characters kept of a broker's own text: for people, in logs and dead letters."""

OTHER: Final = "other"
"""Code of the row for unknown codes."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A broker's answer to one message, or to the connection for it.

    HTTP sinks have a ``Reply`` instead.

    Attributes:
        protocol: Name of the delivery protocol.
        code: The answer's name in the protocol (``0x97``, ``released``,
            ``MSG_SIZE_TOO_LARGE``...); the key of the protocol's table. ``other`` replaces every
            code that the table does not know.
        text: The broker's text for people, cut at ``TEXT_CHARS_MAX``; never a secret.
    """

    protocol: str
    code: str
    text: str = ""


class AcknowledgementRule(NamedTuple):
    """A row of a protocol's table: the meaning of an answer.

    Attributes:
        code: The answer's name in the protocol.
        decision: ``DELIVERED``, ``RETRY`` (until the attempts are used up) or ``DEAD_LETTER``.
        meaning: For people, in the words of the protocol if it has any.
    """

    code: str
    decision: Decision
    meaning: str


def delivered(code: str, meaning: str) -> AcknowledgementRule:
    """Make a row for an answer that accepts responsibility for the event."""
    return AcknowledgementRule(code, Decision.DELIVERED, meaning)


def retried(code: str, meaning: str) -> AcknowledgementRule:
    """Make a row for a transient answer."""
    return AcknowledgementRule(code, Decision.RETRY, meaning)


def dead_lettered(code: str, meaning: str) -> AcknowledgementRule:
    """Make a row for a permanent answer, about this event or its sender's rights."""
    return AcknowledgementRule(code, Decision.DEAD_LETTER, meaning)


@functools.cache
def acknowledgement_rules(protocol: str) -> Mapping[str, AcknowledgementRule]:
    """Return the table of *protocol* by code; empty if its transport gives replies instead."""
    reference = protocols()[protocol].answers
    return {} if reference is None else {rule.code: rule for rule in load(reference)}


def acknowledgement_rule(answer: Acknowledgement) -> AcknowledgementRule:
    """Return the row for *answer*; that of ``other`` for an unknown code."""
    rules = acknowledgement_rules(answer.protocol)
    return rules.get(answer.code) or rules[OTHER]
