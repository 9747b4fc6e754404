"""The delivery policy of a destination: retries, backoff, timeout, rate limit."""

import enum
import math
from dataclasses import dataclass
from typing import Final

RETRY_DEFAULT: Final = 10
"""Retries after the first attempt (decision 21, delivery defaults)."""
BACKOFF_DELAY_S_DEFAULT: Final = 0.2
"""First wait, seconds (decision 21): a sink that restarts its worker is back by the second wait."""
BACKOFF_S_MAX_DEFAULT: Final = 300.0
"""Ceiling of the waits, seconds (decision 21)."""
TIMEOUT_S_DEFAULT: Final = 30.0
"""Whole attempt, from dialling to the last byte of the response, seconds (decision 21)."""


class BackoffPolicy(enum.StrEnum):
    """How the waits between attempts grow; the values are those of the DeliverySpec.

    Source:
        Knative control plane, ``backoffPolicy`` (where its text and its code disagree, the text is
        followed: decision 12, retries).
    """

    LINEAR = "linear"
    """Each wait is the same delay."""
    EXPONENTIAL = "exponential"
    """The wait before retry k is the delay times ``2^(k-1)``."""


BACKOFF_POLICY_DEFAULT: Final = BackoffPolicy.EXPONENTIAL
"""A sink that stays down is asked less and less."""


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """The delivery settings of one destination, checked and with every default filled in.

    Resources are validated before they become a policy, so a wrong value here is the caller's bug,
    and an assertion.

    Attributes:
        retry: Retries after the first attempt, from 0; attempts = 1 + retry.
        backoff_policy: How the waits grow.
        backoff_delay_s: The first wait, seconds, from 0.
        backoff_max_s: Longest wait before jitter, seconds, from 0.
        timeout_s: Deadline of one whole attempt, seconds, above 0.
        retry_after_max_s: Longest ``Retry-After`` that is honoured, seconds, from 0; longer ones
            are shortened to it, and 0 ignores the header. None: ``backoff_max_s``.
        rate_limit_per_s: Most attempts a second; None: no limit.
    """

    retry: int = RETRY_DEFAULT
    backoff_policy: BackoffPolicy = BACKOFF_POLICY_DEFAULT
    backoff_delay_s: float = BACKOFF_DELAY_S_DEFAULT
    backoff_max_s: float = BACKOFF_S_MAX_DEFAULT
    timeout_s: float = TIMEOUT_S_DEFAULT
    rate_limit_per_s: float | None = None
    retry_after_max_s: float | None = None

    @property
    def asked_wait_s_max(self) -> float:
        """The longest ``Retry-After`` that is honoured, seconds."""
        return self.backoff_max_s if self.retry_after_max_s is None else self.retry_after_max_s

    def __post_init__(self) -> None:
        """Assert the ranges that the attributes state."""
        assert self.retry >= 0
        assert math.isfinite(self.backoff_delay_s)
        assert self.backoff_delay_s >= 0.0
        assert math.isfinite(self.backoff_max_s)
        assert self.backoff_max_s >= 0.0
        assert math.isfinite(self.timeout_s)
        assert self.timeout_s > 0.0
        assert self.retry_after_max_s is None or 0.0 <= self.retry_after_max_s < math.inf
        assert self.rate_limit_per_s is None or self.rate_limit_per_s > 0.0
