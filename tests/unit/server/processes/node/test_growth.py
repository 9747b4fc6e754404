"""Partitions are added by the node that leads, with log and store in memory."""

import asyncio
from types import SimpleNamespace

import pytest

from distributary.core.errors import StoreError
from distributary.server.processes.node import _growth as module
from distributary.server.processes.node._growth import Growth


class Routes:
    """A log of four partitions, as the leader's route records have it."""

    def __init__(self):
        self.partitions = 4

    async def add_partitions(self, count, _routes, _snapshots):
        """As ``KafkaRoutes``."""
        assert count >= self.partitions
        self.partitions = count


class Store:
    """A store that is away for a number of times.

    Attributes:
        raised: The numbers that it was told, those that failed too.
    """

    def __init__(self, away):
        self.raised = []
        self._away = away

    def raise_partitions(self, _place, count):
        """As ``raise_partitions``."""
        self.raised.append(count)
        if len(self.raised) <= self._away:
            raise StoreError("the store is away")


@pytest.fixture
def grow(monkeypatch):
    """A function that has more partitions wanted, a number at each look, until the store has it."""

    def run(store, wanted):
        opened = SimpleNamespace(read=None, close=lambda: None)
        monkeypatch.setattr(module, "AGAIN_S", 0.0)
        monkeypatch.setattr(module, "LOOK_S", 0.0)
        monkeypatch.setattr(module, "StoreSnapshots", lambda *_, **__: opened)
        monkeypatch.setattr(module, "NewestRoutes", lambda *_: opened)
        monkeypatch.setattr(module, "raise_partitions", store.raise_partitions)
        told = []
        lines = SimpleNamespace(
            info=lambda event, **fields: told.append((event, fields)),
            error=lambda event, **_: told.append((event, {})),
        )

        async def follow():
            growth = Growth(None, None, Routes(), lines)
            following = asyncio.create_task(growth.follow(lambda: wanted(store)))
            for _ in range(2_000):
                await asyncio.sleep(0.001)
                if any(event == "partitions-added" for event, _ in told):
                    break
            await asyncio.sleep(0.02)  # it does nothing more
            following.cancel()

        asyncio.run(follow())
        return told

    return run


def test_a_last_step_that_fails_is_repeated(grow):
    """Until the store has the number: nobody uses the new partitions before."""
    store = Store(away=2)
    told = grow(store, lambda _store: 8)
    assert store.raised == [8, 8, 8]
    assert told == [
        ("partitions-not-added", {}),
        ("partitions-added", {"before": 4, "partitions": 8}),
    ]


def test_partitions_that_are_ready_are_used_though_fewer_are_wanted_by_then(grow):
    """The topic has them, with all routes."""
    store = Store(away=1)
    grow(store, lambda store: 6 if store.raised else 8)
    assert store.raised == [8, 8]
