"""Whatever the log refuses and whenever the process dies: every partition applies all changes."""

import asyncio
import contextlib
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.database import sqlite_url
from distributary.core.errors import DistributaryError
from distributary.resource import SinkRule
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store import Directory
from distributary.subscriptions.store.store import Store
from kit.memory_routes import MemoryRouteAppender

PROPOSAL = {"sink": "http://127.0.0.1/", "protocol": "HTTP"}
IDS = st.sampled_from(["a", "b", "c"])

steps = st.lists(
    st.tuples(st.just("put"), IDS)
    | st.tuples(st.just("delete"), IDS)
    | st.tuples(st.just("log fails"), st.integers(0, 2))
    | st.tuples(st.just("log is back"), st.just(0))
    | st.tuples(st.just("crash"), st.just(0)),
    max_size=12,
)


class _Clock:
    def monotonic_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0


async def _play(script, url, log) -> None:
    store = Store(url)
    service = Subscriptions(store, log, rules(SinkRule(local_allowed=True)), _Clock())
    await service.start()
    for step, value in script:
        with contextlib.suppress(DistributaryError):
            if step == "put":
                await service.replace(value, PROPOSAL)
            elif step == "delete":
                await service.delete(value)
            elif step == "log fails":
                log.failing, log.partial = True, value
            elif step == "log is back":
                log.failing = False
            else:  # another process opens the store; what the first one knew is gone
                await service.close()
                store.close()
                store = Store(url)
                allowed = rules(SinkRule(local_allowed=True))
                service = Subscriptions(store, log, allowed, _Clock(), new_uuid=uuid.uuid4)
                await service.start()
    log.failing = False
    await service.replace("last", PROPOSAL)
    assert service.behind() is None
    await service.close()
    store.close()


@given(steps)
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_every_partition_applies_every_change_in_one_order(script):
    """The routes that stand in the log are those of the store, with no number missing."""
    with tempfile.TemporaryDirectory() as folder:
        url = sqlite_url(Path(folder) / "control.db")
        log = MemoryRouteAppender()
        asyncio.run(_play(script, url, log))
        assert log.applied(0) == log.applied(1)
        assert [record.seq for record in log.applied(0)] == list(range(1, len(log.applied(0)) + 1))
        standing = {}
        for record in log.applied(0):
            standing[record.uid] = record.revision
            if record.op == "delete":
                del standing[record.uid]
        directory = Directory(url)
        directory.refresh()
        assert len(directory) == len(standing)
        for uid, revision in standing.items():
            listed = directory.get(uid)
            assert listed is not None
            assert listed.revision == revision
        directory.close()
