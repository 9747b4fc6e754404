import pytest

from distributary.cli import _subscribe
from distributary.cli._subscribe import Wish
from distributary.subscriptions.http import Description
from distributary.subscriptions.http._description import describe

SINK = "http://127.0.0.1:9000"


def test_a_sink_alone_is_enough() -> None:
    """What is not said is left to the server's defaults."""
    assert _subscribe.body_of(Wish(sink=SINK)) == {"sink": SINK, "protocol": "HTTP"}


def test_every_flag_has_its_member() -> None:
    """Flags become the object of the Subscriptions API."""
    wish = Wish(
        sink=SINK,
        types=("a", "b"),
        source="/s",
        filters=('{"not": {"exact": {"id": "1"}}}',),
        sql=("type LIKE 'com.%'",),
        exact=("subject=x=y",),
        prefix=("type=com.",),
        suffix=("id=",),
        headers=("X-Key: a:b",),
        format="structured",
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
    assert _subscribe.body_of(wish) == {
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
    wish = Wish(
        sink="mqtts://e.com",
        protocol="MQTT5",
        places={"topicname": "1"},
        settings=("qos=2", "retain=true", 'userproperties={"a": "b"}', "expiry=x"),
        cacerts=str(certificates),
        dead_letter_sink='{"sink": "nats://e.com", "protocol": "NATS"}',
    )
    assert _subscribe.body_of(wish) == {
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


def test_a_setting_that_is_text_is_not_read_as_json() -> None:
    """Or acks=1 would be a number."""
    wish = Wish(sink="kafka://e.com", protocol="KAFKA", settings=("acks=1", "topicname=true"))
    assert _subscribe.body_of(wish)["protocolsettings"] == {"acks": "1", "topicname": "true"}


def test_the_settings_that_are_text_are_those_of_the_service_description() -> None:
    """A new one must not be read as JSON by chance."""
    for protocol, row in describe(Description())["protocols"].items():
        described = {
            name
            for name, schema in row["settings"]["properties"].items()
            if schema.get("type", "string") == "string"
        }
        assert described - {"format", "cacerts"} == _subscribe.text_settings(protocol)


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        (Wish(sink=SINK, settings=("qos",)), "'qos'"),
        (Wish(sink=SINK, settings=("qos=1", "qos=2")), "qos: it is said twice"),
        (
            Wish(sink=SINK, places={"topicname": "a"}, settings=("topicname=a",)),
            "topicname: it is said twice",
        ),
        (Wish(sink=SINK, settings=("format=binary",)), "say it with --format"),
        (Wish(sink=SINK, settings=("delivery={}",)), "say it with --retry"),
        (Wish(sink=SINK, cacerts="/nowhere/ca.pem"), "--cacerts: cannot read /nowhere/ca.pem"),
        (Wish(sink=SINK, dead_letter_sink="{"), "--dead-letter-sink '{' is not JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_setting_that_cannot_be_read_is_named(wish: Wish, named: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError) as caught:
        _subscribe.body_of(wish)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "wish",
    [
        Wish(sink=SINK, filters=("{",)),
        Wish(sink=SINK, exact=("type",)),
        Wish(sink=SINK, prefix=("=x",)),
        Wish(sink=SINK, headers=("X-Key=a",)),
    ],
    ids=["filter no JSON", "pair without =", "pair without name", "header without :"],
)
def test_a_flag_that_cannot_be_read_is_named(wish: Wish) -> None:
    """The text that was given stands in the message."""
    given = (*wish.filters, *wish.exact, *wish.prefix, *wish.headers)[0]
    with pytest.raises(ValueError) as caught:
        _subscribe.body_of(wish)
    assert repr(given) in str(caught.value)


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
    with pytest.raises(ValueError, match=told) as caught:
        _subscribe.body_from(str(file), Wish(sink=""))
    assert str(file) in str(caught.value)
    assert "hunter2" not in str(caught.value)
