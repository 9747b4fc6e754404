"""What the tests of MQTT share: a transport, destinations, attempts."""

import asyncio
import contextlib
import uuid

import pytest

from distributary.clock import SystemClock
from distributary.deliver import (
    AddressRule,
    CachingResolver,
    Connector,
    Destination,
    SystemResolver,
)
from distributary.deliver.transports.mqtt import make
from distributary.resource import Credential, MqttSettings
from distributary.testing.check_transport import an_event
from distributary.testing.servers import PASSWORD, USER


def pytest_collection_modifyitems(items):
    """Every test here waits for a server."""
    for item in items:
        if "tests/brokers/mqtt" in str(item.path):
            item.add_marker(pytest.mark.slow)


class Way:
    """A transport and short words for what the tests do with it."""

    def __init__(self, transport, ca_certs):
        self.transport = transport
        self.ca_certs = ca_certs
        self.credential = Credential("PLAIN", USER, PASSWORD)

    def to(self, port, topic, qos=1, *, protocol="MQTT5", uri=None, ca_certs=None, **more):
        """A destination; *more* are settings, ``credential`` and ``format`` apart."""
        credential = more.pop("credential", self.credential)
        mode = more.pop("format", "binary")
        return Destination(
            uri or f"mqtt://127.0.0.1:{port}",
            protocol=protocol,
            format=mode,
            credential=credential,
            settings=MqttSettings(topic, qos, **more),
            ca_certs=ca_certs,
        )

    async def send(self, destination, event=None, timeout_s=5.0):
        """The answer to one attempt."""
        answer = asyncio.get_running_loop().create_future()
        self.transport.send(event or an_event(), destination, timeout_s, answer.set_result)
        return await answer

    @staticmethod
    async def until(condition):
        """Wait for it."""
        await _until(condition)

    def start(self, destination, event=None, timeout_s=5.0):
        """The same, to be awaited later."""
        return asyncio.ensure_future(self.send(destination, event, timeout_s))


def a_connector():
    """With the rule for a server on loopback."""
    rule = AddressRule(loopback_allowed=True)
    return Connector(rule, CachingResolver(SystemResolver(), SystemClock()))


@contextlib.asynccontextmanager
async def _way(ca_certs=None):
    transport = make(a_connector(), SystemClock(), asyncio.get_running_loop())
    try:
        yield Way(transport, ca_certs)
    finally:
        await transport.close()


@pytest.fixture
def way():
    """Opens a ``Way``, inside the loop of a test."""
    return _way


@pytest.fixture
def connector():
    """A connector, made inside the loop of a test."""
    return a_connector


@pytest.fixture
def topic():
    """A topic that no other test uses."""
    return f"tests/{uuid.uuid4().hex}"


async def _until(condition, within_s=8.0):
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while not condition():
        assert loop.time() < end_s, "it did not come to pass"
        await asyncio.sleep(0.01)


@pytest.fixture
def until():
    """Waits for a condition."""
    return _until
