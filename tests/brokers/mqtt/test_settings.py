"""Every setting of a subscription is seen by a subscriber that is not ours."""

import pytest
import uvloop

from distributary.core.event import Event
from distributary.core.policy import delivered
from distributary.testing.check_transport import an_event
from kit import fake_mqtt
from kit.fake_mqtt import FakeMqtt, packet
from kit.mqtt_checker import MqttChecker
from kit.servers.mosquitto import Mosquitto

BOTH = pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])


async def seen(way, server, topic, *, protocol="MQTT5", event=None, qos=1, **settings):
    """What the checker gets of one event."""
    version = 5 if protocol == "MQTT5" else 3
    with MqttChecker(server.port, topic, version=version) as checker:
        async with way() as it:
            destination = it.to(server.port, topic, qos, protocol=protocol, **settings)
            answer = await it.send(destination, event or an_event())
            assert delivered(answer), answer
            await it.until(lambda: checker.seen)
    (message,) = checker.seen
    return message


@pytest.mark.clause("subscriptions-api.settings.mqtt.topicname")
@BOTH
def test_publishes_to_the_topic(mosquitto, way, topic, protocol):
    """Topic names may hold anything but wildcards."""
    name = f"{topic}/a b/é/ü"
    message = uvloop.run(seen(way, mosquitto, name, protocol=protocol))
    assert message.topic == name
    assert message.event() == an_event()


@pytest.mark.clause("subscriptions-api.settings.mqtt.qos")
@pytest.mark.clause("subscriptions-api.settings.mqtt.others")
@pytest.mark.parametrize("qos", [0, 1, 2])
@BOTH
def test_publishes_with_the_quality_of_service(mosquitto, way, topic, protocol, qos):
    """The checker subscribes with the highest, so it sees the publisher's."""
    message = uvloop.run(seen(way, mosquitto, topic, protocol=protocol, qos=qos))
    assert message.qos == qos
    assert message.event() == an_event()


@pytest.mark.clause("subscriptions-api.settings.mqtt.retain")
@pytest.mark.parametrize("retain", [False, True])
@BOTH
def test_retains_where_asked(mosquitto, way, topic, protocol, retain):
    """Who subscribes later gets the last event, if it was to be kept."""

    async def scenario():
        async with way() as it:
            kept = it.to(mosquitto.port, topic, protocol=protocol, retain=retain)
            await it.send(kept)
            with MqttChecker(mosquitto.port, topic) as checker:
                await it.send(it.to(mosquitto.port, topic, protocol=protocol), an_event(1))
                await it.until(lambda: len(checker.seen) == (2 if retain else 1))
        return checker

    checker = uvloop.run(scenario())
    assert [message.retain for message in checker.seen] == ([True, False] if retain else [False])


@pytest.mark.clause("subscriptions-api.settings.mqtt.expiry")
def test_says_when_the_message_expires(mosquitto, way, topic):
    """The broker passes on what is left of the interval."""
    message = uvloop.run(seen(way, mosquitto, topic, expiry=600))
    assert 590 <= message.properties["MessageExpiryInterval"] <= 600


@pytest.mark.clause("subscriptions-api.settings.mqtt.userproperties")
def test_sends_the_properties_of_the_subscription(mosquitto, way, topic):
    """Beside those of the event; a name may stand more than once."""
    own = (("Tenant", "é 1"), ("Tenant", "2"))
    message = uvloop.run(seen(way, mosquitto, topic, userproperties=own))
    assert message.properties["UserProperty"][:2] == list(own)
    assert message.event() == an_event()


def test_an_attribute_of_the_event_wins_over_a_property(mosquitto, way, topic):
    """Two values of one name would leave to the receiver which one is the event's."""
    event = Event(an_event().attributes | {"tenant": "mine"}, b"{}")
    message = uvloop.run(
        seen(
            way,
            mosquitto,
            topic,
            event=event,
            userproperties=(("tenant", "yours"), ("other", "x")),
        )
    )
    pairs = message.properties["UserProperty"]
    assert [value for name, value in pairs if name == "tenant"] == ["mine"]
    assert ("other", "x") in pairs


