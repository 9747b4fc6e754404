"""The transport passes the shipped suite over nats-server: JetStream and core, both modes."""

import asyncio
import contextlib
import uuid

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.protocols.nats import binding as nats
from distributary.protocols.nats import sink as transport
from distributary.protocols.nats.settings import NatsSettings
from distributary.testing import check_transport
from distributary.testing.check_transport import Behaviour
from kit.cutting_proxy import CuttingProxy, Fate
from kit.fake_nats import FakeNats
from kit.ports import free_port
from kit.servers import PASSWORD, USER

LOGIN = Credential("PLAIN", USER, PASSWORD)


class OutcomeChecker:
    """Subscribes natively and collects what arrives, byte for byte."""

    def __init__(self):
        self.events = []

    def taken(self, _sid, _subject, _reply, headers, payload):
        self.events.append(nats.decode(headers, payload))

    def denied(self, text):
        raise AssertionError(text)

    def lost(self, answer):
        pass


class NatsRig:
    """The transport, nats-server behind a wire, a checker, and servers that misbehave."""

    ordered = True

    def __init__(self, server, formats, jetstream):
        clock = SystemClock()
        resolver = CachingResolver(SystemResolver(), clock)
        self._connector = Connector(AddressRule(loopback_allowed=True), resolver)
        loop = asyncio.get_running_loop()
        self.transport = transport.make(self._connector, clock, loop)
        self.formats = formats
        self.acknowledged = jetstream is not False
        self._jetstream = jetstream
        self._server = server
        self._subject = f"check.{uuid.uuid4().hex}"
        self._checker = OutcomeChecker()
        silent = self._silent
        self._fakes = {
            Behaviour.HANG: FakeNats(silent, pongs_max=1),
            Behaviour.TRICKLE: FakeNats(silent, pongs_max=1, trickle=b"+OK\r\n"),
            Behaviour.RESET: FakeNats(lambda _: None),
        }

    @staticmethod
    def _silent(_message):
        return b""

    async def open(self, stack):
        for fake in self._fakes.values():
            await stack.enter_async_context(fake)
        self._cut = stack.enter_context(CuttingProxy(self._server.port))
        here = self._to(self._server.port, self._subject)
        connection = await transport.connect(self._connector, here, self._checker, 4 * 1024 * 1024)
        stack.push_async_callback(connection.close)
        connection.subscribe(self._subject)
        assert await connection.flush(5)
        stack.push_async_callback(self.transport.close)

    def destination(self, behaviour, format="binary"):
        subject = self._subject
        if behaviour is Behaviour.REFUSE:
            port = free_port()
        elif behaviour in self._fakes:
            port = self._fakes[behaviour].port
        elif "reply" in behaviour.value:
            return None
        else:
            port = self._cut.port
            if behaviour is Behaviour.REJECT:
                subject = "forbidden.check"
        return self._to(port, subject, format)

    def _to(self, port, subject, format="binary"):
        return Destination(
            f"nats://127.0.0.1:{port}",
            protocol="NATS",
            format=format,
            credential=LOGIN,
            settings=NatsSettings(subject, self._jetstream),
        )

    def arrived(self):
        return self._checker.events

    async def interrupt(self):
        await asyncio.to_thread(self._cut.reset)
        for fake in self._fakes.values():
            fake.reset()

    async def leave(self):
        await asyncio.to_thread(self._cut.cut, Fate.REFUSE)

    async def come_back(self):
        await asyncio.to_thread(self._cut.mend)


KINDS = {
    "jetstream-binary": (("binary", "structured"), True),
    "jetstream-structured": (("structured", "binary"), None),
    "core": (("binary", "structured"), False),
}


@pytest.fixture(scope="session")
def checked(nats_server):
    """The server, with a stream for what the checks send."""
    uvloop.run(nats_server.create_stream("CHECK", "check.>", "forbidden.check"))
    return nats_server


CASES = [
    pytest.param(kind, check, id=f"{kind}-{check.__name__}")
    for kind in KINDS
    for check in check_transport.CHECKS
    if kind != "jetstream-structured" or check in check_transport.CHECKS_OF_DELIVERIES
]
"""JetStream and core pass every check; the content mode is how an event is written, no more."""


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_keeps_every_promise_of_a_transport(checked, kind, check):
    """See the check's own docstring."""

    @contextlib.asynccontextmanager
    async def make_rig():
        async with contextlib.AsyncExitStack() as stack:
            rig = NatsRig(checked, *KINDS[kind])
            await rig.open(stack)
            yield rig

    uvloop.run(check(make_rig))
