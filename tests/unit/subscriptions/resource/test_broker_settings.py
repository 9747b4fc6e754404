"""Settings of the protocols beside HTTP: every fault where it is, and typed values of good ones."""

import pytest

from distributary.core.deliver.broker_settings import HttpSettings
from distributary.core.errors import ResourceError
from distributary.protocols.amqp.settings import AmqpSettings
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.protocols.mqtt.settings import MqttSettings
from distributary.protocols.nats.settings import NatsSettings
from distributary.subscriptions import resource as api_subscription
from kit.servers import Authority

S = "$.protocolsettings"

GOOD = {
    "MQTT3": ("mqtts://e.com", {"topicname": "t"}),
    "MQTT5": ("mqtts://e.com", {"topicname": "t"}),
    "AMQP": ("amqps://e.com/q", {}),
    "KAFKA": ("kafka+ssl://e.com,f.com:1/t", {}),
    "NATS": ("tls://e.com", {"subject": "s"}),
}

FAULTS = [
    ("MQTT5", {"topicname": 1}, [("topicname", "type")]),
    ("MQTT5", {"topicname": "a\ufffe"}, [("topicname", "value")]),
    ("MQTT5", {"topicname": "a\U0001ffff"}, [("topicname", "value")]),
    ("MQTT5", {"topicname": "é" * 32_768}, [("topicname", "too-long")]),
    ("MQTT5", {"topicname": "\ud800"}, [("topicname", "text")]),
    ("MQTT5", {"topicname": "$SYS"}, [("topicname", "value")]),
    ("MQTT5", {"qos": None, "retain": None}, [("qos", "type"), ("retain", "type")]),
    ("MQTT5", {"expiry": -1}, [("expiry", "value")]),
    ("MQTT5", {"expiry": 2**32}, [("expiry", "value")]),
    ("MQTT5", {"expiry": True}, [("expiry", "type")]),
    ("MQTT5", {"userproperties": []}, [("userproperties", "type")]),
    ("MQTT5", {"userproperties": {"a": 1}}, [("userproperties.a", "type")]),
    ("MQTT5", {"userproperties": {"": "a"}}, [('userproperties[""]', "empty")]),
    ("MQTT5", {"userproperties": {"a": "b\x01"}}, [("userproperties.a", "value")]),
    ("MQTT5", {"userproperties": {"source": "b"}}, [("userproperties.source", "reserved")]),
    (
        "MQTT5",
        {"userproperties": dict.fromkeys(map(str, range(101)), "")},
        [("userproperties", "too-many")],
    ),
    ("MQTT5", {"userproperties": {"a": "é" * 4096}}, [("userproperties", "too-long")]),
    ("MQTT5", {"userproperties": {"\ud800": "x"}}, [('userproperties["\\ud800"]', "text")]),
    ("MQTT3", {"expiry": 1}, [("expiry", "not-applicable")]),
    ("MQTT3", {"topcname": "x"}, [("topcname", "unknown")]),
    ("MQTT3", {"format": "binary"}, [("format", "value")]),
    ("MQTT3", {"delivery": {"format": "binary"}}, [("delivery.format", "value")]),
    ("MQTT3", {"headers": {}}, [("headers", "not-applicable")]),
    ("AMQP", {"address": ""}, [("address", "empty")]),
    ("AMQP", {"address": "a\n"}, [("address", "value")]),
    ("AMQP", {"address": "é" * 513}, [("address", "too-long")]),
    ("AMQP", {"address": "other"}, [("address", "conflict")]),
    ("AMQP", {"linkname": "a\x7f"}, [("linkname", "value")]),
    ("AMQP", {"sendersettlementmode": None}, [("sendersettlementmode", "type")]),
    ("AMQP", {"linkproperties": {"a b": 1}}, [('linkproperties["a b"]', "value")]),
    ("AMQP", {"linkproperties": {"a": None}}, [("linkproperties.a", "type")]),
    ("AMQP", {"linkproperties": {"a": 2**63}}, [("linkproperties.a", "value")]),
    ("KAFKA", {"topicname": "u"}, [("topicname", "conflict")]),
    ("KAFKA", {"topicname": "t", "acks": "2"}, [("acks", "value")]),
    ("KAFKA", {"partitionkeyextractor": "data"}, [("partitionkeyextractor", "value")]),
    ("KAFKA", {"partitionkeyextractor": "a" * 257}, [("partitionkeyextractor", "too-long")]),
    ("KAFKA", {"clientid": " a"}, [("clientid", "value")]),
    (
        "KAFKA",
        {"subject": "a", "qos": 1},
        [("subject", "not-applicable"), ("qos", "not-applicable")],
    ),
    ("NATS", {"subject": "$SYS.x"}, [("subject", "value")]),
    ("NATS", {"subject": "a\u00a0b"}, [("subject", "value")]),
    ("NATS", {"subject": "a" * 2049}, [("subject", "too-long")]),
    ("NATS", {"jetstream": None}, [("jetstream", "type")]),
]


