"""Runs in the delivery store: how long they are remembered."""

import pytest

from distributary.core.database import sqlite_url
from distributary.core.outcome import DeliveryStore, RunRow
from distributary.subscriptions.store.demands import DEMANDS_MAX


@pytest.fixture
def store(tmp_path):
    """An empty store of partition 0."""
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0)
    yield store
    store.close()


def test_a_run_that_is_done_is_remembered_as_long_as_its_demand_may_be_kept(store):
    """An owner that starts reads all demands that are kept: none of them may run twice."""
    done = store.begin_run_as(RunRow(7, 0, 0, 3, 0, done=True))
    store.begin_run_as(RunRow(7 + DEMANDS_MAX, 0, 0, 0, 0, done=True))
    assert store.runs([7]) == {7: done}
    store.begin_run_as(RunRow(8 + DEMANDS_MAX, 0, 0, 0, 0, done=True))
    assert store.runs([7]) == {}
