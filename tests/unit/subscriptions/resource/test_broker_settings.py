"""Settings of the protocols beside HTTP: typed values of good ones."""

import pytest

from distributary.protocols.amqp.settings import AmqpSettings
from distributary.protocols.http.settings import HttpSettings
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.protocols.mqtt.settings import MqttSettings
from distributary.protocols.nats.settings import NatsSettings
from distributary.subscriptions import resource as api_subscription
from kit.subscription_faults import CERTIFICATE, GOOD


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
def test_a_dead_letter_object_may_have_any_protocol(parse, protocol):
    """With settings and defaults of that protocol."""
    sink, good = GOOD[protocol]
    target = {"sink": sink, "protocol": protocol, "protocolsettings": good}
    spec = parse(protocolsettings={"delivery": {"deadLetterSink": target}})
    letters = spec.dead_letter
    assert letters is not None
    assert (letters.protocol, letters.sink) == (protocol, sink)
    assert spec.settings == HttpSettings("POST", ())


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


@pytest.mark.parametrize("protocol", [*GOOD, "HTTP"])
def test_certificates_are_taken_for_every_protocol(parse, rules, protocol):
    """And for the dead letter sink that shares the settings; text around them is dropped."""
    sink, good = GOOD.get(protocol, ("https://e.com/", {}))
    pem = f"Subject: somebody\n{CERTIFICATE}\n# and again\n{CERTIFICATE}"
    settings = good | {"cacerts": pem, "delivery": {"deadLetterSink": sink}}
    spec = parse(protocol=protocol, sink=sink, protocolsettings=settings)
    assert spec.ca_certs is not None
    assert spec.ca_certs.count("BEGIN CERTIFICATE") == 2
    assert "somebody" not in spec.ca_certs
    assert spec.dead_letter is not None
    assert spec.dead_letter.ca_certs == spec.ca_certs
    assert api_subscription.parse(spec.to_json(), rules) == spec


def test_a_certificate_is_taken_where_tls_may_begin_later(parse):
    """NATS servers may ask for TLS after the greeting."""
    settings = {"subject": "s", "cacerts": CERTIFICATE}
    assert parse(protocol="NATS", sink="nats://e.com", protocolsettings=settings).ca_certs


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
