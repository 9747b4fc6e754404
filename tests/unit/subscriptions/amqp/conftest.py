"""The AMQP binding over a store in a temporary folder, with clients in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from distributary.access import Change, Gate
from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.datadir import TenantCounts
from distributary.protocols.amqp.engine import Ended
from distributary.resource import SinkRule
from distributary.server.ingest import Tenants
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store.store import Store
from kit.amqp_client import AmqpClient, MemoryWire, join
from kit.memory_routes import MemoryRouteAppender


class Served:
    """A server, and clients of it on one loop."""

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self.store = store
        self.appender = MemoryRouteAppender()
        self.subscriptions = Subscriptions(
            store, self.appender, rules(SinkRule(local_allowed=True)), SystemClock()
        )
        self.gate = Gate(lambda: 0)
        self.changes: list[Change] = []
        self.tenants = Tenants(lambda: 0.0, TenantCounts())
        self.server = AmqpServer(
            self.subscriptions, self.gate, self.changes.append, self.tenants.take_call
        )
        self._runner = runner

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run *work* on the loop, in good time."""

        async def bounded() -> Any:
            async with asyncio.timeout(30):
                return await work()

        return self._runner.run(bounded())

    def connect(self, **chosen: Any) -> AmqpClient:
        """A client; on the loop."""
        return self.connect_by_wires(**chosen)[0]

    def connect_by_wires(self, **chosen: Any) -> tuple[AmqpClient, MemoryWire, MemoryWire]:
        """A client with its wire and the server's."""
        client = AmqpClient(**chosen)
        return client, *join(client.engine, self.server.meet("127.0.0.1"))


async def leave(client: AmqpClient) -> Ended:
    """Close the connection of *client* and wait for its end."""
    client.engine.close()
    return await client.ended


async def settle_down(turns: int = 200) -> None:
    """Let the loop do what it can without waiting for a thread or the time."""
    for _ in range(turns):
        await asyncio.sleep(0)


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    """A started server without subscriptions."""
    with asyncio.Runner() as runner:
        store = Store(sqlite_url(tmp_path / "control.db"))
        made = Served(store, runner)
        runner.run(made.subscriptions.start())
        yield made
        runner.run(made.server.close())
        runner.run(made.subscriptions.close())
        store.close()


@pytest.fixture
def quiet():
    """``settle_down``."""
    return settle_down


@pytest.fixture
def bye():
    """``leave``."""
    return leave
