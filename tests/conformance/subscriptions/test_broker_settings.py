"""Subscriptions API 3.2.2.2 to 3.2.2.5: the settings of MQTT, AMQP, Kafka and NATS.

What they do at a broker is shown by the tests of ``tests/brokers`` with the same clauses.
"""

import pytest

S = "$.protocolsettings"


def realized(sut, protocol, sink, **settings):
    """The settings of such a subscription, but those that every protocol has."""
    answer = sut.create(protocol=protocol, sink=sink, protocolsettings=settings)
    assert answer.status == 201, answer.body
    found = answer.json()["protocolsettings"]
    return {name: value for name, value in found.items() if name not in {"format", "delivery"}}


def faults(sut, protocol, sink, **settings):
    """Path -> code of what is wrong with such a subscription."""
    return sut.faults(sut.create(protocol=protocol, sink=sink, protocolsettings=settings))


MQTT = pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])


@MQTT
@pytest.mark.clause("subscriptions-api.settings.mqtt.topicname")
@pytest.mark.clause("subscriptions-api.settings.mqtt.topicname.required")
def test_mqtt_needs_a_topic(sut, protocol):
    """One to publish to: no wildcards, nothing that MQTT cannot say."""
    sink = "mqtt://example.com"
    assert faults(sut, protocol, sink) == {f"{S}.topicname": "missing"}
    for bad in ("", "a/+", "#", "a\0b", "$SYS/x", "x" * 65_536, 1):
        assert list(faults(sut, protocol, sink, topicname=bad)) == [f"{S}.topicname"]
    for good in ("a", "/", "a//é", "x" * 65_535, "$aws/rules/x"):
        assert realized(sut, protocol, sink, topicname=good)["topicname"] == good


@MQTT
@pytest.mark.clause("subscriptions-api.settings.mqtt.qos")
@pytest.mark.clause("subscriptions-api.settings.mqtt.retain")
def test_mqtt_is_at_least_once_and_not_retained_by_default(sut, protocol):
    """Both can be said; a boolean is no level, and a number no flag."""
    sink = "mqtts://example.com:8884"
    plain = realized(sut, protocol, sink, topicname="t")
    assert (plain["qos"], plain["retain"]) == (1, False)
    for qos in (0, 1, 2):
        found = realized(sut, protocol, sink, topicname="t", qos=qos, retain=True)
        assert (found["qos"], found["retain"]) == (qos, True)
    for qos in (3, -1, True, "1", 1.5):
        assert list(faults(sut, protocol, sink, topicname="t", qos=qos)) == [f"{S}.qos"]
    assert faults(sut, protocol, sink, topicname="t", retain=1) == {f"{S}.retain": "type"}


@pytest.mark.clause("subscriptions-api.settings.mqtt.others")
@pytest.mark.clause("subscriptions-api.settings.mqtt.expiry")
@pytest.mark.clause("subscriptions-api.settings.mqtt.userproperties")
def test_expiry_and_user_properties_are_mqtt_5s(sut):
    """Both can be left out; for MQTT 3 both are invalid (decision 27)."""
    sink = "wss://example.com/mqtt"
    plain = {"topicname": "t", "qos": 1, "retain": False}
    more = {"expiry": 60, "userproperties": {"tenant": "é"}}
    assert realized(sut, "MQTT5", sink, topicname="t") == plain | {"userproperties": {}}
    assert realized(sut, "MQTT5", sink, topicname="t", **more) == plain | more
    assert realized(sut, "MQTT3", sink, topicname="t") == plain
    assert faults(sut, "MQTT3", sink, topicname="t", **more) == {
        f"{S}.expiry": "not-applicable",
        f"{S}.userproperties": "not-applicable",
    }


def test_mqtt_3_has_structured_mode_alone(sut):
    """Its messages have no place for attributes beside the data."""
    sink, settings = "mqtt://example.com", {"topicname": "t"}
    for protocol, default in (("MQTT3", "structured"), ("MQTT5", "binary")):
        answer = sut.create(protocol=protocol, sink=sink, protocolsettings=settings)
        assert answer.json()["protocolsettings"]["format"] == default
    assert faults(sut, "MQTT3", sink, topicname="t", format="binary") == {f"{S}.format": "value"}


@pytest.mark.clause("subscriptions-api.settings.amqp.address")
@pytest.mark.clause("subscriptions-api.settings.amqp.address.optional")
def test_the_amqp_address_stands_in_the_settings_or_in_the_path(sut):
    """In one of them, or in both alike (decision 27); the realized object shows it."""
    for sink, settings, address in (
        ("amqp://example.com/orders", {}, "orders"),
        ("amqp://example.com/a%20b", {"address": "a b"}, "a b"),
        ("amqp://example.com/queue/orders", {"address": "/queue/orders"}, "/queue/orders"),
        ("amqps://example.com", {"address": "/exchange/x/y"}, "/exchange/x/y"),
        ("wss://example.com/tunnel", {"address": "orders"}, "orders"),
    ):
        assert realized(sut, "AMQP", sink, **settings)["address"] == address
    for sink, settings, code in (
        ("amqp://example.com", {}, "missing"),
        ("amqp://example.com/", {}, "missing"),
        ("wss://example.com/tunnel", {}, "missing"),
        ("amqp://example.com/orders", {"address": "other"}, "conflict"),
    ):
        assert faults(sut, "AMQP", sink, **settings) == {f"{S}.address": code}


