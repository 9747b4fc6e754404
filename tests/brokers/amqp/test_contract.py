"""The transport passes the shipped suite over RabbitMQ and Artemis, in every mode."""

import asyncio
import contextlib
import uuid

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.protocols.amqp.engine import DeliveryState, Outcome
from distributary.protocols.amqp.settings import AmqpSettings
from distributary.protocols.amqp.sink import make
from distributary.testing import check_transport
from distributary.testing.check_transport import Behaviour
from kit import fake_amqp
from kit.amqp_checker import AmqpChecker
from kit.cutting_proxy import CuttingProxy, Fate
from kit.fake_amqp import FakeAmqp
from kit.ports import free_port
from kit.servers import PASSWORD, USER

pytestmark = pytest.mark.slow


class AmqpRig:
    """The transport, a broker behind a wire, a checker, and peers that misbehave."""

    ordered = True

    def __init__(self, server, address, formats, settled, scheme):
        clock = SystemClock()
        connector = Connector(
            AddressRule(loopback_allowed=True), CachingResolver(SystemResolver(), clock)
        )
        self.transport = make(connector, clock, asyncio.get_running_loop())
        self.formats = formats
        self.acknowledged = not settled
        self._scheme = scheme
        self._server = server
        self._address = address.format(uuid.uuid4().hex)
        rejects = fake_amqp.answers(Outcome(DeliveryState.REJECTED, "amqp:not-allowed"))
        self._fakes = {
            Behaviour.HANG: FakeAmqp(fake_amqp.hangs),
            Behaviour.TRICKLE: FakeAmqp(fake_amqp.trickles),
            Behaviour.RESET: FakeAmqp(fake_amqp.resets),
            Behaviour.REJECT: FakeAmqp(rejects),
        }

    async def open(self, stack):
        for fake in self._fakes.values():
            await stack.enter_async_context(fake)
        self._cut = stack.enter_context(CuttingProxy(self._server.port))
        self._checker = await stack.enter_async_context(
            AmqpChecker(self._server.port, self._address)
        )
        stack.push_async_callback(self.transport.close)

    def destination(self, behaviour, format="binary"):
        scheme, credential = "amqp", None
        if behaviour is Behaviour.ACCEPT:
            port, scheme = self._cut.port, self._scheme
            credential = Credential("PLAIN", USER, PASSWORD)
        elif behaviour is Behaviour.REFUSE:
            port = free_port()
        elif behaviour in self._fakes and self.acknowledged:
            port = self._fakes[behaviour].port
        else:
            return None
        return Destination(
            f"{scheme}://127.0.0.1:{port}",
            protocol="AMQP",
            format=format,
            credential=credential,
            settings=AmqpSettings(self._address, settled=not self.acknowledged),
        )

    def arrived(self):
        return self._checker.events()

    async def interrupt(self):
        await asyncio.to_thread(self._cut.reset)
        for fake in self._fakes.values():
            fake.reset()

    async def leave(self):
        await asyncio.to_thread(self._cut.cut, Fate.REFUSE)

    async def come_back(self):
        await asyncio.to_thread(self._cut.mend)


BOTH = ("binary", "structured")

KINDS = {
    "rabbitmq": ("rabbitmq", "/queue/{}", BOTH, False, "amqp"),
    "rabbitmq-settled": ("rabbitmq", "/queue/{}", ("structured",), True, "amqp"),
    "artemis": ("artemis", "{}", BOTH, False, "amqp"),
    "artemis-websocket": ("artemis", "{}", ("structured",), False, "ws"),
}

SHORTER = {
    "rabbitmq-settled": {
        "delivers_many_at_once",
        "delivers_a_big_body",
        "keeps_the_order_of_one_connection",
        "round_trips_events_in_every_format",
        "tells_of_a_refused_connection",
    },
    "artemis": {
        "delivers_many_at_once",
        "delivers_more_than_the_window_holds",
        "delivers_a_big_body",
        "round_trips_events_in_every_format",
        "ends_attempts_whose_connection_breaks",
        "connects_again_after_a_break",
    },
    "artemis-websocket": {
        "delivers_more_than_the_window_holds",
        "delivers_a_big_body",
        "round_trips_events_in_every_format",
        "connects_again_after_a_break",
        "closing_ends_attempts_under_way",
    },
}
"""What is checked where the rest would say nothing that the first kind does not."""

CASES = [
    pytest.param(kind, check, id=f"{kind}-{check.__name__}")
    for kind in KINDS
    for check in check_transport.CHECKS
    if check.__name__ in SHORTER.get(kind, {check.__name__})
]


def test_every_check_that_is_named_is_one():
    """A check that gets another name is not left out by mistake."""
    names = {check.__name__ for check in check_transport.CHECKS}
    assert set().union(*SHORTER.values()) <= names


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_keeps_every_promise_of_a_transport(request, kind, check):
    """See the check's own docstring."""
    server, *how = KINDS[kind]
    server = request.getfixturevalue(server)

    @contextlib.asynccontextmanager
    async def make_rig():
        async with contextlib.AsyncExitStack() as stack:
            rig = AmqpRig(server, *how)
            await rig.open(stack)
            yield rig

    uvloop.run(check(make_rig))
