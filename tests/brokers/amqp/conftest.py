"""What the tests of AMQP share: a transport, destinations, attempts."""

import asyncio
import functools
import uuid

import pytest

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.protocols.amqp.settings import AmqpSettings
from distributary.protocols.amqp.sink import make
from distributary.testing.check_transport import an_event
from kit.servers import PASSWORD, USER


class Way:
    """A transport and short words for what the tests do with it."""

    def __init__(self, transport):
        self.transport = transport
        self.login = Credential("PLAIN", USER, PASSWORD)

    def to(self, port, address="somewhere", *, scheme="amqp", host="127.0.0.1", **more):
        """A destination; *more* are settings, but for ``credential`` and the like."""
        names = ("credential", "ca_certs", "client_certificate", "format")
        own = {key: more.pop(key) for key in names if key in more}
        settings = AmqpSettings(address, **more)
        uri = f"{scheme}://{host}:{port}"
        return Destination(uri, protocol="AMQP", settings=settings, **own)

    def start(self, destination, event=None, timeout_s=30.0):
        """One attempt, to be awaited."""
        answer = asyncio.get_running_loop().create_future()
        self.transport.send(event or an_event(), destination, timeout_s, answer.set_result)
        return answer

    async def send(self, destination, event=None, timeout_s=30.0):
        """The answer to one attempt."""
        return await self.start(destination, event, timeout_s)


@pytest.fixture
def way(opened):
    """Opens a ``Way``, inside the loop of a test."""
    return functools.partial(opened, make, Way)


@pytest.fixture
def address():
    """A name that no other test uses."""
    return f"tests-{uuid.uuid4().hex}"
