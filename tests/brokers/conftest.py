"""What the tests of brokers share.

Real brokers are started once in a run, when the first test asks for them.
"""

import asyncio
import contextlib

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from kit.servers.fixtures import (
    artemis,
    authority,
    kafka,
    mosquitto,
    nats_server,
    rabbitmq,
)

__all__ = ["artemis", "authority", "kafka", "mosquitto", "nats_server", "rabbitmq"]

ALL_SLOW = {"mqtt", "nats"}
"""Folders in which every test waits for a server."""


def pytest_collection_modifyitems(items):
    """Mark what waits for a server."""
    for item in items:
        folder = item.path.parent
        if folder.parent.name == "brokers" and folder.name in ALL_SLOW:
            item.add_marker(pytest.mark.slow)


WAIT_S_MAX = 60.0
"""Longest wait for anything that a busy machine delays; usual are milliseconds."""


class CountingConnector(Connector):
    """Counts its dials, for tests of what shares a connection and what keeps one."""

    dials = 0

    async def dial(self, endpoint):
        """See ``Connector.dial``."""
        self.dials += 1
        return await super().dial(endpoint)


def _connector():
    """With the rule for a server on loopback."""
    rule = AddressRule(loopback_allowed=True)
    return CountingConnector(rule, CachingResolver(SystemResolver(), SystemClock()))


@pytest.fixture
def connector():
    """Makes a connector, inside the loop of a test."""
    return _connector


@contextlib.asynccontextmanager
async def _opened(make, way):
    connector = _connector()
    transport = make(connector, SystemClock(), asyncio.get_running_loop())
    here = way(transport)
    here.connector = connector
    try:
        yield here
    finally:
        await transport.close()


@pytest.fixture
def opened():
    """Opens what *way* makes of a transport that *make* makes, inside the loop of a test."""
    return _opened


@pytest.fixture
def run():
    """Runs a coroutine on the loop that the server runs on."""
    return uvloop.run


async def _until(condition, within_s=WAIT_S_MAX, told=lambda: ""):
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while not condition():
        assert loop.time() < end_s, f"it did not come to pass {told()}"
        await asyncio.sleep(0.01)


@pytest.fixture
def until():
    """Waits for a condition; *told* says what there is instead, when it fails."""
    return _until
