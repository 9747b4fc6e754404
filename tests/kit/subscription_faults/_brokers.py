"""Faults of the settings of the protocols beside HTTP, and of certificates."""

from typing import Any, Final

from kit.subscription_faults._case import SETTINGS, Case, Mark, Says, case, http

BEYOND, PYTHON = Mark.BEYOND, Mark.PYTHON

GOOD: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "MQTT3": ("mqtts://e.com", {"topicname": "t"}),
    "MQTT5": ("mqtts://e.com", {"topicname": "t"}),
    "AMQP": ("amqps://e.com/q", {}),
    "KAFKA": ("kafka+ssl://e.com,f.com:1/t", {}),
    "NATS": ("tls://e.com", {"subject": "s"}),
}
"""Protocol -> a good sink and the settings that it needs."""


def _of(protocol: str, settings: dict[str, Any], *said: Any) -> Case:
    sink, good = GOOD[protocol]
    body = {"sink": sink, "protocol": protocol, "protocolsettings": good | settings}
    return case(f"{protocol} {settings!a:.60}", body, said, f"{SETTINGS}.")


BROKER_SETTINGS: Final = [
    _of("MQTT5", {"topicname": 1}, ("topicname", "type")),
    _of("MQTT5", {"topicname": "a\ufffe"}, ("topicname", "value")),
    _of("MQTT5", {"topicname": "a\U0001ffff"}, ("topicname", "value")),
    _of("MQTT5", {"topicname": "é" * 32_768}, ("topicname", "too-long"), BEYOND),
    _of("MQTT5", {"topicname": "\ud800"}, ("topicname", "text"), BEYOND, PYTHON),
    _of("MQTT5", {"topicname": "$SYS"}, ("topicname", "value")),
    _of("MQTT5", {"qos": None, "retain": None}, ("qos", "type"), ("retain", "type")),
    _of("MQTT5", {"qos": 1.0}, ("qos", "type"), BEYOND),
    _of("MQTT5", {"expiry": 1.0}, ("expiry", "type"), BEYOND),
    _of("MQTT5", {"expiry": -1}, ("expiry", "value")),
    _of("MQTT5", {"expiry": 2**32}, ("expiry", "value")),
    _of("MQTT5", {"expiry": True}, ("expiry", "type")),
    _of("MQTT5", {"userproperties": []}, ("userproperties", "type")),
    _of("MQTT5", {"userproperties": {"a": 1}}, ("userproperties.a", "type")),
    _of("MQTT5", {"userproperties": {"": "a"}}, ('userproperties[""]', "empty")),
    _of("MQTT5", {"userproperties": {"a": "b\x01"}}, ("userproperties.a", "value")),
    _of("MQTT5", {"userproperties": {"source": "b"}}, ("userproperties.source", "reserved")),
    _of(
        "MQTT5",
        {"userproperties": dict.fromkeys(map(str, range(101)), "")},
        ("userproperties", "too-many"),
    ),
    _of("MQTT5", {"userproperties": {"a": "é" * 4096}}, ("userproperties", "too-long"), BEYOND),
    _of(
        "MQTT5",
        {"userproperties": {"\ud800": "x"}},
        ('userproperties["\\ud800"]', "text"),
        BEYOND,
        PYTHON,
    ),
    _of("MQTT3", {"expiry": 1}, ("expiry", "not-applicable")),
    _of("MQTT3", {"topcname": "x"}, ("topcname", "unknown")),
    _of("MQTT3", {"format": "binary"}, ("format", "value")),
    _of("MQTT3", {"delivery": {"format": "binary"}}, ("delivery.format", "value")),
    _of("MQTT3", {"headers": {}}, ("headers", "not-applicable")),
    _of("AMQP", {"address": ""}, ("address", "empty")),
    _of("AMQP", {"address": "a\n"}, ("address", "value")),
    _of("AMQP", {"address": "é" * 513}, ("address", "too-long"), BEYOND),
    _of("AMQP", {"address": "other"}, ("address", "conflict"), BEYOND),
    _of("AMQP", {"linkname": "a\x7f"}, ("linkname", "value")),
    _of("AMQP", {"linkname": "é" * 200}, ("linkname", "too-long"), BEYOND),
    _of("AMQP", {"sendersettlementmode": None}, ("sendersettlementmode", "type")),
    _of("AMQP", {"linkproperties": {"a b": 1}}, ('linkproperties["a b"]', "value")),
    _of("AMQP", {"linkproperties": {"a": None}}, ("linkproperties.a", "type")),
    _of("AMQP", {"linkproperties": {"a": 2**63}}, ("linkproperties.a", "value"), BEYOND),
    _of("AMQP", {"linkproperties": {"a": "é" * 4096}}, ("linkproperties", "too-long"), BEYOND),
    _of("KAFKA", {"topicname": "u"}, ("topicname", "conflict"), BEYOND),
    _of("KAFKA", {"topicname": "t", "acks": "2"}, ("acks", "value")),
    _of("KAFKA", {"partitionkeyextractor": "data"}, ("partitionkeyextractor", "value")),
    _of("KAFKA", {"partitionkeyextractor": "a" * 257}, ("partitionkeyextractor", "too-long")),
    _of("KAFKA", {"clientid": " a"}, ("clientid", "value")),
    _of(
        "KAFKA",
        {"subject": "a", "qos": 1},
        ("subject", "not-applicable"),
        ("qos", "not-applicable"),
    ),
    _of("NATS", {"subject": "$SYS.x"}, ("subject", "value")),
    _of("NATS", {"subject": "a.>"}, ("subject", "value")),
    _of("NATS", {"subject": "a\u00a0b"}, ("subject", "value")),
    _of("NATS", {"subject": "a" * 2049}, ("subject", "too-long")),
    _of("NATS", {"jetstream": None}, ("jetstream", "type")),
]


