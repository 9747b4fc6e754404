"""The response table, row by row, and what becomes of an attempt."""

from dataclasses import replace

import pytest

from distributary.core.errors import TransportError
from distributary.core.policy import (
    DELIVERED,
    OTHER_STATUS_RULE,
    RESPONSE_RULES,
    BackoffPolicy,
    Decision,
    DeliveryPolicy,
    Reply,
    Verdict,
    classify,
    delivered,
)

POLICY = DeliveryPolicy(
    retry=3, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=2.0, backoff_max_s=60.0
)
NOW_MS = 1_700_000_000_000
STATUSES = range(100, 600)
"""Every status that HTTP knows."""

RETRIED = {404, 408, 409, 429, *range(500, 600)}
"""Written out by hand from the specification's table and decision 13, not from the code."""
HONOURS_RETRY_AFTER = {429, 503}


def reply(status, retry_after=None):
    """A reply without a body."""
    return Reply(status, retry_after, None, b"")


def expected(status):
    """What the specification says of a first attempt."""
    if 200 <= status <= 299:
        return Decision.DELIVERED
    return Decision.RETRY if status in RETRIED else Decision.DEAD_LETTER


def test_every_status_has_the_verdict_of_the_table():
    """S8: all of 100..599 against the table of the specification."""
    for status in STATUSES:
        verdict = classify(reply(status), 1, POLICY, 0.0, NOW_MS)
        wanted = {
            Decision.DELIVERED: DELIVERED,
            Decision.RETRY: Verdict(Decision.RETRY, f"status-{status}", 2.0),
            Decision.DEAD_LETTER: Verdict(Decision.DEAD_LETTER, f"status-{status}"),
        }[expected(status)]
        assert verdict == wanted, status
        assert (verdict is DELIVERED) == (wanted is DELIVERED), status


def test_every_status_ends_when_the_attempts_are_used_up():
    """After 1 + retry attempts nothing is retried any more; a success stays one."""
    for status in STATUSES:
        verdict = classify(reply(status), 4, POLICY, 0.0, NOW_MS)
        assert verdict.decision is not Decision.RETRY, status
        assert (verdict is DELIVERED) == (200 <= status <= 299), status
        assert verdict.wait_s == 0.0, status
        if status in RETRIED:
            assert verdict.reason == f"attempts-used-up: status-{status}"


def test_the_quick_look_says_of_every_status_what_the_verdict_says():
    """``delivered`` is asked for every answer, and ``classify`` for those that are no success."""
    for status in (*STATUSES, 0, 99, 600, 999):
        verdict = classify(reply(status), 1, POLICY, 0.0, NOW_MS)
        assert delivered(reply(status)) == (verdict is DELIVERED), status


def test_retry_after_counts_for_429_and_503_alone():
    """Decision 12: other answers wait by the backoff, whatever they say."""
    for status in RETRIED:
        verdict = classify(reply(status, "30"), 1, POLICY, 0.0, NOW_MS)
        assert verdict.decision is Decision.RETRY, status
        assert verdict.wait_s == (30.0 if status in HONOURS_RETRY_AFTER else 2.0), status


def test_the_table_covers_every_status_once_and_in_order():
    """No gap and no overlap between 100 and 599."""
    covered = [s for rule in RESPONSE_RULES for s in range(rule.first, rule.last + 1)]
    assert covered == list(STATUSES)


def test_every_row_of_the_table_says_what_it_means():
    """The documentation is drawn from the rows, and the function decides by the same rows."""
    assert all(rule.meaning for rule in RESPONSE_RULES)
    for rule in RESPONSE_RULES:
        for status in (rule.first, rule.last):
            assert classify(reply(status), 1, POLICY, 0.0, NOW_MS).decision is rule.decision


@pytest.mark.parametrize("status", [-1, 0, 99, 600, 999, 10_000])
def test_a_status_that_http_does_not_know_is_retried_as_5xx(status):
    """RFC 9110 section 15: an invalid code is treated as a 5xx."""
    assert classify(reply(status), 1, POLICY, 0.0, NOW_MS).decision is Decision.RETRY
    assert OTHER_STATUS_RULE.decision is Decision.RETRY