@pytest.mark.clause("subscriptions-api.settings.amqp.others")
@pytest.mark.clause("subscriptions-api.settings.amqp.linkname.optional")
@pytest.mark.clause("subscriptions-api.settings.amqp.sendersettlementmode.optional")
@pytest.mark.clause("subscriptions-api.settings.amqp.linkproperties.optional")
def test_amqp_links_have_defaults(sut):
    """A random name, with acknowledgement, without properties."""
    sink = "amqp://example.com/q"
    plain = {"address": "q", "sendersettlementmode": "unsettled", "linkproperties": {}}
    more = {
        "linkname": "orders",
        "sendersettlementmode": "settled",
        "linkproperties": {"a": "b", "n": 1, "f": 1.5, "yes": True},
    }
    assert realized(sut, "AMQP", sink) == plain
    assert realized(sut, "AMQP", sink, **more) == plain | more
    assert faults(
        sut, "AMQP", sink, linkname="", sendersettlementmode="mixed", linkproperties={"a": []}
    ) == {
        f"{S}.linkname": "empty",
        f"{S}.sendersettlementmode": "value",
        f"{S}.linkproperties.a": "type",
    }


@pytest.mark.clause("subscriptions-api.settings.kafka.topicname")
@pytest.mark.clause("subscriptions-api.settings.kafka.topicname.optional")
@pytest.mark.clause("subscriptions-api.settings.kafka.topicname.required")
def test_the_kafka_topic_stands_in_the_settings_or_in_the_path(sut):
    """In one of them, or in both alike (decision 19)."""
    hosts = "kafka://a.example.com:9092,b.example.com"
    assert realized(sut, "KAFKA", hosts, topicname="orders.v1")["topicname"] == "orders.v1"
    assert realized(sut, "KAFKA", f"{hosts}/orders")["topicname"] == "orders"
    assert realized(sut, "KAFKA", f"{hosts}/orders", topicname="orders")["topicname"] == "orders"
    assert faults(sut, "KAFKA", hosts) == {f"{S}.topicname": "missing"}
    assert faults(sut, "KAFKA", f"{hosts}/a", topicname="b") == {f"{S}.topicname": "conflict"}
    for bad in ("a b", "..", "é", "x" * 250):
        assert list(faults(sut, "KAFKA", hosts, topicname=bad)) == [f"{S}.topicname"]
    for bad in ("a/b", "..", "%41", "x" * 250):
        assert set(faults(sut, "KAFKA", f"{hosts}/{bad}")) == {"$.sink"}


@pytest.mark.clause("subscriptions-api.settings.kafka.others")
@pytest.mark.clause("subscriptions-api.settings.kafka.partitionkeyextractor")
@pytest.mark.clause("subscriptions-api.settings.kafka.clientid")
@pytest.mark.clause("subscriptions-api.settings.kafka.acks")
def test_kafka_settings_have_defaults(sut):
    """No key, a client of our name, all replicas."""
    sink = "kafka+ssl://example.com/t"
    plain = {"topicname": "t", "clientid": "distributary", "acks": "all"}
    more = {"partitionkeyextractor": "partitionkey", "clientid": "shop", "acks": "1"}
    assert realized(sut, "KAFKA", sink) == plain
    assert realized(sut, "KAFKA", sink, **more) == plain | more
    assert realized(sut, "KAFKA", sink, acks="-1")["acks"] == "all"
    assert faults(sut, "KAFKA", sink, partitionkeyextractor="A", clientid="", acks=1) == {
        f"{S}.partitionkeyextractor": "value",
        f"{S}.clientid": "empty",
        f"{S}.acks": "type",
    }


@pytest.mark.clause("subscriptions-api.settings.nats.subject")
def test_nats_needs_a_subject(sut):
    """One to publish to: no wildcards, no spaces, no empty token."""
    sink = "nats://example.com"
    assert faults(sut, "NATS", sink) == {f"{S}.subject": "missing"}
    for bad in ("", ".", "a.", ".a", "a..b", "a.*", ">", "a b", "a\r\nPUB b", "$JS.API.x", 1):
        assert list(faults(sut, "NATS", sink, subject=bad)) == [f"{S}.subject"]
    for good in ("a", "orders.eu.placed", "é.b", "$KV.bucket.key"):
        assert realized(sut, "NATS", sink, subject=good) == {"subject": good}


def test_jetstream_can_be_insisted_on(sut):
    """Absent: a stream where one holds the subject (decision 27)."""
    sink = "tls://example.com:4222"
    for value in (True, False):
        assert realized(sut, "NATS", sink, subject="a", jetstream=value)["jetstream"] is value
    assert faults(sut, "NATS", sink, subject="a", jetstream="yes") == {f"{S}.jetstream": "type"}


@pytest.mark.parametrize(
    ("protocol", "sink", "settings"),
    [
        ("HTTP", "mqtt://example.com", {}),
        ("MQTT5", "mqtt://example.com/topic", {"topicname": "t"}),
        ("MQTT5", "mqtt://user@example.com", {"topicname": "t"}),
        ("MQTT5", "mqtt://a,b", {"topicname": "t"}),
        ("AMQP", "amqp://example.com/q?x=y", {}),
        ("AMQP", "kafka://example.com/q", {}),
        ("KAFKA", "kafka://a,,b/t", {}),
        ("KAFKA", "kafka://a:0/t", {}),
        ("NATS", "nats://example.com#x", {"subject": "a"}),
        ("NATS", "nats://example.com/a", {"subject": "a"}),
    ],
)
def test_a_sink_is_an_address_of_its_protocol(sut, protocol, sink, settings):
    """With a path only where one means something, and never with a secret."""
    assert set(faults(sut, protocol, sink, **settings)) == {"$.sink"}
