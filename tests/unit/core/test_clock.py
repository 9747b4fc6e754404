"""Loops that wake together."""

import pytest

from distributary.core.clock import until_next_s


@pytest.mark.parametrize(
    ("period_s", "now_s", "wait_s"),
    [
        pytest.param(0.5, 10.0, 0.5, id="at-a-multiple"),
        pytest.param(0.5, 10.2, 0.3, id="between"),
        pytest.param(0.5, 10.499, 0.501, id="a-timer-that-fired-a-little-early"),
        pytest.param(0.5, 10.501, 0.499, id="a-timer-that-fired-a-little-late"),
    ],
)
def test_waits_end_at_multiples(period_s: float, now_s: float, wait_s: float) -> None:
    """Never twice for one multiple."""
    assert until_next_s(period_s, now_s) == pytest.approx(wait_s)
