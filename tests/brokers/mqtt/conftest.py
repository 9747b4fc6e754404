"""What the tests of MQTT share: a transport, destinations, attempts."""

import asyncio
import functools
import uuid

import pytest

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.protocols.mqtt.settings import MqttSettings
from distributary.protocols.mqtt.sink import make
from distributary.testing.check_transport import an_event
from kit.servers import PASSWORD, USER


class Way:
    """A transport and short words for what the tests do with it."""

    def __init__(self, until, transport):
        self.until = until
        self.transport = transport
        self.credential = Credential("PLAIN", USER, PASSWORD)

    def to(self, port, topic, qos=1, *, protocol="MQTT5", uri=None, ca_certs=None, **more):
        """A destination; *more* are settings, ``credential`` and ``format`` apart."""
        credential = more.pop("credential", self.credential)
        mode = more.pop("format", "binary")
        certificate = more.pop("client_certificate", None)
        return Destination(
            uri or f"mqtt://127.0.0.1:{port}",
            protocol=protocol,
            format=mode,
            credential=credential,
            settings=MqttSettings(topic, qos, **more),
            ca_certs=ca_certs,
            client_certificate=certificate,
        )

    async def send(self, destination, event=None, timeout_s=30.0):
        """The answer to one attempt."""
        answer = asyncio.get_running_loop().create_future()
        self.transport.send(event or an_event(), destination, timeout_s, answer.set_result)
        return await answer

    def start(self, destination, event=None, timeout_s=30.0):
        """The same, to be awaited later."""
        return asyncio.ensure_future(self.send(destination, event, timeout_s))


@pytest.fixture
def way(opened, until):
    """Opens a ``Way``, inside the loop of a test."""
    return functools.partial(opened, make, functools.partial(Way, until))


@pytest.fixture
def topic():
    """A topic that no other test uses."""
    return f"tests/{uuid.uuid4().hex}"
