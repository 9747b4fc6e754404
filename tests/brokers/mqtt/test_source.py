"""The source of MQTT against Mosquitto: what is read, and when the broker may forget it."""

import asyncio
import contextlib
import socket
import uuid

import pytest
import uvloop
from paho.mqtt import publish
from paho.mqtt.client import MQTTv5, MQTTv311

from distributary.core.clock import SystemClock
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.source import Settlement, SourceSpec
from distributary.protocols.mqtt import binding
from distributary.protocols.mqtt import source as consumers
from distributary.testing.check_transport import an_event
from kit import fake_mqtt
from kit.fake_mqtt import FakeMqtt, packet
from kit.servers import PASSWORD, USER
from kit.servers.mosquitto import Mosquitto

BOTH = pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])
LOGIN = {"username": USER, "password": PASSWORD}


def a_source(port, place, protocol="MQTT5", name=None, **options):
    """A source with a name that no other test has."""
    return SourceSpec(
        name or f"source{uuid.uuid4().hex[:8]}",
        protocol,
        f"mqtt://127.0.0.1:{port}",
        place,
        options=options,
        credential=Credential("PLAIN", USER, PASSWORD),
    )


class Reader:
    """Runs a consumer and collects what it takes."""

    def __init__(self, connector, spec, settle=Settlement.TAKEN):
        self.messages = []
        self._came = asyncio.Event()
        self._settle = settle
        self._consumer = consumers.make(spec, connector(), SystemClock())
        self._reads = asyncio.Event()
        begin = self._consumer._begin

        async def begun(connection):
            await begin(connection)
            self._reads.set()

        self._consumer._begin = begun

    def _take(self, message):
        self.messages.append(message)
        self._came.set()
        if self._settle is not None:
            message.settle(self._settle)

    def refuse_all(self):
        """From now on, as they are taken."""
        self._settle = Settlement.REFUSED

    async def run(self, unsettled_max=100):
        """Until it ends."""
        await self._consumer.run(self._take, unsettled_max)

    async def has(self, count):
        """Wait until so many messages came."""
        async with asyncio.timeout(60.0):
            while len(self.messages) < count:
                self._came.clear()
                await self._came.wait()

    @contextlib.asynccontextmanager
    async def running(self, unsettled_max=100):
        """Runs beside the test; in time for what is published from then on."""
        task = await self.start(unsettled_max)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def start(self, unsettled_max=100):
        """The task that runs, once the broker has taken the subscription."""
        task = asyncio.ensure_future(self.run(unsettled_max))
        reads = asyncio.ensure_future(self._reads.wait())
        await asyncio.wait({task, reads}, return_when=asyncio.FIRST_COMPLETED)
        reads.cancel()
        assert not task.done(), task.exception()
        return task

    def ids(self):
        """Of the events that were taken."""
        return [m.event.attributes["id"] for m in self.messages if m.event is not None]


async def publish_all(server, topic, count, qos=1, first=0):
    """Structured events of MQTT 3, by somebody else."""
    messages = [
        {
            "topic": topic,
            "qos": qos,
            "payload": binding.encode_structured(an_event(number))[1],
        }
        for number in range(first, first + count)
    ]
    await asyncio.to_thread(
        publish.multiple, messages, "127.0.0.1", server.port, auth=LOGIN, protocol=MQTTv311
    )


@pytest.mark.parametrize("qos", [0, 1, 2])
@BOTH
def test_reads_a_topic_filter(mosquitto, connector, topic, protocol, qos):
    """In order, with the topic for people; both versions read what MQTT 3 has published."""

    async def scenario():
        spec = a_source(mosquitto.port, f"{topic}/+", protocol, qos=qos)
        async with Reader(connector, spec).running() as reader:
            await publish_all(mosquitto, f"{topic}/a", 50, qos)
            await reader.has(50)
            assert reader.ids() == [f"check-{number}" for number in range(50)]
            assert reader.messages[0].event == an_event()
            assert reader.messages[0].where == f"{topic}/a"

    uvloop.run(scenario())


