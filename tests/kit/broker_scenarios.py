"""A broker under test with a place, a relay before it, and an independent subscriber.

Called by ``broker_kills`` and ``benchmarks``. The subscribers are the protocols' usual clients.
Events are in structured mode, so that they can be read without our own bindings.
"""

import abc
import asyncio
import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self

from distributary.core.event import Event, json_format
from distributary.protocols.amqp.engine import AVAILABLE
from kit.cutting_proxy import CuttingProxy, Fate
from kit.mqtt_checker import MqttChecker
from kit.running_server import wait_until
from kit.servers import (
    PASSWORD,
    USER,
    Authority,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers.artemis import Artemis
from kit.servers.kafka import Kafka
from kit.servers.mosquitto import Mosquitto
from kit.servers.nats import NatsServer
from kit.servers.rabbitmq import RabbitMq

PLACE: Final = "trial"
"""Topic, subject, address and queue."""

QUIET_S: Final = 6.0
"""A queue that gives nothing for so long is empty."""

ANSWER_S_MAX: Final = 60.0
"""Longest wait for one answer of a broker."""

LOGIN: Final = {"credentialType": "PLAIN", "identifier": USER, "secret": PASSWORD}


class BrokerScenario(abc.ABC):
    """A broker, a place and a checker; a context manager that starts and prepares them.

    Args:
        server: The broker.
        cut: The relay; None: one to its plain listener.

    Attributes:
        protocol: Delivery protocol.
        server: The broker.
        cut: The relay between us and it. It is closed while the broker is away and until the
            checker is back: else the broker could lose events without a subscriber.
    """

    protocol: ClassVar[str]
    server: BrokerServer
    cut: CuttingProxy

    def __init__(self, server: BrokerServer, cut: CuttingProxy | None = None) -> None:
        self.server = server
        self.cut = cut or CuttingProxy(server.port)

    @property
    def name(self) -> str:
        """Of the broker."""
        return self.server.name

    @abc.abstractmethod
    def uri(self, port: int) -> str:
        """The URI of the broker at *port*: its own, or that of the wire."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """What ``protocolsettings`` say about the place."""

    def prepare(self) -> None:  # noqa: B027 - some need nothing
        """Have the place; called once."""

    def watch(self) -> None:  # noqa: B027 - most hold what came themselves
        """Have the checker listen; called after each start of the broker."""

    @abc.abstractmethod
    def events(self) -> list[Event]:
        """Every event that reached the place, copies included, when no more are to come."""

    def subscription(
        self,
        delivery: dict[str, Any],
        *,
        format_: Literal["binary", "structured"] = "structured",
        direct: bool = False,
    ) -> dict[str, Any]:
        """The subscription whose sink is the place.

        Args:
            delivery: Retries and waits.
            format_: Content mode; ``events`` reads structured ones alone.
            direct: Go past the wire.
        """
        return {
            "sink": self.uri(self.server.port if direct else self.cut.port),
            "protocol": self.protocol,
            "sinkcredential": LOGIN,
            "protocolsettings": {**self.settings, "format": format_, "delivery": delivery},
        }

    def restart(self) -> None:
        """After ``kill``: have it back, with its checker."""
        self.server.start()
        self.watch()

    def kill(self) -> None:
        """``kill -9`` the broker; the relay refuses until ``mend``."""
        self.server.kill()
        self.cut.cut(Fate.REFUSE)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.server)
            self.prepare()
            self.watch()
            stack.enter_context(self.cut)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


class MqttScenario(BrokerScenario):
    """Mosquitto; the checker subscribes at QoS 0, so the broker acknowledges after forwarding.

    Mosquitto acknowledges before it writes to disk: a kill loses what it has not forwarded, which
    its own rules permit.
    """

    protocol = "MQTT5"

    def __init__(self, authority: Authority) -> None:
        super().__init__(Mosquitto(authority))
        self._checkers: list[MqttChecker] = []

    def uri(self, port: int) -> str:
        """See ``BrokerScenario``."""
        return f"mqtt://127.0.0.1:{port}"

    @property
    def settings(self) -> dict[str, Any]:
        """See ``BrokerScenario``."""
        return {"topicname": PLACE, "qos": 1}

    def kill(self) -> None:
        """See ``BrokerScenario``; what the broker sent is read before its client goes."""
        super().kill()
        self._checkers[-1].read_on()
        self._checkers[-1].__exit__(None, None, None)

    def watch(self) -> None:
        """See ``BrokerScenario``; each life of the broker has its own client: it comes back."""
        checker = MqttChecker(self.server.port, PLACE, qos=0)
        checker.__enter__()
        self._checkers.append(checker)

    def events(self) -> list[Event]:
        """See ``BrokerScenario``."""
        return [seen.event() for checker in self._checkers for seen in checker.seen]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for checker in self._checkers[-1:]:
            checker.__exit__(None, None, None)
        super().__exit__(kind, error, trace)


class NatsScenario(BrokerScenario):
    """NATS, with a stream on disk."""

    protocol = "NATS"
    server: NatsServer

    def __init__(self, authority: Authority) -> None:
        super().__init__(NatsServer(authority))

    def uri(self, port: int) -> str:
        """See ``BrokerScenario``."""
        return f"nats://127.0.0.1:{port}"

    @property
    def settings(self) -> dict[str, Any]:
        """See ``BrokerScenario``."""
        return {"subject": PLACE, "jetstream": True}

    def prepare(self) -> None:
        """See ``BrokerScenario``."""
        asyncio.run(self.server.create_stream(PLACE, PLACE))

    def events(self) -> list[Event]:
        """See ``BrokerScenario``."""
        stored = asyncio.run(self.server.stored(PLACE))
        return [json_format.decode(payload) for _, _, payload in stored]


class KafkaScenario(BrokerScenario):
    """One Kafka broker, with a topic on disk."""

    protocol = "KAFKA"
    server: Kafka

    def __init__(self, authority: Authority) -> None:
        server = Kafka(authority)
        # At the address that its clients are told.
        cut = CuttingProxy(server.relayed_port, port=server.relay_port)
        super().__init__(server, cut)

    def uri(self, port: int) -> str:
        """See ``BrokerScenario``."""
        return f"kafka://127.0.0.1:{port}"

    @property
    def settings(self) -> dict[str, Any]:
        """See ``BrokerScenario``."""
        return {"topicname": PLACE, "acks": "all"}

    def prepare(self) -> None:
        """See ``BrokerScenario``."""
        self.server.create_topic(PLACE)

    def events(self) -> list[Event]:
        """See ``BrokerScenario``."""
        from confluent_kafka import (  # noqa: PLC0415 - only where Kafka is wanted
            Consumer,
            TopicPartition,
        )

        consumer = Consumer({**self.server.client(), "group.id": "witness"})
        try:
            place = TopicPartition(PLACE, 0, 0)
            _, end = consumer.get_watermark_offsets(place, ANSWER_S_MAX)
            consumer.assign([place])
            found = []
            for _ in range(end):
                message = consumer.poll(ANSWER_S_MAX)
                assert message is not None, "fewer messages than the topic says"
                found.append(json_format.decode(message.value() or b""))
            return found
        finally:
            consumer.close()


class AmqpScenario(BrokerScenario):
    """A broker of AMQP 1.0 with a durable queue, emptied at the end.

    Args:
        make: Makes the server.
        authority: Signs its certificate.

    Raises:
        ServerNotHadError: There is no client library for it here.
    """

    protocol = "AMQP"

    def __init__(self, make: Callable[[Authority], BrokerServer], authority: Authority) -> None:
        if not AVAILABLE:
            raise ServerNotHadError("python-qpid-proton is not installed")
        super().__init__(make(authority))

    def uri(self, port: int) -> str:
        """See ``BrokerScenario``."""
        return f"amqp://127.0.0.1:{port}"

    @property
    @abc.abstractmethod
    def address(self) -> str:
        """Where the queue is."""

    @property
    def settings(self) -> dict[str, Any]:
        """See ``BrokerScenario``."""
        return {"address": self.address}

    def events(self) -> list[Event]:
        """See ``BrokerScenario``."""
        return [json_format.decode(body) for body in self._bodies()]

    def _connect(self) -> Any:
        from proton.utils import BlockingConnection  # noqa: PLC0415 - an extra: needs a compiler

        return BlockingConnection(
            f"amqp://127.0.0.1:{self.server.port}",
            user=USER,
            password=PASSWORD,
            allowed_mechs="PLAIN",
            timeout=ANSWER_S_MAX,
        )

    def _bodies(self) -> Iterator[bytes]:
        from proton import Timeout  # noqa: PLC0415 - as above

        connection = self._connect()
        try:
            receiver = connection.create_receiver(self.address, credit=100)
            while True:
                with contextlib.suppress(Timeout):
                    message = receiver.receive(timeout=QUIET_S)
                    receiver.accept()
                    yield bytes(message.body)
                    continue
                return
        finally:
            connection.close()


class RabbitScenario(AmqpScenario):
    """RabbitMQ with its AMQP 1.0 plugin."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(RabbitMq, authority)

    @property
    def address(self) -> str:
        """See ``AmqpScenario``; of a queue that is there."""
        return f"/amq/queue/{PLACE}"

    def prepare(self) -> None:
        """Declare the queue: it outlives the broker only if a link says that its end is durable."""
        from proton import Link, Terminus  # noqa: PLC0415 - as above
        from proton.reactor import SenderOption  # noqa: PLC0415 - as above

        class Durable(SenderOption):
            def apply(self, link: Link) -> None:
                link.target.durability = Terminus.DELIVERIES
                link.target.expiry_policy = Terminus.EXPIRE_NEVER

        connection = self._connect()
        try:
            connection.create_sender(f"/queue/{PLACE}", options=Durable())
        finally:
            connection.close()
        server = self.server
        assert isinstance(server, RabbitMq)
        wait_until(lambda: server.has_on_disk(PLACE), ANSWER_S_MAX, "RabbitMQ has its queue", 0.05)


class ArtemisScenario(AmqpScenario):
    """Apache ActiveMQ Artemis."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(Artemis, authority)

    @property
    def address(self) -> str:
        """See ``AmqpScenario``."""
        return PLACE


SCENARIOS: Final[dict[str, Callable[[Authority], BrokerScenario]]] = {
    "mosquitto": MqttScenario,
    "nats": NatsScenario,
    "kafka": KafkaScenario,
    "rabbitmq": RabbitScenario,
    "artemis": ArtemisScenario,
}
"""Name of a broker -> its trial; made with an ``Authority``."""
