"""Which URIs an HTTP sink may have, and which addresses the operator allows."""

import pytest

from distributary.core.errors import ResourceError
from distributary.core.filter import check
from distributary.protocols.kafka.settings import HOSTS_MAX
from distributary.resource import CLEARTEXT, Faults, ResourceRules, SinkRule
from distributary.resource.uri import check_sink
from distributary.subscriptions import resource as api_subscription

PUBLIC = SinkRule(local_allowed=False)

GOOD = [
    "http://example.com",
    "https://example.com/a/b?c=d&e=%20",
    "HTTPS://EXAMPLE.com:8443/",
    "http://a_b.example.com.:1/",
    "http://xn--bcher-kva.example/",
    "http://93.184.216.34/",
    "http://[2606:2800:220:1:248:1893:25c8:1946]:65535/x",
    "http://1.example/",
    "http://example.com:80/@:x",
]


def parse_sink(sink: str, rule: SinkRule) -> list[str]:
    """Codes of the faults of such a sink."""
    try:
        api_subscription.parse({"sink": sink, "protocol": "HTTP"}, ResourceRules(rule, check))
    except ResourceError as error:
        return [fault.code for fault in error.faults]
    return []


@pytest.mark.parametrize("sink", GOOD)
def test_a_good_sink_is_kept_as_it_stands(sink):
    """Nothing is normalised: the receiver may compare what it gets."""
    rules = ResourceRules(PUBLIC, check)
    spec = api_subscription.parse({"sink": sink, "protocol": "HTTP"}, rules)
    assert spec.sink == sink


def test_a_uri_of_another_protocol_says_whose_it_is():
    """Who names no protocol gets HTTP, and would look for the fault in the URI."""
    faults = Faults()
    assert check_sink(faults, "$.sink", "kafka://k:9092/orders", "HTTP", PUBLIC) is None
    assert faults.found[0].message.endswith("this one is of the protocol KAFKA")
    assert parse_sink("gopher://example.com", PUBLIC) == ["uri"]


GOOD_BROKERS = [
    ("MQTT3", "mqtt://example.com"),
    ("MQTT5", "MQTTS://example.com:1883/"),
    ("MQTT5", "wss://example.com/mqtt?token=x"),
    ("AMQP", "amqps://[2606:2800:220:1:248:1893:25c8:1946]/a%2Fb"),
    ("AMQP", "amqp://example.com//exchange/x"),
    ("KAFKA", "kafka://example.com"),
    ("KAFKA", "kafka://a.example.com:1,93.184.216.34,[2606:2800::1]:9092/orders"),
    ("KAFKA", "kafka+ssl://" + ",".join(["example.com"] * HOSTS_MAX)),
    ("NATS", "tls://example.com/"),
]


@pytest.mark.parametrize(("protocol", "sink"), GOOD_BROKERS)
def test_a_good_broker_is_kept_as_it_stands(protocol, sink):
    """Each protocol has its schemes; the path is one where it means something."""
    found = check_sink(Faults(), "$.sink", sink, protocol, PUBLIC)
    assert found is not None
    assert found.text == sink
    assert found.scheme == sink.partition(":")[0].lower()


@pytest.mark.parametrize(
    ("protocol", "sink", "place"),
    [
        ("AMQP", "amqp://e.com/a%20b%2Fc", "a b/c"),
        ("AMQP", "amqp://e.com//x", "/x"),
        ("AMQP", "amqp://e.com/", None),
        ("AMQP", "wss://e.com/tunnel", None),
        ("KAFKA", "kafka://a,b/orders", "orders"),
        ("KAFKA", "kafka://a,b", None),
        ("HTTP", "http://e.com/x", None),
    ],
)
def test_a_path_names_a_place_at_some_brokers(protocol, sink, place):
    """AMQP addresses are percent-encoded there."""
    found = check_sink(Faults(), "$.sink", sink, protocol, PUBLIC)
    assert found is not None
    assert found.place == place


def test_the_operator_can_allow_a_network():
    """By CIDR, and no more than that."""
    rule = SinkRule.of(local_allowed=False, allowed=["10.1.0.0/16", "fd00::/64"])
    assert parse_sink("http://10.1.2.3/", rule) == []
    assert parse_sink("http://[fd00::2]/", rule) == []
    assert parse_sink("http://10.2.0.1/", rule) == ["blocked-address"]


@pytest.mark.parametrize(
    ("allowed", "faults"),
    [
        ("169.254.0.0/16", ["blocked-address"]),
        ("169.254.169.254/32", []),
        ("0.0.0.0/0", ["blocked-address"]),
    ],
)
def test_metadata_addresses_are_allowed_one_by_one(allowed, faults):
    """A generous network never opens the way to a machine's own credentials."""
    rule = SinkRule.of(local_allowed=True, allowed=[allowed])
    assert parse_sink("http://169.254.169.254/latest/meta-data/", rule) == faults


def test_names_are_judged_when_they_are_dialled():
    """A name may be repointed after it was checked; the connector decides then."""
    assert parse_sink("http://metadata.google.internal/", PUBLIC) == []


@pytest.mark.parametrize(
    ("uri", "refused"),
    [
        ("kafka://127.0.0.1,k.example.com/t", True),
        ("kafka://k.example.com,localhost/t", True),
        ("kafka://localhost:1,[::1]:2/t", False),
        ("kafka+ssl://k.example.com/t", False),
        ("nats://n.example.com", True),
        ("tls://n.example.com", False),
        ("HTTP://Example.com/", True),
        ("http://127.9.9.9/", False),
        ("http://a.localhost./", False),
        ("http://localhost.example.com/", True),
        ("http://10.0.0.1/", True),
        ("ws://e.com/", True),
        ("wss://e.com/", False),
        ("mqtt://e.com", True),
        ("amqps://e.com", False),
    ],
)
def test_a_credential_goes_to_every_host_by_tls_or_stays_here(uri, refused):
    """One of several on another machine is enough to refuse all."""
    rule = SinkRule(local_allowed=True)
    assert rule.cleartext_refusal(uri) == (CLEARTEXT if refused else None)
    allowed = SinkRule(local_allowed=True, cleartext_allowed=True)
    assert (allowed.cleartext_refusal(uri), allowed.stays_here(uri)) == (None, False)
