"""A task that begins while the store is away, in virtual time."""

import pytest

from distributary.core.errors import StoreAwayError, StoreError
from distributary.spark._delivery_task import STORE_WAIT_S, seen_once_there


class Store:
    """A store that is away until a time; the clock moves when somebody waits."""

    def __init__(self, back_s: float) -> None:
        self.now_s = 0.0
        self._back_s = back_s

    def look(self) -> list[object]:
        if self.now_s < self._back_s:
            raise StoreAwayError("away")
        return []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_task_waits_for_the_store() -> None:
    """It goes on within half a second of its return."""
    store = Store(STORE_WAIT_S - 1.0)
    assert seen_once_there(store.look, lambda: store.now_s, store.sleep) == []
    assert store.now_s < STORE_WAIT_S - 0.5


def test_a_task_does_not_wait_for_ever() -> None:
    """Spark starts another one, and says why."""
    store = Store(10 * STORE_WAIT_S)
    with pytest.raises(StoreError):
        seen_once_there(store.look, lambda: store.now_s, store.sleep)
    assert STORE_WAIT_S <= store.now_s < STORE_WAIT_S + 1.0