def test_reads_binary_and_structured_mode(mosquitto, connector, way, topic):
    """As our own transport publishes them, with every setting."""

    async def scenario():
        spec = a_source(mosquitto.port, topic)
        async with Reader(connector, spec).running() as reader, way() as it:
            for mode in ("binary", "structured"):
                own = {"format": mode, "userproperties": (("X-Trace", "1"),), "expiry": 60}
                await it.send(it.to(mosquitto.port, topic, **own))
            await reader.has(2)
            assert [message.event for message in reader.messages] == [an_event()] * 2

    uvloop.run(scenario())


@BOTH
def test_what_is_no_event_is_handed_over_with_its_fault(mosquitto, connector, topic, protocol):
    """And acknowledged when it is refused: it must not come again."""

    async def scenario():
        spec = a_source(mosquitto.port, topic, protocol)
        async with Reader(connector, spec, Settlement.REFUSED).running() as reader:
            await asyncio.to_thread(
                publish.single,
                topic,
                b"hello",
                1,
                hostname="127.0.0.1",
                port=mosquitto.port,
                auth=LOGIN,
                protocol=MQTTv5,
            )
            await reader.has(1)
        (message,) = reader.messages
        assert message.event is None
        assert message.fault.faults
        again = Reader(connector, spec)
        async with again.running():
            await publish_all(mosquitto, topic, 1)
            await again.has(1)
        assert again.ids() == ["check-0"]
        assert len(again.messages) == 1

    uvloop.run(scenario())


@pytest.mark.parametrize("qos", [1, 2])
@BOTH
def test_what_is_not_settled_comes_again(mosquitto, connector, topic, protocol, qos):
    """To the next run of the same source; what was taken does not."""

    async def scenario():
        spec = a_source(mosquitto.port, topic, protocol, qos=qos)
        async with Reader(connector, spec, settle=None).running() as first:
            await publish_all(mosquitto, topic, 10, qos)
            await first.has(10)
            for message in first.messages[:4]:
                message.settle(Settlement.TAKEN)
            await asyncio.sleep(0.1)
        async with Reader(connector, spec).running() as second:
            await second.has(6)
            assert second.ids() == [f"check-{number}" for number in range(4, 10)]
        first.messages[5].settle(Settlement.TAKEN)  # too late, and harmless

    uvloop.run(scenario())


@BOTH
def test_what_comes_while_nobody_reads_waits(mosquitto, connector, topic, protocol):
    """The session outlives the connection."""

    async def scenario():
        spec = a_source(mosquitto.port, topic, protocol)
        async with Reader(connector, spec).running():
            pass
        await publish_all(mosquitto, topic, 5)
        async with Reader(connector, spec).running() as reader:
            await reader.has(5)

    uvloop.run(scenario())


@BOTH
def test_reading_pauses_beyond_what_is_unsettled(mosquitto, connector, topic, protocol):
    """And goes on with every message that is settled, in order."""

    async def scenario():
        spec = a_source(mosquitto.port, topic, protocol)
        async with Reader(connector, spec, settle=None).running(unsettled_max=3) as reader:
            await publish_all(mosquitto, topic, 20)
            await reader.has(3)
            await asyncio.sleep(0.2)
            assert len(reader.messages) == 3
            for index in range(20):
                await reader.has(index + 1)
                reader.messages[index].settle(Settlement.TAKEN)
            assert reader.ids() == [f"check-{number}" for number in range(20)]

    uvloop.run(scenario())


def test_what_waits_costs_no_stack(connector, until):
    """However many come that are refused as they are taken: the last one is acknowledged, too."""
    count = 1_000
    sent = b"".join(
        packet(0x32, b"\x00\x01t" + number.to_bytes(2, "big") + b"\x00x")
        for number in range(1, count + 1)
    )

    def script(came):
        return packet(0x90, came.packet_id + b"\x00\x01") + sent if came.kind == 8 else b""

    async def scenario():
        async with FakeMqtt(fake_mqtt.logs_in(5, script)) as broker:
            reader = Reader(connector, a_source(broker.port, "t"), settle=None)
            async with reader.running(unsettled_max=1):
                await reader.has(1)
                await asyncio.sleep(0.05)  # the others are here, and wait
                reader.refuse_all()
                reader.messages[0].settle(Settlement.REFUSED)
                await until(lambda: broker.packets[-1].packet_id == count.to_bytes(2, "big"))

    uvloop.run(scenario())


