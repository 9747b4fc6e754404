"""What the answers of brokers mean: one table for each protocol, read by ``policy.classify``.

The documentation is drawn from the tables and the tests walk them, so a change of one row is a
change of everything. The principle in all of them:

* An answer about the *connection* (it is not there, the server is busy or going away, nobody is
  let in) is retried: the event itself was never judged.
* A place that does not exist is retried, as 404 is (Knative data plane, response table).
* An answer about *this message* that stays the same however often it is sent (too large, not
  allowed there, refused by the receiver) is a dead letter, as 400, 403 and 413 are.
"""

from typing import Final

from distributary.policy.acknowledgements import amqp, kafka, mqtt3, mqtt5, nats
from distributary.policy.acknowledgements._rule import (
    TEXT_CHARS_MAX,
    Acknowledgement,
    AcknowledgementRule,
)

__all__ = [
    "ACKNOWLEDGEMENT_RULES",
    "TEXT_CHARS_MAX",
    "Acknowledgement",
    "AcknowledgementRule",
    "acknowledgement_rule",
]

OTHER: Final = "other"
"""Code of the row for what a table does not know."""

ACKNOWLEDGEMENT_RULES: Final[dict[str, tuple[AcknowledgementRule, ...]]] = {
    "AMQP": amqp.RULES,
    "KAFKA": kafka.RULES,
    "MQTT3": mqtt3.RULES,
    "MQTT5": mqtt5.RULES,
    "NATS": nats.RULES,
}
"""Delivery protocol -> its table. HTTP has ``RESPONSE_RULES``."""

_RULE_BY_CODE: Final = {
    (protocol, rule.code): rule
    for protocol, rules in ACKNOWLEDGEMENT_RULES.items()
    for rule in rules
}


def acknowledgement_rule(answer: Acknowledgement) -> AcknowledgementRule:
    """The row for *answer*; that of ``other`` for a code that its table does not know."""
    rule = _RULE_BY_CODE.get((answer.protocol, answer.code))
    return rule if rule is not None else _RULE_BY_CODE[answer.protocol, OTHER]