@pytest.mark.parametrize(
    ("ceiling_s", "wait_s"), [(0.0, 2.0), (10.0, 10.0), (90.0, 59.0), (None, 59.0)]
)
def test_retry_after_has_a_ceiling_of_its_own(ceiling_s, wait_s):
    """Without one that of all waits counts; with 0 it counts for nothing."""
    policy = replace(POLICY, retry_after_max_s=ceiling_s)
    assert classify(reply(503, "59"), 1, policy, 0.0, NOW_MS).wait_s == wait_s


@pytest.mark.parametrize(
    ("retry_after", "wait_s"),
    [
        ("0", 2.0),
        ("1", 2.0),
        ("59", 59.0),
        ("120", 60.0),
        ("1000000000", 60.0),
        ("-1", 2.0),
        ("abc", 2.0),
        ("", 2.0),
        ("1.5", 2.0),
        (None, 2.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 2.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60.0),
    ],
)
def test_a_wait_is_the_longer_of_backoff_and_capped_retry_after(retry_after, wait_s):
    """S5: max(backoff, min(Retry-After, ceiling)); a bad value means the own backoff."""
    verdict = classify(reply(503, retry_after), 1, POLICY, 0.0, NOW_MS)
    assert verdict == Verdict(Decision.RETRY, "status-503", wait_s)


def test_attempts_are_one_more_than_retries():
    """Decision 12: retry counts the retries after the first attempt."""
    decisions = [classify(reply(500), n, POLICY, 0.0, NOW_MS).decision for n in range(1, 6)]
    assert decisions == [Decision.RETRY] * 3 + [Decision.DEAD_LETTER] * 2


def test_no_retries_means_one_attempt():
    """With retry 0 the first failure is the last."""
    verdict = classify(reply(500), 1, DeliveryPolicy(retry=0), 0.0, NOW_MS)
    assert verdict == Verdict(Decision.DEAD_LETTER, "attempts-used-up: status-500")


def test_the_wait_grows_with_the_attempt_that_failed():
    """Attempt n failed: the wait is that before attempt n + 1."""
    policy = DeliveryPolicy(backoff_delay_s=1.0)
    waits = [classify(reply(500), n, policy, 0.0, NOW_MS).wait_s for n in (1, 2, 3)]
    assert waits == [1.0, 2.0, 4.0]


def test_no_answer_is_retried_with_its_own_reason():
    """Decision 13: no invented status code."""
    verdict = classify(TransportError("refused", "no listener"), 1, POLICY, 1.0, NOW_MS)
    assert verdict == Verdict(Decision.RETRY, "refused", pytest.approx(2.4))


def test_no_answer_ends_when_the_attempts_are_used_up():
    """A sink that never answers is given up like any other."""
    verdict = classify(TransportError("timeout", "30 s"), 4, POLICY, 0.0, NOW_MS)
    assert verdict == Verdict(Decision.DEAD_LETTER, "attempts-used-up: timeout")


def test_what_no_attempt_can_cure_is_not_retried():
    """A blocked address stays blocked."""
    error = TransportError("blocked-address", "169.254.169.254", retryable=False)
    verdict = classify(error, 1, POLICY, 0.0, NOW_MS)
    assert verdict == Verdict(Decision.DEAD_LETTER, "blocked-address")


def test_no_answer_is_ever_dropped():
    """Dropping is for routes that went away, which no answer can say."""
    answers = [reply(s) for s in STATUSES] + [TransportError("dns", "no such name")]
    verdicts = {classify(a, n, POLICY, 0.0, NOW_MS).decision for a in answers for n in (1, 4)}
    assert verdicts == {Decision.DELIVERED, Decision.RETRY, Decision.DEAD_LETTER}


def test_a_final_answer_is_retried_where_the_whole_delivery_is():
    """A Broker that takes no reply: decision 15. Attempts end all the same."""
    for status in STATUSES:
        if 200 <= status <= 299:
            continue
        first = classify(reply(status), 1, POLICY, 0.0, NOW_MS, insist=True)
        assert first == Verdict(Decision.RETRY, f"status-{status}", 2.0)
        last = classify(reply(status), 4, POLICY, 0.0, NOW_MS, insist=True)
        assert last == Verdict(Decision.DEAD_LETTER, f"attempts-used-up: status-{status}")


def test_a_blocked_address_is_retried_where_the_whole_delivery_is():
    """No answer at all is no other case."""
    blocked = TransportError("blocked-address", "no", retryable=False)
    assert classify(blocked, 1, POLICY, 0.0, NOW_MS, insist=True).decision is Decision.RETRY