@pytest.mark.parametrize(("protocol", "settings", "expected"), FAULTS)
def test_a_fault_is_named_where_it_is(faults_of, protocol, settings, expected):
    """All of them at once, and nothing else."""
    sink, good = GOOD[protocol]
    found = faults_of(protocol=protocol, sink=sink, protocolsettings=good | settings)
    assert found == [(f"{S}.{path}", code) for path, code in expected]


@pytest.mark.parametrize(
    ("protocol", "settings", "typed"),
    [
        ("MQTT3", {"qos": 0}, MqttSettings("t", qos=0)),
        (
            "MQTT5",
            {"qos": 2, "retain": True, "expiry": 0, "userproperties": {"b": "", "a": "é"}},
            MqttSettings("t", 2, True, 0, (("b", ""), ("a", "é"))),
        ),
        ("AMQP", {}, AmqpSettings("q")),
        (
            "AMQP",
            {
                "address": "/q",
                "linkname": "l",
                "sendersettlementmode": "settled",
                "linkproperties": {"a": True, "b": -(2**63)},
            },
            AmqpSettings("/q", "l", True, (("a", True), ("b", -(2**63)))),
        ),
        ("KAFKA", {}, KafkaSettings("t", clientid="distributary")),
        (
            "KAFKA",
            {"partitionkeyextractor": "subject", "clientid": "c d", "acks": "0"},
            KafkaSettings("t", "subject", "c d", "0"),
        ),
        ("NATS", {"jetstream": False}, NatsSettings("s", False)),
    ],
)
def test_good_settings_become_typed_values(parse, rules, protocol, settings, typed):
    """And what was realized parses, and is restored, to the same."""
    sink, good = GOOD[protocol]
    spec = parse(protocol=protocol, sink=sink, protocolsettings=good | settings)
    assert spec.settings == typed
    assert hash(spec.settings) == hash(typed)
    assert spec.format == ("structured" if protocol == "MQTT3" else "binary")
    assert api_subscription.parse(spec.to_json(), rules) == spec
    assert api_subscription.restore(spec.realized) == spec


@pytest.mark.parametrize(
    ("protocol", "dead", "settings"),
    [
        ("AMQP", "amqp://f.com/dead", AmqpSettings("dead", "l")),
        ("AMQP", "amqp://f.com", AmqpSettings("q", "l")),
        ("AMQP", "wss://f.com/tunnel", AmqpSettings("q", "l")),
        ("KAFKA", "kafka://f.com/dead", KafkaSettings("dead", acks="1", clientid="distributary")),
        ("KAFKA", "kafka://f.com", KafkaSettings("t", acks="1", clientid="distributary")),
        ("MQTT5", "mqtt://f.com", MqttSettings("t", qos=2)),
        ("NATS", "nats://f.com", NatsSettings("s", True)),
    ],
)
def test_a_dead_letter_uri_names_its_own_place(parse, protocol, dead, settings):
    """Where its path has one; all else is as for the subscription."""
    more = {"AMQP": {"linkname": "l"}, "KAFKA": {"acks": "1"}, "MQTT5": {"qos": 2}}
    sink, good = GOOD[protocol]
    own = good | more.get(protocol, {"jetstream": True}) | {"delivery": {"deadLetterSink": dead}}
    spec = parse(protocol=protocol, sink=sink, protocolsettings=own)
    letters = spec.dead_letter
    assert letters is not None
    assert (letters.sink, letters.protocol, letters.settings) == (dead, protocol, settings)
    assert letters.policy == spec.policy
    assert api_subscription.restore(spec.realized) == spec


@pytest.mark.parametrize("protocol", GOOD)
def test_a_dead_letter_object_may_have_any_protocol(parse, faults_of, protocol):
    """With settings, defaults and faults of that protocol; its own where it names none."""
    sink, good = GOOD[protocol]
    target = {"sink": sink, "protocol": protocol, "protocolsettings": good}
    spec = parse(protocolsettings={"delivery": {"deadLetterSink": target}})
    letters = spec.dead_letter
    assert letters is not None
    assert (letters.protocol, letters.sink) == (protocol, sink)
    assert spec.settings == HttpSettings("POST", ())
    target["protocolsettings"] = good | {"method": "PUT"}
    assert faults_of(protocolsettings={"delivery": {"deadLetterSink": target}}) == [
        (f"{S}.delivery.deadLetterSink.protocolsettings.method", "not-applicable")
    ]
    del target["protocol"]
    (place,) = faults_of(
        protocolsettings={"delivery": {"deadLetterSink": target | {"protocolsettings": {}}}}
    )
    assert place == (f"{S}.delivery.deadLetterSink.sink", "uri")


def test_a_map_of_settings_is_left_out_of_the_repr(parse):
    """User properties and link properties may hold secrets."""
    for protocol, name in (("MQTT5", "userproperties"), ("AMQP", "linkproperties")):
        sink, good = GOOD[protocol]
        settings = good | {name: {"token": "canary"}}
        assert "canary" not in repr(parse(protocol=protocol, sink=sink, protocolsettings=settings))


