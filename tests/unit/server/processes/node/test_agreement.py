"""A control part whose store has gone back ends, and the next one begins with what is there."""

import asyncio

import structlog

from distributary.core.cluster import KafkaPlace
from distributary.core.database import StorePlace, sqlite_url
from distributary.server.processes.node import _agreement as module


def test_a_process_that_must_stop_is_ended(tmp_path, monkeypatch):
    """Everything that it has in memory may be of lost changes."""
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    monkeypatch.setattr(module, "is_over", over())
    ended = []
    agreement = module.Agreement(
        KafkaPlace(servers=("127.0.0.1:1",), prefix="p"),
        StorePlace(sqlite_url(tmp_path / "s.db"), 1),
        1,
        structlog.get_logger(),
        lambda: ended.append(True),
    )
    with structlog.testing.capture_logs() as lines:
        asyncio.run(agreement.follow())
    assert ended == [True]
    assert [line["event"] for line in lines] == ["store-went-back"]


def over():
    """It is at the second look."""
    looks = iter((False, True))
    return lambda _place: next(looks)
