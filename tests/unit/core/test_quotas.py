"""Quotas, and buckets of tokens."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.core.quotas import Quotas, QuotaTable, RateBucket


def test_a_namespace_of_its_own_quotas_has_none_of_the_others():
    """As its table says it all."""
    table = QuotaTable(others=Quotas(subscriptions=5), named={"shop": Quotas(events_per_s=1.0)})
    assert table.of("shop").subscriptions == 0
    assert table.of("till").subscriptions == 5


def test_what_was_taken_beyond_the_tokens_is_waited_for():
    """So one large batch passes, and the next one later."""
    bucket = RateBucket(10.0, 0.0)
    assert bucket.ready(0.0)
    bucket.take(30)
    assert not bucket.ready(1.0)
    assert bucket.ready(2.5)


@given(st.floats(0.1, 1e6), st.lists(st.floats(0.0, 5.0), max_size=50))
def test_no_more_is_taken_than_a_burst_and_what_returned(rate_per_s, steps_s):
    """Whatever the moments are."""
    bucket, now_s, taken = RateBucket(rate_per_s, 0.0), 0.0, 0
    for step_s in steps_s:
        now_s += step_s
        while taken < 200 and bucket.ready(now_s):
            bucket.take(1)
            taken += 1
    assert taken <= max(1.0, rate_per_s) + rate_per_s * now_s + 1
