"""What holds for every policy, attempt and text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import TransportError
from distributary.core.policy import (
    RETRY_AFTER_S_MAX,
    BackoffPolicy,
    Decision,
    DeliveryPolicy,
    Reply,
    classify,
    delay_before_s,
    retry_after_s,
)
from distributary.resource.durations import DURATION_S_MAX, format_duration, parse_duration_s

policies = st.builds(
    DeliveryPolicy,
    retry=st.integers(0, 1_000),
    backoff_policy=st.sampled_from(BackoffPolicy),
    backoff_delay_s=st.floats(0, DURATION_S_MAX),
    backoff_max_s=st.floats(0, DURATION_S_MAX),
)
attempts = st.integers(1, 20_000)
jitters = st.floats(0, 1)
now_ms = st.integers(0, 4_102_444_800_000)
texts = st.one_of(
    st.none(),
    st.text(),
    st.integers().map(str),
    st.from_regex(r"[A-Z][a-z]{2}, [0-9]{2} (Jan|Feb|Dec) [0-9]{4} [0-9:]{8} GMT", fullmatch=True),
    st.from_regex(r"[A-Z][a-z]{5,8}, [0-9]{2}-Feb-[0-9]{2} [0-9:]{8} GMT", fullmatch=True),
)
answers = st.one_of(
    st.builds(Reply, st.integers(-10, 1_100), texts, st.none(), st.just(b"")),
    st.builds(TransportError, st.just("reset"), st.just(""), retryable=st.booleans()),
)


@given(policies, attempts, jitters)
def test_a_wait_is_bounded_by_the_ceiling_and_its_jitter(policy, attempt, jitter):
    """Between the wait without jitter and a fifth more, at any attempt number."""
    plain = delay_before_s(attempt, policy, 0.0)
    wait = delay_before_s(attempt, policy, jitter)
    assert 0.0 <= plain <= policy.backoff_max_s
    assert plain <= wait <= plain * 1.2


@given(policies, st.integers(1, 19_999))
def test_waits_before_jitter_never_decrease(policy, attempt):
    """Decision 12."""
    assert delay_before_s(attempt, policy, 0.0) <= delay_before_s(attempt + 1, policy, 0.0)


@pytest.mark.slow
@given(answers, attempts, policies, jitters, now_ms)
def test_every_answer_has_a_verdict_within_the_limits(answer, attempt, policy, jitter, now):
    """Retries end; a retry waits no shorter than its backoff and no longer than the ceiling."""
    verdict = classify(answer, attempt, policy, jitter, now)
    if verdict.decision is Decision.RETRY:
        assert attempt <= policy.retry
        assert delay_before_s(attempt + 1, policy, jitter) <= verdict.wait_s
        assert verdict.wait_s <= policy.backoff_max_s * 1.2
    else:
        assert verdict.wait_s == 0.0


@given(texts, now_ms)
def test_retry_after_never_raises_and_stays_in_range(value, now):
    """Whatever a sink sends."""
    wait_s = retry_after_s(value, now)
    assert wait_s is None or 0.0 <= wait_s <= RETRY_AFTER_S_MAX


@given(st.integers(0, DURATION_S_MAX * 1_000))
def test_a_duration_survives_writing_and_reading(milliseconds):
    """To the millisecond, over the whole range."""
    seconds = milliseconds / 1_000
    assert parse_duration_s(format_duration(seconds)) == seconds


@given(st.one_of(st.text(), st.from_regex(r"-?P[0-9YMWDTHS.,]*", fullmatch=True)))
def test_any_text_is_a_duration_in_range_or_a_value_error(text):
    """Nothing else comes out."""
    try:
        seconds = parse_duration_s(text)
    except ValueError:
        return
    assert 0.0 <= seconds <= DURATION_S_MAX
    assert parse_duration_s(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
