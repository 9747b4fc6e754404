"""What a reader of the delivery store tells while its owner writes it."""

from distributary.core.database import sqlite_url
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import (
    BackfillRow,
    Budgets,
    Changes,
    DeliveryReader,
    DeliveryStore,
    RetryRow,
)


def row(route, offset, index=0, *, done=False):
    """A retry row."""
    return RetryRow(DoneKey(offset, index, route), 7, Stage.PRIMARY, 2, 0, None, done=done)


def test_the_routes_for_which_an_event_waits(tmp_path):
    """By a row that is not done, or by a backfill; none where there is no store yet."""
    path = tmp_path / "delivery.db"
    reader = DeliveryReader(path, 0)
    assert reader.awaiting(7, 0) == frozenset()
    rows = [row("waits", 7), row("done", 7, done=True), row("index", 7, 1), row("offset", 8)]
    backfills = [
        BackfillRow("open", 3, 0, 7, None, b"{}"),
        BackfillRow("ending", 3, 0, 5, 8, b"{}"),
        BackfillRow("ended", 3, 0, 5, 7, b"{}"),
        BackfillRow("further", 3, 0, 8, None, b"{}"),
    ]
    store = DeliveryStore(sqlite_url(path), 0, Budgets())
    each = {one.name: one for one in backfills}
    store.apply(Changes({one.key: one for one in rows}, [], each, []))
    assert reader.awaiting(7, 0) == {"waits", "open", "ending"}
    assert reader.awaiting(7, 1) == {"index", "open", "ending"}
    store.close()
