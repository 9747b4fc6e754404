"""Owners of a partition, one after the other in one process: nothing of a former one stays."""

import gc
import tracemalloc
import weakref

import msgspec
import pyarrow as pa
import pytest

from distributary.pipeline import Places, Session, SessionSettings
from distributary.spark import _delivery_task
from distributary.testing.filled_data import fill

pytestmark = pytest.mark.slow

ROUTES = 300
OWNERS = 20
GROWTH_BYTES_MAX = 400_000
"""Of all these owners together; the routes and targets of a single one are larger."""


@pytest.fixture
def settings(tmp_path):
    """Of owners of a partition with many routes."""
    places = Places(tmp_path / "data")
    fill(
        places,
        ROUTES,
        1,
        lambda n: {
            "sink": f"http://127.0.0.1:9/{n}",
            "protocol": "HTTP",
            "filters": [{"exact": {"type": f"com.example.t{n}"}}],
        },
    )
    return SessionSettings(data_dir=str(places.root), log_level="error")


def row(epoch):
    """What a reader sends first: where it reads, and nothing of it."""
    return pa.record_batch(
        [
            pa.array([0], pa.int32()),
            pa.array([epoch], pa.int64()),
            pa.array([1], pa.int64()),
            pa.array([0], pa.int64()),
            pa.array([b""], pa.binary()),
        ],
        names=["partition", "epoch", "reader", "to_offset", "chunk"],
    )


def test_nothing_of_a_former_owner_stays(settings, monkeypatch):
    """Twenty hand-overs in one worker cost no memory, and no owner outlives its session."""
    owners = []

    class Noted(Session):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            owners.append(weakref.ref(self.owner))

    monkeypatch.setattr(_delivery_task, "Session", Noted)
    words = msgspec.json.encode(settings).decode()

    def own(epoch):
        _delivery_task.run(iter([row(epoch)]), words)

    for epoch in range(3):  # what is made once
        own(epoch)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for epoch in range(OWNERS):
            own(epoch)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [owner() for owner in owners if owner() is not None] == []
    assert after - before < GROWTH_BYTES_MAX
