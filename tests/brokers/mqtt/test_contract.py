"""The transport passes the shipped suite over Mosquitto: both versions, every mode and QoS."""

import asyncio
import contextlib
import uuid

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.protocols.mqtt.settings import MqttSettings
from distributary.protocols.mqtt.sink import make
from distributary.testing import check_transport
from distributary.testing.check_transport import Behaviour
from kit import fake_mqtt
from kit.cutting_proxy import CuttingProxy, Fate
from kit.fake_mqtt import FakeMqtt
from kit.mqtt_checker import MqttChecker
from kit.ports import free_port
from kit.servers import PASSWORD, USER
from kit.servers.mosquitto import FORBIDDEN


class MqttRig:
    """The transport, Mosquitto behind a wire, a checker, and brokers that misbehave."""

    ordered = True

    def __init__(self, server, protocol, formats, qos):
        clock = SystemClock()
        resolver = CachingResolver(SystemResolver(), clock)
        connector = Connector(AddressRule(loopback_allowed=True), resolver)
        self.transport = make(connector, clock, asyncio.get_running_loop())
        self.formats = formats
        self.acknowledged = qos > 0
        self._protocol = protocol
        self._qos = qos
        self._version = 5 if protocol == "MQTT5" else 3
        self._server = server
        self._topic = f"contract/{uuid.uuid4().hex}"
        self._fakes = {
            Behaviour.HANG: FakeMqtt(fake_mqtt.logs_in(self._version, lambda _: b"")),
            Behaviour.TRICKLE: FakeMqtt(
                fake_mqtt.logs_in(self._version, lambda _: b""), trickle=True
            ),
            Behaviour.RESET: FakeMqtt(fake_mqtt.logs_in(self._version, lambda _: None)),
        }

    async def open(self, stack):
        for fake in self._fakes.values():
            await stack.enter_async_context(fake)
        self._cut = stack.enter_context(CuttingProxy(self._server.port))
        checker = MqttChecker(self._server.port, self._topic, version=self._version)
        self._checker = stack.enter_context(checker)
        stack.push_async_callback(self.transport.close)

    def destination(self, behaviour, format="binary"):
        topic = self._topic
        if behaviour is Behaviour.ACCEPT:
            port = self._cut.port
        elif behaviour is Behaviour.REFUSE:
            port = free_port()
        elif behaviour in self._fakes and self.acknowledged:
            port = self._fakes[behaviour].port
        elif behaviour is Behaviour.REJECT and self.acknowledged and self._version == 5:
            port, topic = self._cut.port, FORBIDDEN
        else:
            return None
        return Destination(
            f"mqtt://127.0.0.1:{port}",
            protocol=self._protocol,
            format=format,
            credential=Credential("PLAIN", USER, PASSWORD),
            settings=MqttSettings(topic, self._qos),
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


KINDS = {
    "mqtt5-binary": ("MQTT5", ("binary", "structured"), 1),
    "mqtt5-structured-qos2": ("MQTT5", ("structured", "binary"), 2),
    "mqtt5-qos0": ("MQTT5", ("binary",), 0),
    "mqtt3": ("MQTT3", ("structured",), 1),
}


IN_FLIGHT = {*check_transport.CHECKS_OF_DELIVERIES, *check_transport.CHECKS_OF_CONNECTIONS}
CASES = [
    pytest.param(kind, check, id=f"{kind}-{check.__name__}")
    for kind in KINDS
    for check in check_transport.CHECKS
    if kind in {"mqtt5-binary", "mqtt3"} or check in IN_FLIGHT
]
"""Both versions pass every check. Quality of service and content mode count for what is written and
what is in flight; refusals, deadlines and the end know nothing of them."""


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_keeps_every_promise_of_a_transport(mosquitto, kind, check):
    """See the check's own docstring."""

    @contextlib.asynccontextmanager
    async def make_rig():
        async with contextlib.AsyncExitStack() as stack:
            rig = MqttRig(mosquitto, *KINDS[kind])
            await rig.open(stack)
            yield rig

    uvloop.run(check(make_rig))
