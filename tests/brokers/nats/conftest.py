"""What the tests of NATS share: a transport, destinations, attempts, streams."""

import asyncio
import functools
import uuid

import pytest

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.core.policy import delivered
from distributary.protocols.nats.settings import NatsSettings
from distributary.protocols.nats.sink import make
from distributary.testing.check_transport import an_event
from kit.servers import PASSWORD, USER

AGAIN_S_MAX = 60.0
"""Longest wait until a server that was away takes events again, on a busy machine."""


class Way:
    """A transport and short words for what the tests do with it."""

    def __init__(self, transport):
        self.transport = transport
        self.credential = Credential("PLAIN", USER, PASSWORD)

    def to(self, port, subject, *, jetstream=None, uri=None, **more):
        """A destination; *more* are fields of ``Destination``."""
        more.setdefault("credential", self.credential)
        return Destination(
            uri or f"nats://127.0.0.1:{port}",
            protocol="NATS",
            settings=NatsSettings(subject, jetstream),
            **more,
        )

    async def send(self, destination, event=None, timeout_s=30.0, identity=""):
        """The answer to one attempt."""
        answer = asyncio.get_running_loop().create_future()
        event = event or an_event()
        self.transport.send(event, destination, timeout_s, answer.set_result, identity)
        return await answer

    async def send_all(self, destination, count, timeout_s=30.0):
        """The answers to *count* attempts that are made at once."""
        events = [an_event(number) for number in range(count)]
        return await asyncio.gather(*[self.send(destination, event, timeout_s) for event in events])

    async def delivers_again(self, destination):
        """Try until an event goes through."""
        async with asyncio.timeout(AGAIN_S_MAX):
            answer = await self.send(destination, an_event(99_999), 2.0)
            while not delivered(answer):
                await asyncio.sleep(0.05)
                answer = await self.send(destination, an_event(99_999), 2.0)


@pytest.fixture
def way(opened):
    """Opens a ``Way``, inside the loop of a test."""
    return functools.partial(opened, make, Way)


@pytest.fixture
def name():
    """A word that no other test uses: for streams, subjects and sources."""
    return f"t{uuid.uuid4().hex}"
