"""How long to wait before the next attempt."""

from typing import Final

from distributary.core.policy._delivery_policy import BackoffPolicy, DeliveryPolicy

JITTER_SHARE_MAX: Final = 0.2
"""Jitter lengthens a wait by at most this share (decision 12): enough to spread a crowd of
events that failed in one moment, too little to matter to whoever reads the schedule."""

_DOUBLINGS_MAX: Final = 1023
"""The largest power of two that a float holds; any real ceiling is reached long before."""


def longest_wait_s(policy: DeliveryPolicy) -> float:
    """No wait between two attempts is longer, whatever the sink asks for; seconds."""
    return max(policy.backoff_max_s * (1.0 + JITTER_SHARE_MAX), policy.asked_wait_s_max)


def delay_before_s(attempt: int, policy: DeliveryPolicy, jitter: float) -> float:
    """Seconds to wait before making *attempt*.

    Attempt 1 is the first send and never waits. Later waits grow as the policy says and stop
    growing at ``policy.backoff_max_s``; no attempt number can overflow it.

    The ceiling holds for the wait before jitter: at the ceiling jitter must still spread the
    events, or all that failed together would come back together for ever. So before jitter the
    waits never decrease from attempt to attempt.

    Args:
        attempt: The attempt about to be made, from 1.
        policy: Growth, first wait and ceiling.
        jitter: Where to land in the jitter window, 0.0 (no jitter) to 1.0. The caller draws it,
            so a run can be replayed from its seed.

    Returns:
        A wait with ``0.0 <= wait <= policy.backoff_max_s * (1 + JITTER_SHARE_MAX)``.

    Source:
        Knative control plane, ``backoffPolicy``, in the reading of decision 12: linear repeats
        the same wait, exponential is ``delay * 2^(k-1)`` before retry k. (Knative's own two
        runtimes differ from the text and from one another.)
    """
    assert attempt >= 1
    assert 0.0 <= jitter <= 1.0
    if attempt == 1:
        return 0.0
    wait_s = policy.backoff_delay_s
    if policy.backoff_policy is BackoffPolicy.EXPONENTIAL:
        # attempt 2 is retry 1; a product that is too large for a float becomes inf, not an error
        wait_s *= 2.0 ** min(attempt - 2, _DOUBLINGS_MAX)
    return min(wait_s, policy.backoff_max_s) * (1.0 + JITTER_SHARE_MAX * jitter)
