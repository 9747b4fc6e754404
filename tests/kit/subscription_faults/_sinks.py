"""Faults of sinks: texts that are no URI to send to, and addresses that nobody may send to."""

from typing import Any, Final

from kit.subscription_faults._brokers import GOOD
from kit.subscription_faults._case import Case, Mark, case, changed, http

BEYOND, PUBLIC = Mark.BEYOND, Mark.PUBLIC

_NO_URI: Final = [
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
    "kafka://example.com",
    "http://user@example.com/",
    "https://user:canary@example.com/",
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
    "http://[::g]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/",
    "http://[v1.a]/",
    "http://" + "a" * 64 + ".com/",
]

SINKS: Final = [
    *(case(f"no URI: {sink!a}", http(sink=sink), [("$.sink", "uri")]) for sink in _NO_URI),
    case("no brackets", http(sink="http://::1/"), [("$.sink", "uri"), ("$.sink", "uri")]),
    case(
        "a host too long",
        http(sink="http://" + "a." * 127 + "com/"),
        [("$.sink", "uri"), BEYOND],
    ),
]


def _of(protocol: str, sink: str, *said: Any) -> Case:
    body = {"sink": sink, "protocol": protocol, "protocolsettings": dict(GOOD[protocol][1])}
    return case(f"{protocol} {sink:.40}", body, said)


_URI: Final = ("$.sink", "uri")
_BLOCKED: Final = ("$.sink", "blocked-address")

BROKERS: Final = [
    _of("MQTT5", "http://example.com", _URI),
    _of("MQTT5", "mqtt://example.com/topic", _URI),
    _of("MQTT5", "mqtt://example.com?x", _URI),
    _of("MQTT5", "mqtt://me:secret@example.com", _URI),
    _of("MQTT5", "mqtt://example.com#x", _URI),
    _of("MQTT5", "mqtt://a.example.com,b.example.com", _URI),
    _of("MQTT5", "mqtt:example.com", _URI),
    _of("AMQP", "amqp:///queue", _URI),
    _of("AMQP", "amqp://example.com/queue?x", _URI),
    _of("AMQP", "amqp://127.1/queue", _URI, BEYOND),
    _of("AMQP", "amqp://e.com/%ff", ("$.sink", "text"), BEYOND),
    _of("AMQP", "amqp://e.com/a%00", ("$.sink", "value"), BEYOND),
    _of("KAFKA", "kafka://", _URI),
    _of("KAFKA", "kafka://a.example.com,", _URI),
    _of("KAFKA", "kafka://me@a.example.com,b.example.com", _URI),
    _of("KAFKA", "kafka://a.example.com,b.example.com:0", _URI, BEYOND),
    _of("KAFKA", "kafka://a.example.com, b.example.com", _URI),
    _of("KAFKA", "kafka://" + ",".join(["example.com"] * 33), _URI),
    _of("KAFKA", "http://example.com", _URI),
    _of("KAFKA", "kafka://e.com/a%20b", ("$.sink", "value")),
    _of("KAFKA", "kafka://e.com/a/b", ("$.sink", "value")),
    _of("KAFKA", "kafka://e.com,169.254.169.254/t", _BLOCKED, BEYOND),
    _of("KAFKA", "kafka://example.com,10.0.0.1:9092,[::1]/t", _BLOCKED, _BLOCKED, BEYOND, PUBLIC),
    _of("NATS", "nats://example.com/subject", _URI),
    _of("NATS", "nats://example.com:x", _URI),
    # What only the path of the sink could name.
    *(
        case(
            f"{protocol} without a place",
            {"sink": GOOD[protocol][0].rpartition("/")[0], "protocol": protocol},
            [(f"$.protocolsettings.{name}", "missing"), BEYOND],
        )
        for protocol, name in (("AMQP", "address"), ("KAFKA", "topicname"))
    ),
    *(
        case(
            f"{protocol} without a place",
            changed({"sink": GOOD[protocol][0], "protocol": protocol}),
            [(f"$.protocolsettings.{name}", "missing")],
        )
        for protocol, name in (("MQTT3", "topicname"), ("MQTT5", "topicname"), ("NATS", "subject"))
    ),
]

_LOCAL: Final = [
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

_RESERVED: Final = [
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 - refused
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
    # the metadata of machines of clouds
    "169.254.169.254",
    "[fd00:ec2::254]",
    "168.63.129.16",
    "100.100.100.200",
]

ADDRESSES: Final = [
    *(
        case(f"local {host}", http(sink=f"http://{host}/"), [_BLOCKED, BEYOND, PUBLIC])
        for host in _LOCAL
    ),
    *(
        case(f"reserved {host}", http(sink=f"http://{host}/"), [_BLOCKED, BEYOND])
        for host in _RESERVED
    ),
]
