"""What the answers of brokers mean: one table for each protocol, read by ``policy.classify``.

The documentation is drawn from the tables and the tests walk them, so a change of one row is a
change of everything. The principle in all of them:

* An answer about the *connection* (it is not there, the server is busy or going away, nobody is
  let in) is retried: the event itself was never judged.
* A place that does not exist is retried, as 404 is (Knative data plane, response table).
* An answer about *this message* that stays the same however often it is sent (too large, not
  allowed there, refused by the receiver) is a dead letter, as 400, 403 and 413 are.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.core.policy._verdict import Decision
from distributary.core.protocol import load, protocols

TEXT_CHARS_MAX: Final = 256
"""Characters of a broker's own words that are kept: for people, in logs and dead letters."""

OTHER: Final = "other"
"""Code of the row for what a table does not know."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A broker's answer to one message, or to the connection that should have carried it.

    HTTP sinks answer with a ``Reply``; this is what the other protocols have in its place.

    Attributes:
        protocol: Name of the delivery protocol.
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


@functools.cache
def acknowledgement_rules(protocol: str) -> Mapping[str, AcknowledgementRule]:
    """The table of *protocol* by code; empty where its transport gives replies instead."""
    reference = protocols()[protocol].answers
    return {} if reference is None else {rule.code: rule for rule in load(reference)}


def acknowledgement_rule(answer: Acknowledgement) -> AcknowledgementRule:
    """The row for *answer*; that of ``other`` for a code that its table does not know."""
    rules = acknowledgement_rules(answer.protocol)
    return rules.get(answer.code) or rules[OTHER]
