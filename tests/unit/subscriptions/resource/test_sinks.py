"""Which URIs an HTTP sink may have, and which addresses the operator allows."""

import pytest

from distributary.core.errors import ResourceError
from distributary.core.filter import check
from distributary.protocols.kafka.settings import HOSTS_MAX
from distributary.resource import Faults, ResourceRules, SinkRule
from distributary.resource.uri import check_sink
from distributary.subscriptions import resource as api_subscription

PUBLIC = SinkRule(local_allowed=False)
LOCAL = SinkRule(local_allowed=True)

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

BAD = [
    "example.com",
    "/path",
    "//example.com/",
    "http:example.com",
    "http:///path",
    "http://",
    "http://:80/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "unix:///run/x.sock",
    "http+unix://%2Frun/",
    "http://user@example.com/",
    "http://user:pw@example.com/",
    "http://@example.com/",
    "http://example.com/#frag",
    "http://example.com#",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:/",
    "http://example.com:8o/",
    "http://example.com:1:2/",
    "http://exa mple.com/",
    "http://example.com/a b",
    "http://example.com/\n",
    "http://example.com\t/",
    "http://exam\u00a0ple.com/",
    "http://example.com\\@evil.com/",
    "http://\uff45xample.com/",
    "http://bücher.example/",
    "http://exam%70le.com/",
    "http://example.com/%zz",
    "http://-example.com/",
    "http://example..com/",
    "http://127.1/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://1.2.3.4.5/",
    "http://1.2.3.256/",
    "http://0/",
    "http://[::1/",
    "http://::1/",
    "http://[::g]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/",
    "http://[v1.a]/",
    "http://" + "a" * 64 + ".com/",
    "http://" + "a." * 127 + "com/",
]


def parse_sink(sink: str, rule: SinkRule, protocol: str = "HTTP") -> list[str]:
    """Codes of the faults of such a sink."""
    try:
        api_subscription.parse({"sink": sink, "protocol": protocol}, ResourceRules(rule, check))
    except ResourceError as error:
        return [fault.code for fault in error.faults]
    return []


@pytest.mark.parametrize("sink", GOOD)
def test_a_good_sink_is_kept_as_it_stands(sink):
    """Nothing is normalised: the receiver may compare what it gets."""
    rules = ResourceRules(PUBLIC, check)
    spec = api_subscription.parse({"sink": sink, "protocol": "HTTP"}, rules)
    assert spec.sink == sink


@pytest.mark.parametrize("sink", BAD, ids=ascii)
@pytest.mark.parametrize("rule", [PUBLIC, LOCAL], ids=["public", "local"])
def test_a_bad_sink_is_refused(sink, rule):
    """Whatever the operator allows, these are no addresses to send to."""
    assert "uri" in parse_sink(sink, rule)


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

BAD_BROKERS = [
    ("HTTP", "kafka://example.com"),
    ("MQTT5", "http://example.com"),
    ("MQTT5", "mqtt://example.com/topic"),
    ("MQTT5", "mqtt://example.com?x"),
    ("MQTT5", "mqtt://me:secret@example.com"),
    ("MQTT5", "mqtt://example.com#x"),
    ("MQTT5", "mqtt://a.example.com,b.example.com"),
    ("MQTT5", "mqtt:example.com"),
    ("AMQP", "amqp:///queue"),
    ("AMQP", "amqp://example.com/queue?x"),
    ("AMQP", "amqp://127.1/queue"),
    ("KAFKA", "kafka://"),
    ("KAFKA", "kafka://a.example.com,"),
    ("KAFKA", "kafka://me@a.example.com,b.example.com"),
    ("KAFKA", "kafka://a.example.com,b.example.com:0"),
    ("KAFKA", "kafka://a.example.com, b.example.com"),
    ("KAFKA", "kafka://" + ",".join(["example.com"] * 33)),
    ("NATS", "nats://example.com/subject"),
    ("NATS", "nats://example.com:x"),
]


def broker_faults(protocol: str, sink: str, rule: SinkRule) -> list[str]:
    """Codes of the faults of *sink* by itself."""
    faults = Faults()
    check_sink(faults, "$.sink", sink, protocol, rule)
    return [fault.code for fault in faults.found]


@pytest.mark.parametrize(("protocol", "sink"), GOOD_BROKERS)
def test_a_good_broker_is_kept_as_it_stands(protocol, sink):
    """Each protocol has its schemes; the path is one where it means something."""
    found = check_sink(Faults(), "$.sink", sink, protocol, PUBLIC)
    assert found is not None
    assert found.text == sink
    assert found.scheme == sink.partition(":")[0].lower()


@pytest.mark.parametrize(("protocol", "sink"), BAD_BROKERS)
def test_a_bad_broker_is_refused(protocol, sink):
    """Nothing that one parser could read otherwise than another."""
    assert set(broker_faults(protocol, sink, LOCAL)) == {"uri"}


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


@pytest.mark.parametrize(
    ("protocol", "sink", "code"),
    [
        ("AMQP", "amqp://e.com/%ff", "text"),
        ("AMQP", "amqp://e.com/a%00", "value"),
        ("KAFKA", "kafka://e.com/a%20b", "value"),
        ("KAFKA", "kafka://e.com/a/b", "value"),
    ],
)
def test_a_path_that_names_no_place_is_refused(protocol, sink, code):
    """No address has control characters, no topic a slash."""
    assert parse_sink(sink, PUBLIC, protocol) == [code]


def test_the_rule_holds_for_every_host_of_a_cluster():
    """One that is private among public ones is enough."""
    sink = "kafka://example.com,10.0.0.1:9092,[::1]/t"
    assert broker_faults("KAFKA", sink, PUBLIC) == ["blocked-address"] * 2
    assert broker_faults("KAFKA", sink, LOCAL) == []
    assert broker_faults("KAFKA", "kafka://e.com,169.254.169.254/t", LOCAL) == ["blocked-address"]


LOCAL_ONES = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "[::1]",
    "[fd00::1]",
    "[::ffff:127.0.0.1]",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
]

RESERVED = [
    "100.64.0.1",
    "0.0.0.0",
    "169.254.1.1",
    "192.0.2.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[ff02::1]",
    "[2001:db8::1]",
]

METADATA = ["169.254.169.254", "[fd00:ec2::254]", "168.63.129.16", "100.100.100.200"]


@pytest.mark.parametrize("host", LOCAL_ONES)
def test_local_sinks_follow_the_listener(host):
    """Decision 22: allowed while the server listens on loopback only."""
    assert parse_sink(f"http://{host}/", LOCAL) == []
    assert parse_sink(f"http://{host}/", PUBLIC) == ["blocked-address"]


@pytest.mark.parametrize("host", RESERVED + METADATA)
@pytest.mark.parametrize("rule", [PUBLIC, LOCAL], ids=["public", "local"])
def test_reserved_and_metadata_addresses_are_refused(host, rule):
    """Listening on loopback does not open them."""
    assert parse_sink(f"http://{host}/", rule) == ["blocked-address"]


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


def test_a_dead_letter_sink_follows_the_same_rule():
    """A second way out is no way around."""
    body = {
        "sink": "http://example.com/",
        "protocol": "HTTP",
        "protocolsettings": {"delivery": {"deadLetterSink": "http://127.0.0.1/"}},
    }
    with pytest.raises(ResourceError) as caught:
        api_subscription.parse(body, ResourceRules(PUBLIC, check))
    assert [fault.code for fault in caught.value.faults] == ["blocked-address"]
