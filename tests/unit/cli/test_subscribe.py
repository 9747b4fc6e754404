from typing import Any

import pytest

from distributary.cli import _subscribe_flags
from distributary.core.errors import SettingsError
from distributary.datadir.seen import SeenNames
from distributary.subscriptions.http._description import describe

SINK = "http://127.0.0.1:9000"


def said(**flags: Any) -> dict[str, Any]:
    """What each flag said, by the name that typer gives it."""
    return flags


def test_a_sink_alone_is_enough() -> None:
    """What is not said is left to the server's defaults."""
    assert _subscribe_flags.body_of(said(sink=SINK)) == {"sink": SINK, "protocol": "HTTP"}


def test_every_flag_has_its_member() -> None:
    """Flags become the object of the Subscriptions API."""
    flags = said(
        sink=SINK,
        type_=["a", "b"],
        source="/s",
        filter_=['{"not": {"exact": {"id": "1"}}}'],
        sql=["type LIKE 'com.%'"],
        exact=["subject=x=y"],
        prefix=["type=com."],
        suffix=["id="],
        header=["X-Key: a:b"],
        format_="structured",
        retry=0,
        backoff_policy="linear",
        backoff_delay="PT1S",
        backoff_max="PT9S",
        timeout="PT5S",
        rate_limit=2.5,
        dead_letter_sink="http://127.0.0.1:9001",
        start="earliest",
        expires="2100-01-01T00:00:00Z",
        max_events=7,
        interval=1.5,
        data="null",
    )
    assert _subscribe_flags.body_of(flags) == {
        "sink": SINK,
        "protocol": "HTTP",
        "types": ["a", "b"],
        "source": "/s",
        "config": {
            "start": "earliest",
            "expires": "2100-01-01T00:00:00Z",
            "maxevents": 7,
            "interval": 1.5,
            "data": None,
        },
        "filters": [
            {"not": {"exact": {"id": "1"}}},
            {"sql": "type LIKE 'com.%'"},
            {"exact": {"subject": "x=y"}},
            {"prefix": {"type": "com."}},
            {"suffix": {"id": ""}},
        ],
        "protocolsettings": {
            "headers": {"X-Key": "a:b"},
            "format": "structured",
            "delivery": {
                "retry": 0,
                "backoffPolicy": "linear",
                "backoffDelay": "PT1S",
                "backoffMax": "PT9S",
                "timeout": "PT5S",
                "rateLimit": 2.5,
                "deadLetterSink": "http://127.0.0.1:9001",
            },
        },
    }


def test_settings_of_each_protocol_have_flags(tmp_path) -> None:
    """The places by names of their own, all others as they are called in the API."""
    certificates = tmp_path / "ca.pem"
    certificates.write_text("PEM")
    flags = said(
        sink="mqtts://e.com",
        protocol="MQTT5",
        topic="1",
        setting=["qos=2", "retain=true", 'userproperties={"a": "b"}', "expiry=x"],
        cacerts=str(certificates),
        dead_letter_sink='{"sink": "nats://e.com", "protocol": "NATS"}',
    )
    assert _subscribe_flags.body_of(flags) == {
        "sink": "mqtts://e.com",
        "protocol": "MQTT5",
        "protocolsettings": {
            "topicname": "1",
            "cacerts": "PEM",
            "qos": 2,
            "retain": True,
            "userproperties": {"a": "b"},
            "expiry": "x",
            "delivery": {"deadLetterSink": {"sink": "nats://e.com", "protocol": "NATS"}},
        },
    }
    for flag, setting in (("address", "address"), ("nats_subject", "subject")):
        body = _subscribe_flags.body_of(said(sink=SINK, **{flag: "x"}))
        assert body["protocolsettings"] == {setting: "x"}


