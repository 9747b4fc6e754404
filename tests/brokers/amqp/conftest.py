"""What the tests of AMQP share: a transport, destinations, attempts."""

import asyncio
import contextlib
import uuid

import pytest
import uvloop

from distributary.clock import SystemClock
from distributary.deliver import (
    AddressRule,
    CachingResolver,
    Connector,
    Destination,
    SystemResolver,
)
from distributary.deliver.transports.amqp import make
from distributary.resource import AmqpSettings, Credential
from distributary.testing.check_transport import an_event
from distributary.testing.servers import PASSWORD, USER


class Way:
    """A transport and short words for what the tests do with it."""

    def __init__(self, transport):
        self.transport = transport
        self.login = Credential("PLAIN", USER, PASSWORD)

    def to(self, port, address="somewhere", *, scheme="amqp", host="127.0.0.1", **more):
        """A destination; *more* are settings, but for ``credential`` and the like."""
        own = {key: more.pop(key) for key in ("credential", "ca_certs", "format") if key in more}
        settings = AmqpSettings(address, **more)
        uri = f"{scheme}://{host}:{port}"
        return Destination(uri, protocol="AMQP", settings=settings, **own)

    def start(self, destination, event=None, timeout_s=5.0):
        """One attempt, to be awaited."""
        answer = asyncio.get_running_loop().create_future()
        self.transport.send(event or an_event(), destination, timeout_s, answer.set_result)
        return answer

    async def send(self, destination, event=None, timeout_s=5.0):
        """The answer to one attempt."""
        return await self.start(destination, event, timeout_s)


def a_connector():
    """With the rule for a server on loopback."""
    rule = AddressRule(loopback_allowed=True)
    return Connector(rule, CachingResolver(SystemResolver(), SystemClock()))


@contextlib.asynccontextmanager
async def _way():
    transport = make(a_connector(), SystemClock(), asyncio.get_running_loop())
    try:
        yield Way(transport)
    finally:
        await transport.close()


@pytest.fixture
def way():
    """Opens a ``Way``, inside the loop of a test."""
    return _way


@pytest.fixture
def connector():
    """Makes a connector, inside the loop of a test."""
    return a_connector


@pytest.fixture
def address():
    """A name that no other test uses."""
    return f"tests-{uuid.uuid4().hex}"


@pytest.fixture
def run():
    """Runs a coroutine on the loop that the server runs on."""
    return uvloop.run


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
