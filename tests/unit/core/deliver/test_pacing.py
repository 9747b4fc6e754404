"""Concurrency and rate control by themselves."""

import pytest

from distributary.core.deliver._pacing import BURST_S, CONCURRENCY_MAX, Concurrency, Pace


def test_concurrency_never_leaves_its_bounds():
    """Between one attempt and the maximum, whatever happens."""
    concurrency = Concurrency()
    for _ in range(1000):
        concurrency.grow()
    assert concurrency.limit == CONCURRENCY_MAX
    for second in range(100):
        concurrency.shrink(started_s=second, now_s=second)
    assert concurrency.limit == 1


def test_grows_by_one_for_a_round_trip_after_the_first_loss():
    """Additive increase: as many successes as places add one place."""
    concurrency = Concurrency()
    for _ in range(28):
        concurrency.grow()
    concurrency.shrink(started_s=1.0, now_s=2.0)
    assert concurrency.limit == 16
    for _ in range(17):
        concurrency.grow()
    assert concurrency.limit == 17


def test_attempts_of_one_round_trip_shrink_it_once():
    """What began before the last decrease does not count."""
    concurrency = Concurrency()
    for _ in range(60):
        concurrency.grow()
    for _ in range(64):
        concurrency.shrink(started_s=1.0, now_s=2.0)
    assert concurrency.limit == 32
    concurrency.shrink(started_s=2.0, now_s=3.0)
    assert concurrency.limit == 16


def test_begins_again_with_one_after_an_open_breaker():
    """And doubles from there."""
    concurrency = Concurrency()
    concurrency.restart()
    assert concurrency.limit == 1
    concurrency.grow()
    assert concurrency.limit == 2


@pytest.mark.parametrize("rate", [0.01, 0.5, 1.0, 10.0, 333.0, 25_000.0])
def test_pace_keeps_the_rate_in_every_window(rate):
    """At most ``rate * (T + BURST_S) + 1`` in any window of T seconds."""
    pace = Pace()
    now_s, taken = 0.0, []
    while len(taken) < 200:
        wait_s = pace.take(rate, now_s)
        if wait_s > 0.0:
            now_s += wait_s + 1e-9
        else:
            taken.append(now_s)
    for first, start in enumerate(taken):
        for last in range(first, len(taken)):
            window_s = taken[last] - start
            assert last - first + 1 <= rate * (window_s + BURST_S) + 1 + 1e-6


def test_pace_saves_nothing_up_while_idle():
    """After a pause no more than the burst goes at once."""
    pace = Pace()
    pace.take(100.0, 0.0)
    at_once = 0
    while pace.take(100.0, 1000.0) == 0.0:
        at_once += 1
    assert at_once == 11
