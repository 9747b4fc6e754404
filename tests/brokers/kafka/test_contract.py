"""The transport keeps what every transport promises, at a real broker."""

import asyncio
import contextlib
import itertools

import pytest

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.net import AddressRule, Connector, SystemResolver
from distributary.protocols.kafka import sink as transport
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.testing import check_transport
from distributary.testing.check_transport import Behaviour
from kit.cutting_proxy import CuttingProxy, Fate
from kit.kafka_checker import KafkaChecker
from kit.ports import free_port
from kit.servers import PASSWORD, USER
from kit.servers.kafka import FORBIDDEN
from kit.servers.kafka_relay import KafkaRelay

_numbers = itertools.count()

IN_FLIGHT_S_MAX = 30.0
"""Longest time until a broker has answered a request of an attempt: to connect takes a second."""


class Rig:
    """A broker behind a wire that can be cut, and behind another that holds answers back."""

    def __init__(self, kafka, acks: str, formats: tuple[str, ...]) -> None:
        self.formats = formats
        self.ordered = True
        self.acknowledged = acks != "0"
        self._kafka = kafka
        self._acks = acks
        self._topic = f"contract-{next(_numbers)}"
        self._away = free_port()
        connector = Connector(AddressRule(loopback_allowed=True), SystemResolver())
        self.transport = transport.make(connector, SystemClock(), asyncio.get_running_loop())
        self._cut = CuttingProxy(kafka.relayed_port, port=kafka.relay_port)
        self._relay = KafkaRelay(kafka.watched_port, kafka.watch_port)
        self._relay.holding = True
        self._hangs = False
        self._checker = KafkaChecker(kafka.client(), self._topic)

    def destination(self, behaviour, format="binary"):
        """A destination of that behaviour; Kafka answers with no events, and trickles nothing."""
        port = {
            Behaviour.ACCEPT: self._kafka.relay_port,
            Behaviour.REJECT: self._kafka.relay_port,
            Behaviour.REFUSE: self._away,
            Behaviour.HANG: self._kafka.watch_port,
        }.get(behaviour)
        if port is None or (self._acks == "0" and behaviour in {Behaviour.HANG, Behaviour.REJECT}):
            return None
        self._hangs = self._hangs or behaviour is Behaviour.HANG
        topic = FORBIDDEN if behaviour is Behaviour.REJECT else self._topic
        return Destination(
            f"kafka://127.0.0.1:{port}",
            protocol="KAFKA",
            credential=Credential("PLAIN", identifier=USER, secret=PASSWORD),
            format=format,
            settings=KafkaSettings(topic, acks=self._acks),
        )

    def arrived(self):
        """What a consumer of the topic has read so far."""
        return self._checker.events()

    async def interrupt(self):
        """Reset the connections.

        An attempt that was not sent yet would outlive it: the client keeps such records and
        connects again. So what hangs has to be in flight.
        """
        async with asyncio.timeout(IN_FLIGHT_S_MAX):
            while self._hangs and not self._relay.produced:  # noqa: ASYNC110 - of a thread
                await asyncio.sleep(0.01)
        await asyncio.to_thread(self._cut.reset)
        await asyncio.to_thread(self._relay.reset)

    async def leave(self):
        """Reset the connections, and take none."""
        await asyncio.to_thread(self._cut.cut, Fate.REFUSE)

    async def come_back(self):
        """Take connections again."""
        await asyncio.to_thread(self._cut.mend)

    @contextlib.asynccontextmanager
    async def opened(self):
        """Topic, wires and reader, and their end."""
        await asyncio.to_thread(
            self._kafka.create_topic, self._topic, max_message_bytes=str(2 * 1024 * 1024)
        )
        with self._cut, self._relay, self._checker:
            try:
                yield self
            finally:
                await self.transport.close()


UNACKNOWLEDGED = (
    *check_transport.CHECKS_OF_DELIVERIES,
    *check_transport.CHECKS_OF_CONNECTIONS,
)
"""What is otherwise without acknowledgements; refusals, deadlines and the end know no ``acks``."""

CASES = [
    pytest.param(acks, check, id=f"{acks}-{check.__name__}")
    for acks, checks in (("all", check_transport.CHECKS), ("0", UNACKNOWLEDGED))
    for check in checks
]


@pytest.mark.slow
@pytest.mark.parametrize(("acks", "check"), CASES)
def test_contract(kafka, acks, check):
    """Every check of the suite; those that depend on it for acks=0 as well."""
    formats = ("binary", "structured") if acks == "all" else ("binary",)

    asyncio.run(check(lambda: Rig(kafka, acks, formats).opened()))
