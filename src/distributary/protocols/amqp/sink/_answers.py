"""Maps outcomes and ends of links and connections to the codes of ``protocols.amqp.answers``.

Called by ``_session`` and, through this package, by the source. Pure.
"""

from typing import Final

from distributary.core.errors import TransportError
from distributary.core.policy import (
    Acknowledgement,
    Answer,
    Decision,
    acknowledgement_rule,
)
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX
from distributary.protocols.amqp.answers import RULES
from distributary.protocols.amqp.engine import DeliveryState, Ended, Outcome

PROTOCOL: Final = "AMQP"

_KNOWN: Final = frozenset(rule.code for rule in RULES)

TOO_LARGE: Final = "amqp:link:message-size-exceeded"

ACCEPTED: Final = Acknowledgement(PROTOCOL, "accepted")


def answer_of_outcome(outcome: Outcome) -> Answer:
    """Returns the answer for the outcome of one message."""
    state = outcome.state
    if state is DeliveryState.ACCEPTED:
        return ACCEPTED
    if state is DeliveryState.RELEASED:
        return Acknowledgement(PROTOCOL, "released")
    if state is DeliveryState.MODIFIED:
        undeliverable = " undeliverable-here" if outcome.undeliverable else ""
        return Acknowledgement(PROTOCOL, f"modified{undeliverable}")
    if state is DeliveryState.NONE:
        return Acknowledgement(PROTOCOL, "settled")
    return _acknowledgement("rejected", "rejected other", outcome.condition, outcome.text)


def answer_of_link(ended: Ended) -> Answer:
    """Returns the answer for messages queued or in flight on a link that ended."""
    if ended.cause != "peer":
        return answer_of_connection(ended)
    return _acknowledgement("link", "link", ended.condition, ended.text)


def condemns(answer: Answer) -> bool:
    """Whether *answer* dead-letters an event."""
    return (
        isinstance(answer, Acknowledgement)
        and acknowledgement_rule(answer).decision is Decision.DEAD_LETTER
    )


def answer_of_connection(ended: Ended) -> Answer:
    """Returns the answer for messages queued or in flight on a connection that ended."""
    if ended.cause == "peer":
        return _acknowledgement("connection", "connection", ended.condition, ended.text)
    if ended.cause == "login":
        return Acknowledgement(PROTOCOL, ended.condition, ended.text[:TEXT_CHARS_MAX])
    if ended.cause == "protocol":
        return TransportError("protocol", f"The peer speaks no AMQP 1.0: {ended.text[:200]}")
    text = ended.text or "The broker has fallen silent"
    return TransportError("closed" if ended.cause == "local" else "reset", text)


def _acknowledgement(where: str, other: str, condition: str, text: str) -> Acknowledgement:
    code = f"{where} {condition}" if condition else where
    if code not in _KNOWN:
        code, text = other, f"{condition}: {text}"
    return Acknowledgement(PROTOCOL, code, text[:TEXT_CHARS_MAX])
