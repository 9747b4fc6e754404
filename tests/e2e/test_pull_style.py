"""Consumer-solicited ("pull") delivery: events come and go through real brokers, end to end.

A subscription of ours pushes into a place at a broker, and native subscribers, the protocols' own
client libraries, take events from there (Subscriptions API 3.1). A source reads what native
publishers put at a broker. One server, all brokers, both directions.
"""

import asyncio
import contextlib
import json
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from distributary.protocols.amqp.engine import AVAILABLE
from kit.running_server import RunningServer, clean_environ, wait_until
from kit.servers import PASSWORD, USER, BrokerServer
from kit.servers.fixtures import (
    authority,
    kafka,
    mosquitto,
    nats_server,
    not_run,
    rabbitmq,
)

__all__ = ["authority", "kafka", "mosquitto", "nats_server", "rabbitmq"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0
"""Longest wait for an event: longer means that it never comes."""

FIXTURES = {"MQTT5": "mosquitto", "AMQP": "rabbitmq", "NATS": "nats_server", "KAFKA": "kafka"}
NEXT = {"MQTT5": "NATS", "NATS": "KAFKA", "KAFKA": "AMQP", "AMQP": "MQTT5"}
"""Protocol that a source reads -> protocol that its events leave by."""

CREDENTIAL = {"credentialType": "PLAIN", "identifier": USER, "secret": PASSWORD}
DATA = b'{"amount": 1.50, "who": "\xc3\xa9"}'


class Arrived(NamedTuple):
    """An event as a native subscriber sees it."""

    type: str
    id: str
    content_type: str
    data: bytes


class Native(Protocol):
    """A client of a broker that knows nothing of us."""

    def publish(self, id_: str, type_: str) -> None:
        """Put an event with ``DATA`` where the source reads."""
        ...

    def arrived(self) -> list[Arrived]:
        """Events that came where a subscription pushes, since the last call."""
        ...


def _attributes(id_: str, type_: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": id_, "source": "/native", "type": type_}


class NativeMqtt:
    """paho, with a subscription by a wildcard."""

    place = "pull/orders"
    filter = "in/+/orders"

    def __init__(self, server: BrokerServer) -> None:
        from paho.mqtt import client as paho  # noqa: PLC0415 - one library a protocol
        from paho.mqtt.packettypes import PacketTypes  # noqa: PLC0415
        from paho.mqtt.properties import Properties  # noqa: PLC0415

        self._properties = lambda: Properties(PacketTypes.PUBLISH)
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.username_pw_set(USER, PASSWORD)
        self._client.on_message = lambda _client, _state, message: self._messages.put(message)
        self._client.connect("127.0.0.1", server.port)
        subscribed: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._client.on_subscribe = lambda *_: subscribed.put(True)
        self._client.loop_start()
        self._client.subscribe("pull/#", qos=1)
        subscribed.get(timeout=ARRIVE_S_MAX)

    def publish(self, id_: str, type_: str) -> None:
        properties = self._properties()
        properties.UserProperty = list(_attributes(id_, type_).items())
        properties.ContentType = "application/json"
        self._client.publish("in/a/orders", DATA, 1, properties=properties).wait_for_publish()

    def arrived(self) -> list[Arrived]:
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._messages.get_nowait()
                said = dict(message.properties.UserProperty)
                kind = message.properties.ContentType
                found.append(Arrived(said["type"], said["id"], kind, message.payload))
        return found

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class NativeAmqp:
    """proton's blocking client."""

    place = "/amq/queue/pull-orders"

    def __init__(self, server: BrokerServer) -> None:
        if not AVAILABLE:
            not_run("amqp", "python-qpid-proton is not installed")
        import proton  # noqa: PLC0415 - one library a protocol
        from proton.reactor import LinkOption  # noqa: PLC0415
        from proton.utils import BlockingConnection  # noqa: PLC0415

        class Durable(LinkOption):  # type: ignore[misc] # proton has no types
            """RabbitMQ makes a queue that is kept."""

            def apply(self, link: Any) -> None:
                link.source.durability = link.target.durability = proton.Terminus.CONFIGURATION

        self._proton = proton
        self._connection = BlockingConnection(
            f"amqp://127.0.0.1:{server.port}",
            user=USER,
            password=PASSWORD,
            allowed_mechs="PLAIN",
            timeout=ARRIVE_S_MAX,
        )
        self._sender = self._connection.create_sender("/queue/in-orders", options=Durable())
        self._receiver = self._connection.create_receiver(
            "/queue/pull-orders", credit=10, options=Durable()
        )

    def publish(self, id_: str, type_: str) -> None:
        message = self._proton.Message(DATA, inferred=True, content_type="application/json")
        said = _attributes(id_, type_)
        message.properties = {f"cloudEvents:{name}": value for name, value in said.items()}
        self._sender.send(message)

    def arrived(self) -> list[Arrived]:
        found = []
        with contextlib.suppress(self._proton.Timeout):
            while True:
                message = self._receiver.receive(timeout=0.2)
                self._receiver.accept()
                said = message.properties
                names = said["cloudEvents:type"], said["cloudEvents:id"]
                found.append(Arrived(*names, message.content_type, bytes(message.body)))
        return found

    def close(self) -> None:
        self._connection.close()


class NativeNats:
    """nats-py, with a subscription by a wildcard."""

    place = "pull.orders"

    def __init__(self, server: Any) -> None:
        self._runner = asyncio.Runner()
        self._messages: list[Any] = []
        self._runner.run(server.create_stream("IN", "in.>"))
        self._client = self._runner.run(self._open(server))

    async def _open(self, server: Any) -> Any:
        client = await server.client()

        async def keep(message: Any) -> None:
            self._messages.append(message)

        await client.subscribe("pull.*", cb=keep)
        await client.flush()
        return client

    def publish(self, id_: str, type_: str) -> None:
        headers = {f"ce-{name}": value for name, value in _attributes(id_, type_).items()}
        headers["content-type"] = "application/json"
        jetstream = self._client.jetstream()
        self._runner.run(jetstream.publish("in.a.orders", DATA, headers=headers))

    def arrived(self) -> list[Arrived]:
        self._runner.run(asyncio.sleep(0.1))
        messages, self._messages = self._messages, []
        return [
            Arrived(
                message.headers["ce-type"],
                message.headers["ce-id"],
                message.headers.get("content-type") or message.headers["ce-datacontenttype"],
                message.data,
            )
            for message in messages
        ]

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class NativeKafka:
    """confluent-kafka's consumer, from the beginning of the topic."""

    place = "pull-orders"

    def __init__(self, server: Any) -> None:
        import confluent_kafka  # noqa: PLC0415 - one library a protocol

        server.create_topic("in-orders")
        server.create_topic(self.place)
        known = server.client()
        self._producer = confluent_kafka.Producer(known)
        group = {"group.id": "native", "auto.offset.reset": "earliest"}
        self._consumer = confluent_kafka.Consumer(known | group)
        self._consumer.subscribe([self.place])

    def publish(self, id_: str, type_: str) -> None:
        headers = [(f"ce_{name}", value) for name, value in _attributes(id_, type_).items()]
        headers.append(("content-type", "application/json"))
        self._producer.produce("in-orders", DATA, headers=headers)
        self._producer.flush(ARRIVE_S_MAX)

    def arrived(self) -> list[Arrived]:
        found = []
        while (message := self._consumer.poll(0.2)) is not None:
            assert message.error() is None
            said = {name: value.decode() for name, value in message.headers()}
            names = said["ce_type"], said["ce_id"], said["content-type"]
            found.append(Arrived(*names, message.value()))
        return found

    def close(self) -> None:
        self._consumer.close()


NATIVES = {"MQTT5": NativeMqtt, "AMQP": NativeAmqp, "NATS": NativeNats, "KAFKA": NativeKafka}

SOURCES = {
    "MQTT5": {"topicfilter": NativeMqtt.filter},
    "AMQP": {"address": "/amq/queue/in-orders"},
    "NATS": {"subject": "in.>"},
    "KAFKA": {"topicname": "in-orders"},
}


class World:
    """The server, and the brokers that can be had."""

    def __init__(self, natives: dict[str, Any], servers: dict[str, BrokerServer]) -> None:
        self.natives = natives
        self.servers = servers
        self.server: RunningServer

    def native(self, protocol: str) -> Any:
        """The client of a broker."""
        if protocol not in self.natives:
            pytest.skip(f"NOT RUN: {FIXTURES[protocol]}: its broker cannot be had here")
        return self.natives[protocol]

    def uri(self, protocol: str) -> str:
        """The broker."""
        scheme = {"MQTT5": "mqtt"}.get(protocol, protocol.lower())
        return f"{scheme}://127.0.0.1:{self.servers[protocol].port}"

    def configuration(self) -> str:
        """``[[sources]]`` of all brokers."""
        lines: list[str] = []
        for protocol in self.natives:
            keys = {"name": f"from-{protocol.lower()}", "protocol": protocol}
            keys |= {"uri": self.uri(protocol), **SOURCES[protocol]}
            keys |= {"identifier": USER, "secret_env": "BROKER_PASSWORD"}
            lines += ["[[sources]]", *(f"{key} = {json.dumps(keys[key])}" for key in keys)]
        return "\n".join(lines) + "\n"

    def subscribe(self, protocol: str, types: str) -> None:
        """Push events whose type begins with *types* to the place of a broker."""
        place = NATIVES[protocol].place
        key = {"MQTT5": "topicname", "AMQP": "address", "NATS": "subject", "KAFKA": "topicname"}
        self.server.subscribe(
            self.uri(protocol),
            protocol=protocol,
            protocolsettings={key[protocol]: place},
            sinkCredential=CREDENTIAL,
            filters=[{"prefix": {"type": types}}],
        )


@pytest.fixture(scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Everything, started once."""
    servers: dict[str, BrokerServer] = {}
    folder = tmp_path_factory.mktemp("pull")
    with contextlib.ExitStack() as stack:
        natives: dict[str, Any] = {}
        for protocol, name in FIXTURES.items():
            with contextlib.suppress(pytest.skip.Exception):
                servers[protocol] = request.getfixturevalue(name)
                native = NATIVES[protocol](servers[protocol])
                stack.callback(native.close)
                natives[protocol] = native
        world = World(natives, servers)
        file = folder / "distributary.toml"
        file.write_text(world.configuration())
        world.server = stack.enter_context(_server(folder, file))
        yield world


def _server(folder: Path, file: Path) -> RunningServer:
    environ = clean_environ() | {"BROKER_PASSWORD": PASSWORD}
    return RunningServer(folder / "data", flags=["--config", str(file)], environ=environ)


def _wait(native: Any, count: int) -> list[Arrived]:
    found: list[Arrived] = []

    def there() -> bool:
        found.extend(native.arrived())
        return len(found) >= count

    wait_until(there, ARRIVE_S_MAX, f"{count} events; there are {found}")
    return found


@pytest.mark.parametrize("protocol", NATIVES)
@pytest.mark.clause("subscriptions-api.native.pull")
def test_native_subscribers_take_what_a_subscription_pushes(world: World, protocol: str) -> None:
    """The filtered events, whole, by the protocol's own client; the others stay out."""
    native = world.native(protocol)
    types = f"com.example.{protocol.lower()}"
    world.subscribe(protocol, f"{types}.wanted")
    for type_, name in ((f"{types}.other", "no"), (f"{types}.wanted.one", "1")):
        fields = {f"ce-{key}": value for key, value in _attributes(name, type_).items()}
        fields["content-type"] = "application/json"
        assert world.server.request("POST", "/events", DATA, fields).status == 202
    assert _wait(native, 1) == [Arrived(f"{types}.wanted.one", "1", "application/json", DATA)]


@pytest.mark.parametrize("protocol", NATIVES)
def test_a_source_brings_events_of_one_broker_to_another(world: World, protocol: str) -> None:
    """Native publisher, broker, source, log, filter, another broker, native subscriber."""
    native, beyond = world.native(protocol), world.native(NEXT[protocol])
    types = f"com.example.from-{protocol.lower()}"
    world.subscribe(NEXT[protocol], types)
    label = f'{{result="taken",source="from-{protocol.lower()}"}}'
    for name in ("1", "2", "3"):
        native.publish(name, types)
    arrived = _wait(beyond, 3)
    assert sorted(arrived) == [Arrived(types, str(n), "application/json", DATA) for n in (1, 2, 3)]
    taken = f"source_messages_total{label}"
    wait_until(lambda: world.server.metrics().get(taken) == 3, ARRIVE_S_MAX, "3 are counted")


def test_sources_show_in_the_metrics_that_they_read(world: World) -> None:
    """One gauge each; and their process is one of those that are kept running."""
    if not world.natives:
        pytest.skip("NOT RUN: no broker can be had here")

    def all_read() -> bool:
        metrics = world.server.metrics()
        gauges = [f'source_reading{{source="from-{name.lower()}"}}' for name in world.natives]
        return all(metrics.get(gauge) == 1 for gauge in gauges)

    wait_until(all_read, ARRIVE_S_MAX, "all sources read")
    assert world.server.metrics()['process_restarts_total{process="sources"}'] == 0
