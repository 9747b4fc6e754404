"""Subscriptions come and go while events flow: each event meets the routes that stood before it."""

from pathlib import Path

import pytest

from kit.check_routes import shown
from kit.churn import Plan, run_churn

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_each_event_meets_exactly_the_routes_that_stood_before_it(tmp_path: Path) -> None:
    """Small: some 270 changes in five seconds, and an owner that is killed."""
    report = run_churn(
        tmp_path, Plan(subscriptions=100, seconds=5.0, rate_per_s=300.0, kills=1, seed=3)
    )
    assert report.passed, shown(report.routes)
    routes = report.routes
    assert report.changes > 200
    assert routes.events >= report.acked > 500
    assert routes.matches == routes.delivered + routes.dropped > 500
