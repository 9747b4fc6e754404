"""Classifies responses: the response table, and the function that reads it.

``RESPONSE_RULES`` is the table. The documentation is drawn from it and the tests iterate over it,
so one row changes everything.
"""

from typing import Final, NamedTuple

from distributary.core.errors import TransportError
from distributary.core.policy._backoff import delay_before_s
from distributary.core.policy._delivery_policy import DeliveryPolicy
from distributary.core.policy._reply import Answer, Reply
from distributary.core.policy._retry_after import retry_after_s
from distributary.core.policy._verdict import DELIVERED, Decision, Verdict
from distributary.core.policy.acknowledgements import Acknowledgement, acknowledgement_rule


class ResponseRule(NamedTuple):
    """A row of the response table: the meaning of a range of status codes.

    Attributes:
        first: First status code of the row.
        last: Last status code of the row.
        decision: ``DELIVERED``, ``RETRY`` (until the attempts are used up) or ``DEAD_LETTER``.
        retry_after_honoured: Whether a ``Retry-After`` header lengthens the wait.
        meaning: For people, in the words of the specification if it has any.
    """

    first: int
    last: int
    decision: Decision
    retry_after_honoured: bool
    meaning: str


def _row(
    first: int, last: int, decision: Decision, meaning: str, *, retry_after: bool = False
) -> ResponseRule:
    return ResponseRule(first, last, decision, retry_after, meaning)


RESPONSE_RULES: Final = (
    _row(100, 199, Decision.DEAD_LETTER, "Unspecified: an error, not retried"),
    _row(200, 299, Decision.DELIVERED, "Accepted"),
    _row(300, 399, Decision.DEAD_LETTER, "Unspecified: an error, never followed, not retried"),
    _row(400, 403, Decision.DEAD_LETTER, "Unparsable event (400), or another error"),
    _row(404, 404, Decision.RETRY, "Endpoint does not exist"),
    _row(405, 407, Decision.DEAD_LETTER, "Error"),
    _row(408, 408, Decision.RETRY, "Request timeout (later revision of the table: decision 13)"),
    _row(409, 409, Decision.RETRY, "Conflict / processing in progress"),
    _row(410, 428, Decision.DEAD_LETTER, "Error"),
    _row(429, 429, Decision.RETRY, "Too many requests / overloaded", retry_after=True),
    _row(430, 499, Decision.DEAD_LETTER, "Error"),
    _row(500, 502, Decision.RETRY, "Error of the sink"),
    _row(503, 503, Decision.RETRY, "Service unavailable", retry_after=True),
    _row(504, 599, Decision.RETRY, "Error of the sink"),
)
"""The response table of the Knative data plane ("Event Acknowledgement and Delivery Retry") with
decision 13, status codes. The rows are in order and cover 100 to 599 without gap or overlap."""

OTHER_STATUS_RULE: Final = _row(600, 999, Decision.RETRY, "Not a response code of HTTP: as 5xx")
"""For codes outside 100 to 599: RFC 9110 section 15 has a client treat them as a 5xx."""

_RULE_BY_STATUS: Final = {
    status: rule for rule in RESPONSE_RULES for status in range(rule.first, rule.last + 1)
}


def delivered(answer: Answer) -> bool:
    """Whether the sink has accepted the event; agrees with ``classify``, faster."""
    if isinstance(answer, Reply):
        return 200 <= answer.status < 300
    return (
        isinstance(answer, Acknowledgement)
        and acknowledgement_rule(answer).decision is Decision.DELIVERED
    )


def classify(
    answer: Answer,
    attempt: int,
    policy: DeliveryPolicy,
    jitter: float,
    now_wall_ms: int,
    *,
    insist: bool = False,
) -> Verdict:
    """Return what *answer* means for the event: the only place that decides it.

    Args:
        answer: The sink's response, a broker's acknowledgement, or why there was neither.
        attempt: Number of the attempt, from 1.
        policy: Attempts (``1 + retry``), growth of the waits and their ceiling.
        jitter: Position in the jitter window of the wait, 0.0 to 1.0.
        now_wall_ms: The wall clock, milliseconds since 1970, for ``Retry-After``.
        insist: Retry after a final answer too, while attempts are left: the answer is that of a
            Broker to a reply, and the whole delivery is repeated (decision 15, replies).

    Returns:
        ``DELIVERED``; ``RETRY`` with ``wait_s``; or ``DEAD_LETTER`` if the answer is final or the
        attempts are used up. Never ``DROPPED``: that is for removed routes. Where ``Retry-After``
        counts, ``wait_s = max(backoff, min(Retry-After, its ceiling))``.

    Source:
        Knative data plane, "Event Acknowledgement and Delivery Retry"; decisions 12 (retries) and
        13 (status codes).
    """
    assert attempt >= 1
    if isinstance(answer, TransportError):
        reason = answer.reason
        retryable = answer.retryable
        asked_s = None
    elif isinstance(answer, Acknowledgement):
        row = acknowledgement_rule(answer)
        if row.decision is Decision.DELIVERED:
            return DELIVERED
        reason = f"{answer.protocol.lower()}-{row.code}"
        retryable = row.decision is Decision.RETRY
        asked_s = None
    else:
        rule = _RULE_BY_STATUS.get(answer.status, OTHER_STATUS_RULE)
        if rule.decision is Decision.DELIVERED:
            return DELIVERED
        reason = f"status-{answer.status}"
        retryable = rule.decision is Decision.RETRY
        asked_s = (
            retry_after_s(answer.retry_after, now_wall_ms) if rule.retry_after_honoured else None
        )
    if not retryable and not insist:
        return Verdict(Decision.DEAD_LETTER, reason)
    if attempt > policy.retry:
        return Verdict(Decision.DEAD_LETTER, f"attempts-used-up: {reason}")
    wait_s = delay_before_s(attempt + 1, policy, jitter)
    if asked_s is not None:
        wait_s = max(wait_s, min(asked_s, policy.asked_wait_s_max))
    return Verdict(Decision.RETRY, reason, wait_s)