def test_binary_mode_has_attributes_as_user_properties(mosquitto, way, topic):
    """Under their own names, the content type apart, and the data as they are (binding 3.1)."""
    attributes = an_event().attributes | {"count": 7, "flag": True}
    data = bytes(range(256))
    message = uvloop.run(seen(way, mosquitto, topic, event=Event(attributes, data)))
    assert message.payload == data
    assert message.properties["ContentType"] == "application/json"
    expected = {**attributes, "count": "7", "flag": "true"}
    del expected["datacontenttype"]
    assert dict(message.properties["UserProperty"]) == expected


def test_structured_mode_says_its_content_type(mosquitto, way, topic):
    """Binding, section 3.2.1."""
    message = uvloop.run(seen(way, mosquitto, topic, format="structured"))
    assert message.properties == {"ContentType": "application/cloudevents+json; charset=utf-8"}
    assert message.event() == an_event()


def test_mqtt_3_is_structured_whatever_is_asked_for(mosquitto, way, topic):
    """It has no place for attributes (binding, section 1.3)."""
    message = uvloop.run(seen(way, mosquitto, topic, protocol="MQTT3", format="binary"))
    assert message.payload.startswith(b"{")
    assert message.event() == an_event()


def test_settings_of_mqtt_5_are_not_written_in_mqtt_3(mosquitto, way, topic):
    """They are refused on create (decision 27); here nothing of them gets onto the wire."""
    more = {"expiry": 5, "userproperties": (("a", "b"),)}
    message = uvloop.run(seen(way, mosquitto, topic, protocol="MQTT3", **more))
    assert message.event() == an_event()


@BOTH
def test_introduces_itself(way, protocol):
    """Version, a clean session, keepalive, and a name of its own for each connection."""
    version = 5 if protocol == "MQTT5" else 3
    script = fake_mqtt.logs_in(version, lambda came: packet(0x40, came.packet_id))

    async def scenario():
        async with FakeMqtt(script) as broker:
            for _ in range(2):
                async with way() as it:
                    await it.send(it.to(broker.port, "t", protocol=protocol))
            return [came.body for came in broker.packets if came.kind == 1]

    logins = uvloop.run(scenario())
    for body in logins:
        assert body[:7] == b"\x00\x04MQTT" + (b"\x05" if version == 5 else b"\x04")
        assert body[7] == 0xC2  # user name, password, clean
        assert body[8:10] == b"\x00\x0a"
    names = [body[body.index(b"distributary") :][:22] for body in logins]
    assert names[0] != names[1]


def test_a_broker_that_retains_nothing_is_not_asked_to(way, authority, topic):
    """Nor one that takes QoS 1 at most is sent QoS 2: Mosquitto would end the connection."""

    async def scenario(server):
        async with way() as it:
            return [
                await it.send(it.to(server.port, topic, retain=True)),
                await it.send(it.to(server.port, topic, 2)),
                await it.send(it.to(server.port, topic), an_event(data=b"x" * 3_000)),
                await it.send(it.to(server.port, topic)),
            ]

    with Mosquitto(authority, retains=False, qos_max=1, packet_bytes_max=2_000) as server:
        answers = uvloop.run(scenario(server))
    assert [answer.code for answer in answers] == ["0x9A", "0x9B", "0x95", "0x10"]


def test_a_message_that_the_broker_finds_too_large_is_told(way, authority, topic):
    """Mosquitto's ``message_size_limit`` is an answer of its own to MQTT 5."""

    async def scenario(server):
        async with way() as it:
            return [
                await it.send(it.to(server.port, topic, qos), an_event(data=b"x" * 3_000))
                for qos in (1, 2)
            ]

    with Mosquitto(authority, message_bytes_max=2_000) as server:
        answers = uvloop.run(scenario(server))
    assert [answer.code for answer in answers] == ["0x95", "0x95"]
