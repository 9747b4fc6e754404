"""Who can read what the delivery store holds."""

import pytest

from distributary.core.database import sqlite_url
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import Changes, DeliveryStore, RetryRow


def test_a_failing_store_says_nothing_of_what_it_holds(tmp_path):
    """Rows hold events and addresses; the message goes into the log."""
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0)
    secret = DoneKey(1, 0, "canary")
    row = RetryRow(secret, 1, Stage.PRIMARY, 1, 0, None, done=False)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE retry")
    with pytest.raises(StoreError) as refused:
        store.apply(Changes(rows={secret: row}))
    assert "canary" not in str(refused.value)
    assert "no such table" in str(refused.value)
    store.close()


def test_the_store_is_readable_by_its_owner_alone(tmp_path):
    """Dead letters hold whole events."""
    DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0).close()
    assert (tmp_path / "delivery.db").stat().st_mode & 0o077 == 0
