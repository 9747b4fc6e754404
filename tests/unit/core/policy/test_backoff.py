"""The waits between attempts."""

import dataclasses

import pytest

from distributary.core.policy import (
    JITTER_SHARE_MAX,
    BackoffPolicy,
    DeliveryPolicy,
    delay_before_s,
)

LINEAR = DeliveryPolicy(backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=1.0)
EXPONENTIAL = DeliveryPolicy(backoff_delay_s=1.0)


def test_the_first_attempt_never_waits():
    """Attempt 1 is the first send, whatever the jitter."""
    assert delay_before_s(1, EXPONENTIAL, 1.0) == 0.0
    assert delay_before_s(1, LINEAR, 1.0) == 0.0


def test_linear_repeats_the_same_wait():
    """Decision 12: linear waits the delay each time (not 0,1,2,3 nor 1,2,3,4)."""
    assert [delay_before_s(n, LINEAR, 0.0) for n in range(2, 6)] == [1.0, 1.0, 1.0, 1.0]


def test_exponential_doubles_from_the_delay():
    """Decision 12: retry k waits delay * 2^(k-1) (not 2,4,8,16)."""
    assert [delay_before_s(n, EXPONENTIAL, 0.0) for n in range(2, 6)] == [1.0, 2.0, 4.0, 8.0]


def test_the_default_policy_waits_as_decision_21_says():
    """PT0.2S doubling, for ten retries, stays below PT5M."""
    waits = [delay_before_s(n, DeliveryPolicy(), 0.0) for n in range(2, 12)]
    assert waits == pytest.approx([0.2 * 2**k for k in range(10)])


def test_the_ceiling_stops_growth():
    """Waits before jitter stop at backoff_max_s."""
    assert delay_before_s(10, EXPONENTIAL, 0.0) == 256.0
    assert delay_before_s(11, EXPONENTIAL, 0.0) == 300.0
    assert delay_before_s(12, EXPONENTIAL, 0.0) == 300.0


def test_the_ceiling_holds_for_a_linear_delay_too():
    """A linear delay above the ceiling is cut to it."""
    policy = dataclasses.replace(LINEAR, backoff_delay_s=900.0)
    assert delay_before_s(2, policy, 0.0) == 300.0


@pytest.mark.parametrize("attempt", [1_024, 1_026, 10_000, 10**9])
def test_no_attempt_number_overflows(attempt):
    """A float holds 2^1023; higher attempts stay at the ceiling."""
    assert delay_before_s(attempt, EXPONENTIAL, 0.0) == 300.0
    tiny = dataclasses.replace(EXPONENTIAL, backoff_delay_s=5e-324)
    assert 0.0 <= delay_before_s(attempt, tiny, 1.0) <= 360.0


@pytest.mark.parametrize(("jitter", "wait_s"), [(0.0, 2.0), (0.5, 2.2), (1.0, 2.4)])
def test_jitter_only_lengthens_by_up_to_a_fifth(jitter, wait_s):
    """Decision 12: 0-20 %, never shorter."""
    assert delay_before_s(3, EXPONENTIAL, jitter) == pytest.approx(wait_s)
    assert JITTER_SHARE_MAX == 0.2


def test_jitter_still_spreads_events_at_the_ceiling():
    """The ceiling holds before jitter, so that a crowd does not come back in one moment."""
    assert delay_before_s(50, EXPONENTIAL, 1.0) == pytest.approx(360.0)


def test_a_delay_of_zero_never_waits():
    """A backoffDelay of PT0S means at once."""
    policy = DeliveryPolicy(backoff_delay_s=0.0)
    assert delay_before_s(10_000, policy, 1.0) == 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {"retry": -1},
        {"backoff_delay_s": -0.1},
        {"backoff_delay_s": float("inf")},
        {"backoff_max_s": float("nan")},
        {"timeout_s": 0.0},
        {"rate_limit_per_s": 0.0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_policy_out_of_range_is_a_bug(changes):
    """Resources are checked before; an impossible policy is an assertion, not a wait."""
    with pytest.raises(AssertionError):
        DeliveryPolicy(**changes)