def test_messages_are_acknowledged_in_their_order(connector, until):
    """Whatever the order in which they are settled (4.6)."""
    sent = b"".join(
        packet(0x32, b"\x00\x01t" + bytes((0, number)) + b"\x00x") for number in (1, 2, 3)
    )

    def script(came):
        return packet(0x90, came.packet_id + b"\x00\x01") + sent if came.kind == 8 else b""

    async def scenario():
        async with FakeMqtt(fake_mqtt.logs_in(5, script)) as broker:
            spec = a_source(broker.port, "t")
            async with Reader(connector, spec, settle=None).running() as reader:
                await reader.has(3)
                for index in (2, 1):
                    reader.messages[index].settle(Settlement.REFUSED)
                await asyncio.sleep(0.05)
                acks = [came.body for came in broker.packets if came.kind == 4]
                assert acks == []
                reader.messages[0].settle(Settlement.TAKEN)
                await until(lambda: len([c for c in broker.packets if c.kind == 4]) == 3)
                acks = [came.body for came in broker.packets if came.kind == 4]
                assert acks == [b"\x00\x01", b"\x00\x02", b"\x00\x03"]

    uvloop.run(scenario())


@BOTH
def test_a_message_that_is_too_large_is_let_go(connector, monkeypatch, protocol):
    """Its payload is not kept, its fault is told, and the next message is read."""
    monkeypatch.setattr(consumers, "MESSAGE_BYTES_MAX", 1_000)
    version = int(protocol[-1])
    block = b"\x00" if version == 5 else b""
    body = b"\x00\x01t\x00\x01" + block + b"x" * 300_000
    huge = b"\x32" + bytes((len(body) & 0x7F | 0x80, len(body) >> 7 & 0x7F | 0x80, len(body) >> 14))
    event = binding.encode_structured(an_event())[1]
    small = b"\x00\x01t\x00\x02" + block + event
    small = b"\x32" + bytes((len(small) & 0x7F | 0x80, len(small) >> 7)) + small

    def script(came):
        granted = packet(0x90, came.packet_id + block + b"\x01")
        return granted + huge + body + small if came.kind == 8 else b""

    async def scenario():
        async with FakeMqtt(fake_mqtt.logs_in(version, script)) as broker:
            spec = a_source(broker.port, "t", protocol)
            async with Reader(connector, spec).running() as reader:
                await reader.has(2)
                assert [fault.code for fault in reader.messages[0].fault.faults] == ["too-large"]
                assert reader.messages[1].event == an_event()

    uvloop.run(scenario())


def test_a_message_that_cannot_be_read_is_told_and_acknowledged(connector, until):
    """Brokers pass on what they do not check; after an end it would come again, for ever."""
    torn = packet(0x32, b"\x00\x01t\x00\x01" + b"\x06\x26\x00\x01\xff\x00\x00" + b"x")

    def script(came):
        return packet(0x90, came.packet_id + b"\x00\x01") + torn if came.kind == 8 else b""

    async def scenario():
        async with FakeMqtt(fake_mqtt.logs_in(5, script)) as broker:
            spec = a_source(broker.port, "t")
            async with Reader(connector, spec, Settlement.REFUSED).running() as reader:
                await reader.has(1)
                assert [fault.code for fault in reader.messages[0].fault.faults] == ["malformed"]
                await until(lambda: broker.packets[-1].kind == 4)
                assert broker.packets[-1].packet_id == b"\x00\x01"
                assert broker.connections == 1

    uvloop.run(scenario())


def test_a_retained_message_is_read_once(mosquitto, connector, topic):
    """Not again with each connection (MQTT 5)."""

    async def scenario():
        payload = binding.encode_structured(an_event())[1]
        await asyncio.to_thread(
            publish.single,
            topic,
            payload,
            1,
            retain=True,
            hostname="127.0.0.1",
            port=mosquitto.port,
            auth=LOGIN,
        )
        spec = a_source(mosquitto.port, topic)
        async with Reader(connector, spec).running() as reader:
            await reader.has(1)
        async with Reader(connector, spec).running() as again:
            await publish_all(mosquitto, topic, 1, first=1)
            await again.has(1)
            assert again.ids() == ["check-1"]

    uvloop.run(scenario())


