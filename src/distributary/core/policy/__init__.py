"""Delivery policy: how often to try, how long to wait, and what an answer means. Pure.

Called by ``flow`` (its records hold replies and verdicts), ``deliver`` (makes replies, reads the
policy of a destination) and ``engine`` (classifies attempts). Hides the response table, the
arithmetic of the waits, and the text of ``Retry-After``. Knows no clock and draws no chance:
callers pass both in.
"""

from distributary.core.policy._backoff import JITTER_SHARE_MAX, delay_before_s, longest_wait_s
from distributary.core.policy._classify import (
    OTHER_STATUS_RULE,
    RESPONSE_RULES,
    ResponseRule,
    classify,
    delivered,
    response_rule,
)
from distributary.core.policy._delivery_policy import (
    BACKOFF_DELAY_S_DEFAULT,
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
