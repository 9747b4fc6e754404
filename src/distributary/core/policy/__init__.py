"""Delivery policy: number of attempts, waits between them, and the meaning of responses. Pure.

Called by ``flow`` (its records hold replies and verdicts), ``deliver`` (makes replies, reads the
policy of a destination) and ``engine`` (classifies attempts). Hides the response table, the backoff
arithmetic, and the syntax of ``Retry-After``. Callers pass in the time and random numbers.
"""

from distributary.core.policy._backoff import JITTER_SHARE_MAX, delay_before_s, longest_wait_s
from distributary.core.policy._classify import (
    OTHER_STATUS_RULE,
    RESPONSE_RULES,
    classify,
    delivered,
)
from distributary.core.policy._delivery_policy import (
    BACKOFF_DELAY_S_DEFAULT,
    BACKOFF_POLICY_DEFAULT,
    BACKOFF_S_MAX_DEFAULT,
    RETRY_DEFAULT,
    TIMEOUT_S_DEFAULT,
    BackoffPolicy,
    DeliveryPolicy,
)
from distributary.core.policy._reply import Answer, Reply
from distributary.core.policy._retry_after import RETRY_AFTER_S_MAX, retry_after_s
from distributary.core.policy._verdict import DELIVERED, Decision, Verdict
from distributary.core.policy.acknowledgements import (
    Acknowledgement,
    AcknowledgementRule,
    acknowledgement_rule,
    acknowledgement_rules,
)