def _dead_letter(name: str, dead: dict[str, Any], fault: tuple[str, str]) -> Case:
    at = f"{SETTINGS}.delivery.deadLetterSink"
    return case(name, http(protocolsettings={"delivery": {"deadLetterSink": dead}}), [fault], at)


DEAD_BROKERS: Final = [
    *(
        _dead_letter(
            f"{protocol}, a setting of HTTP",
            {"sink": sink, "protocol": protocol, "protocolsettings": good | {"method": "PUT"}},
            (".protocolsettings.method", "not-applicable"),
        )
        for protocol, (sink, good) in GOOD.items()
    ),
    *(
        _dead_letter(
            f"no protocol, {sink}", {"sink": sink, "protocolsettings": {}}, (".sink", "uri")
        )
        for sink in sorted({sink for sink, _ in GOOD.values()})
    ),
    *(
        _of(
            "AMQP",
            {"delivery": {"deadLetterSink": f"amqp://e.com/{path}"}},
            ("delivery.deadLetterSink", code),
            BEYOND,
        )
        for path, code in (("%ff", "text"), ("a%00", "value"))
    ),
]

CERTIFICATE: Final = """-----BEGIN CERTIFICATE-----
MIIBiDCCAS+gAwIBAgIUJqRoiAnzQaaRQbozO3ywnA7Yp/AwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOdGVzdCBhdXRob3JpdHkwIBcNMjYxMTIxMTUzODExWhgPMjEy
NjEwMjgxNTM4MTFaMBkxFzAVBgNVBAMMDnRlc3QgYXV0aG9yaXR5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEmtHrE6x9yv+yi6uN8HDP25ySRwu8fJ0+Iehw9dAF
K+bFcYD8xiiT4IV8MCLubev1Kfq/otwnHo1EM+v+xOerSqNTMFEwHQYDVR0OBBYE
FKgW6XI5GPrAf7xmtADRPtBeKMU4MB8GA1UdIwQYMBaAFKgW6XI5GPrAf7xmtADR
PtBeKMU4MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIfAaNT5hac
Q5pEBu7Wz5DNQGGL3FC0xxEPdfr2x34IoAIhAI5XYuuMvMADzJTFHV0pGeAlHu/G
qO722HlOp7lKpU0L
-----END CERTIFICATE-----
"""
"""Good until 2126."""

_KEY: Final = "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----\n", "\n-----END CERTIFICATE-----"
_NONE: Final = {
    "a key": (_KEY, Says("keys never belong here")),
    "a key behind one": (CERTIFICATE + _KEY, Says("keys never belong here"), BEYOND),
    "a word": ("x",),
    "a block that is none": (f"{_BEGIN}AAAA{_END}", BEYOND),
    "an empty block": (_BEGIN + _END, BEYOND),
    "the second is cut": (f"{CERTIFICATE}{_BEGIN}AAAA", BEYOND),
    "the second is damaged": (f"{CERTIFICATE}{_BEGIN}A!A{_END}", BEYOND),
}

CERTIFICATES: Final = [
    *(
        case(
            name,
            http(protocolsettings={"cacerts": text}),
            [(f"{SETTINGS}.cacerts", "value"), *said],
        )
        for name, (text, *said) in _NONE.items()
    ),
    case(
        "too long",
        http(protocolsettings={"cacerts": "x" * 65_537}),
        [(f"{SETTINGS}.cacerts", "too-long")],
    ),
    *(
        case(
            f"{protocol} without TLS",
            {
                "sink": sink,
                "protocol": protocol,
                "protocolsettings": settings | {"cacerts": CERTIFICATE},
            },
            [(f"{SETTINGS}.cacerts", "not-applicable"), BEYOND],
        )
        for protocol, sink, settings in (
            ("HTTP", "http://e.com/", {}),
            ("MQTT5", "mqtt://e.com", {"topicname": "t"}),
        )
    ),
]