def test_what_the_last_release_stored_is_restored(rules):
    """It knew HTTP alone, and no certificates."""
    stored = (
        b'{"filters":[],"sink":"http://e.com/","protocol":"HTTP","protocolsettings":{"headers":'
        b'{"X-A":"b"},"method":"PUT","format":"structured","delivery":{"retry":1,"backoffPolicy":'
        b'"linear","backoffDelay":"PT1S","backoffMax":"PT5M","timeout":"PT30S","deadLetterSink":'
        b'"http://e.com/dead"}}}'
    )
    spec = api_subscription.restore(stored)
    assert spec.settings == HttpSettings("PUT", (("X-A", "b"),))
    assert (spec.format, spec.ca_certs) == ("structured", None)
    letters = spec.dead_letter
    assert letters is not None
    assert (letters.sink, letters.settings) == ("http://e.com/dead", spec.settings)
    assert api_subscription.parse(spec.to_json(), rules) == spec


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    """Its certificate is good."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("protocol", [*GOOD, "HTTP"])
def test_certificates_are_taken_for_every_protocol(parse, rules, authority, protocol):
    """And for the dead letter sink that shares the settings; text around them is dropped."""
    sink, good = GOOD.get(protocol, ("https://e.com/", {}))
    pem = f"Subject: somebody\n{authority.ca_certs}\n# and again\n{authority.ca_certs}"
    settings = good | {"cacerts": pem, "delivery": {"deadLetterSink": sink}}
    spec = parse(protocol=protocol, sink=sink, protocolsettings=settings)
    assert spec.ca_certs is not None
    assert spec.ca_certs.count("BEGIN CERTIFICATE") == 2
    assert "somebody" not in spec.ca_certs
    assert spec.dead_letter is not None
    assert spec.dead_letter.ca_certs == spec.ca_certs
    assert api_subscription.parse(spec.to_json(), rules) == spec


def test_what_is_no_certificate_is_refused_and_not_repeated(parse, faults_of, authority):
    """A key that was pasted along would be shown to every reader."""
    key = authority.server().key.read_text()
    block = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"
    good = authority.ca_certs
    cut = good + block.partition("\n{}")[0] + "\nAAAA"
    damaged = good + block.format("A!A")
    for bad in (key, good + key, "x", block.format("AAAA"), block.format(""), cut, damaged):
        found = faults_of(sink="https://e.com/", protocolsettings={"cacerts": bad})
        assert found == [(f"{S}.cacerts", "value")]
    with pytest.raises(ResourceError, match="keys never belong here") as caught:
        parse(sink="https://e.com/", protocolsettings={"cacerts": key})
    assert key.splitlines()[1] not in str(caught.value)
    assert faults_of(sink="https://e.com/", protocolsettings={"cacerts": "x" * 65_537}) == [
        (f"{S}.cacerts", "too-long")
    ]


@pytest.mark.parametrize(
    ("protocol", "sink", "applies"),
    [
        ("HTTP", "http://e.com/", False),
        ("MQTT5", "mqtt://e.com", False),
        ("MQTT5", "wss://e.com", True),
        ("NATS", "nats://e.com", True),
    ],
)
def test_certificates_need_a_scheme_with_tls(rules, authority, protocol, sink, applies):
    """Who names them believes that the connection is safe; NATS servers may ask for TLS later."""
    settings = GOOD.get(protocol, ("", {}))[1] | {"cacerts": authority.ca_certs}
    body = {"protocol": protocol, "sink": sink, "protocolsettings": settings}
    if applies:
        assert api_subscription.parse(body, rules).ca_certs
        return
    with pytest.raises(ResourceError) as caught:
        api_subscription.parse(body, rules)
    found = [(fault.path, fault.code) for fault in caught.value.faults]
    assert found == [(f"{S}.cacerts", "not-applicable")]


@pytest.mark.parametrize("protocol", GOOD)
def test_credentials_are_taken_by_every_protocol(parse, protocol):
    """An account whose name has a colon is one where no Basic authentication is made of it."""
    sink, good = GOOD[protocol]
    account = {"credentialType": "PLAIN", "identifier": "host:me", "secret": "s"}
    token = {
        "credentialType": "ACCESSTOKEN",
        "accessToken": "t",
        "accessTokenType": "Bearer",
        "accessTokenExpiresUtc": "2126-01-31T12:00:00Z",
    }
    for credential in (account, token):
        spec = parse(protocol=protocol, sink=sink, protocolsettings=good, sinkCredential=credential)
        assert spec.credential is not None
        assert spec.credential.type == credential["credentialType"]


@pytest.mark.parametrize("secret", ["a\0b", "a\r\nb"])
def test_no_protocol_takes_control_characters_in_a_credential(faults_of, secret):
    """NUL ends a part of SASL PLAIN, a line break a line of NATS."""
    for protocol, (sink, good) in GOOD.items():
        credential = {"credentialType": "PLAIN", "identifier": "me", "secret": secret}
        found = faults_of(
            protocol=protocol, sink=sink, protocolsettings=good, sinkCredential=credential
        )
        assert found == [("$.sinkCredential.secret", "value")]
