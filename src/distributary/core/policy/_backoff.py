"""Backoff: the wait before the next attempt."""

from typing import Final

from distributary.core.policy._delivery_policy import BackoffPolicy, DeliveryPolicy

JITTER_SHARE_MAX: Final = 0.2
"""Jitter lengthens a wait by at most this share (decision 12, retries): enough to spread events
that failed at one moment, too little to disturb the schedule."""

_DOUBLINGS_MAX: Final = 1023
"""The largest power of two that a float holds; any real ceiling is lower."""


def longest_wait_s(policy: DeliveryPolicy) -> float:
    """Return the longest wait between two attempts, with ``Retry-After``; seconds."""
    return max(policy.backoff_max_s * (1.0 + JITTER_SHARE_MAX), policy.asked_wait_s_max)


def delay_before_s(attempt: int, policy: DeliveryPolicy, jitter: float) -> float:
    """Return the seconds to wait before *attempt*.

    Attempt 1 is the first send and never waits. Later waits grow by the policy up to
    ``policy.backoff_max_s``; no attempt number overflows.

    The ceiling applies before jitter: at the ceiling jitter must still spread the events, or all
    that failed together would be retried together for ever. So before jitter the waits never
    decrease.

    Args:
        attempt: The attempt about to be made, from 1.
        policy: Growth, first wait and ceiling.
        jitter: Position in the jitter window, 0.0 (no jitter) to 1.0. The caller draws it, so a
            run can be replayed from its seed.

    Returns:
        A wait with ``0.0 <= wait <= policy.backoff_max_s * (1 + JITTER_SHARE_MAX)``.

    Source:
        Knative control plane, ``backoffPolicy``, in the reading of decision 12, retries: linear
        repeats the same wait, exponential is ``delay * 2^(k-1)`` before retry k. (Knative's own two
        runtimes differ from the text and from one another.)
    """
    assert attempt >= 1
    assert 0.0 <= jitter <= 1.0
    if attempt == 1:
        return 0.0
    wait_s = policy.backoff_delay_s
    if policy.backoff_policy is BackoffPolicy.EXPONENTIAL:
        # attempt 2 is retry 1; a product too large for a float becomes inf, not an error
        wait_s *= 2.0 ** min(attempt - 2, _DOUBLINGS_MAX)
    return min(wait_s, policy.backoff_max_s) * (1.0 + JITTER_SHARE_MAX * jitter)