def test_deliveries_are_signed_and_shown_a_certificate_by_flags(tmp_path, monkeypatch) -> None:
    """The private key is read from its place; it is never a value of a flag."""
    certificate = tmp_path / "own.pem"
    certificate.write_text("PEM")
    monkeypatch.setenv("OWN_KEY", "KEY")
    flags = said(
        sink=SINK,
        sign="v1a",
        client_certificate=str(certificate),
        client_key_from="env:OWN_KEY",
    )
    assert _subscribe_flags.body_of(flags)["protocolsettings"] == {
        "signature": {"scheme": "v1a"},
        "clientcertificate": {"certificate": "PEM", "key": "KEY"},
    }
    for setting in ("signature={}", "clientcertificate={}"):
        with pytest.raises(ValueError, match="say it with"):
            _subscribe_flags.body_of(said(sink=SINK, setting=[setting]))


def test_a_setting_that_is_text_is_not_read_as_json() -> None:
    """Or acks=1 would be a number."""
    flags = said(sink="kafka://e.com", protocol="KAFKA", setting=["acks=1", "topicname=true"])
    assert _subscribe_flags.body_of(flags)["protocolsettings"] == {"acks": "1", "topicname": "true"}


def test_the_settings_that_are_text_are_those_of_the_service_description() -> None:
    """A new one must not be read as JSON by chance."""
    for protocol, row in describe(SeenNames())["protocols"].items():
        described = {
            name
            for name, schema in row["settings"]["properties"].items()
            if schema.get("type", "string") == "string"
        }
        assert described - {"format", "cacerts"} == _subscribe_flags.text_settings(protocol)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (said(sink=SINK, setting=["qos"]), "'qos'"),
        (said(sink=SINK, setting=["qos=1", "qos=2"]), "qos: it is said twice"),
        (said(sink=SINK, topic="a", setting=["topicname=a"]), "topicname: it is said twice"),
        (said(sink=SINK, setting=["format=binary"]), "say it with --format"),
        (said(sink=SINK, setting=["delivery={}"]), "say it with --retry"),
        (said(sink=SINK, cacerts="/nowhere/ca.pem"), "--cacerts: cannot read /nowhere/ca.pem"),
        (said(sink=SINK, dead_letter_sink="{"), "--dead-letter-sink '{' is not JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_setting_that_cannot_be_read_is_named(flags: dict[str, Any], named: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError) as caught:
        _subscribe_flags.body_of(flags)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "flags",
    [
        said(sink=SINK, filter_=["{"]),
        said(sink=SINK, exact=["type"]),
        said(sink=SINK, prefix=["=x"]),
        said(sink=SINK, header=["X-Key=a"]),
    ],
    ids=["filter no JSON", "pair without =", "pair without name", "header without :"],
)
def test_a_flag_that_cannot_be_read_is_named(flags: dict[str, Any]) -> None:
    """The flag, and the text that was given, stand in the message."""
    flag, (given,) = next(item for item in flags.items() if isinstance(item[1], list))
    with pytest.raises(ValueError) as caught:
        _subscribe_flags.body_of(flags)
    assert repr(given) in str(caught.value)
    assert str(caught.value).startswith(f"--{flag.rstrip('_')}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"sinkCredential": {"secret": "hunter2"}', "is not JSON"),
        ('["hunter2"]', "holds no JSON object"),
        ('{"id": 5, "x": "hunter2"}', "is no text"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_shown(tmp_path, text: str, told: str) -> None:
    """It may hold secrets, and be long."""
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(SettingsError, match=told) as caught:
        _subscribe_flags.body_from(str(file), said())
    assert str(file) in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_may_be_meant_for_any_namespace(tmp_path) -> None:
    """The namespace is part of the path, not of the subscription; other flags are refused."""
    file = tmp_path / "x.json"
    file.write_text('{"sink": "http://127.0.0.1:9/"}')
    found = _subscribe_flags.body_from(str(file), said(namespace="shop"))
    assert found == {"sink": "http://127.0.0.1:9/"}
    with pytest.raises(SettingsError, match="--namespace"):
        _subscribe_flags.body_from(str(file), said(sink="http://127.0.0.1:8/"))