def test_a_broker_that_never_takes_the_subscription_is_left(connector, monkeypatch):
    """Though it answers everything else."""
    monkeypatch.setattr(consumers, "DIAL_S_MAX", 0.2)

    async def scenario():
        async with FakeMqtt(fake_mqtt.logs_in(5, lambda _: b""), trickle=True) as broker:
            with pytest.raises(TransportError) as caught:
                await Reader(connector, a_source(broker.port, "t")).run()
        return caught.value.reason

    assert uvloop.run(scenario()) == "timeout"


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws", "wss"])
def test_a_server_that_says_nothing_is_left(connector, monkeypatch, scheme):
    """At whatever step of a connection."""
    monkeypatch.setattr(consumers, "DIAL_S_MAX", 0.2)

    with socket.create_server(("127.0.0.1", 0)) as server:  # connects, and nobody is there
        spec = SourceSpec("s", "MQTT5", f"{scheme}://127.0.0.1:{server.getsockname()[1]}", "t")

        async def scenario():
            await Reader(connector, spec).run()

        with pytest.raises(TransportError) as caught:
            uvloop.run(scenario())
    assert caught.value.reason == "timeout"


def test_a_silent_broker_does_not_hold_up_the_end(authority, connector, monkeypatch, topic):
    """TLS has a goodbye of its own, which waits for the other side."""
    monkeypatch.setattr(consumers, "GOODBYE_S_MAX", 0.2)

    async def scenario(server):
        spec = SourceSpec(
            "s",
            "MQTT5",
            f"mqtts://localhost:{server.tls_port}",
            topic,
            credential=Credential("PLAIN", USER, PASSWORD),
            ca_certs=authority.ca_certs,
        )
        run = await Reader(connector, spec).start()
        server.pause()
        run.cancel()
        _, held_up = await asyncio.wait({run}, timeout=20.0)
        server.resume()
        assert not held_up

    with Mosquitto(authority) as server:
        uvloop.run(scenario(server))


def test_sources_share_a_filter(mosquitto, connector, until, topic):
    """Each message goes to one of them."""

    async def scenario():
        place = f"$share/group/{topic}"
        one = Reader(connector, a_source(mosquitto.port, place))
        two = Reader(connector, a_source(mosquitto.port, place))
        async with one.running(), two.running():
            await publish_all(mosquitto, topic, 40)
            await until(lambda: len(one.messages) + len(two.messages) == 40)
            assert one.messages
            assert two.messages

    uvloop.run(scenario())


@BOTH
def test_a_refused_login_is_told(mosquitto, connector, protocol):
    """Without the password."""
    spec = a_source(mosquitto.port, "t", protocol)
    spec = SourceSpec(
        spec.name, protocol, spec.uri, "t", credential=Credential("PLAIN", USER, "wrong")
    )
    with pytest.raises(TransportError) as caught:
        uvloop.run(Reader(connector, spec).run())
    assert caught.value.reason == "refused"
    assert "wrong" not in str(caught.value)


def test_a_refused_filter_is_told(connector):
    """With the broker's code."""
    script = fake_mqtt.logs_in(5, lambda came: packet(0x90, came.packet_id + b"\x00\x87"))

    async def scenario():
        async with FakeMqtt(script) as broker:
            await Reader(connector, a_source(broker.port, "t")).run()

    with pytest.raises(TransportError, match="0x87"):
        uvloop.run(scenario())


def test_a_filter_that_cannot_be_written_is_told(mosquitto, connector):
    """Before anything is read."""
    with pytest.raises(TransportError) as caught:
        uvloop.run(Reader(connector, a_source(mosquitto.port, "a\0b")).run())
    assert not caught.value.retryable


@BOTH
def test_a_broker_that_dies_ends_the_run(authority, connector, topic, protocol):
    """What was not settled comes again from the broker's disk."""

    async def scenario(server):
        spec = a_source(server.port, topic, protocol)
        reader = Reader(connector, spec, settle=None)
        run = await reader.start()
        await publish_all(server, topic, 10)
        await reader.has(10)
        await asyncio.to_thread(server.save)
        await asyncio.to_thread(server.kill)
        with pytest.raises(TransportError):
            await asyncio.wait_for(run, 30.0)
        await asyncio.to_thread(server.start)
        async with Reader(connector, spec).running() as second:
            await second.has(10)

    with Mosquitto(authority) as server:
        uvloop.run(scenario(server))
