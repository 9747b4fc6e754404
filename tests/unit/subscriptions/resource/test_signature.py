"""``protocolsettings.signature`` as it is read, and requests to rotate."""

import pytest

from distributary.core.errors import ResourceError
from distributary.protocols.http.settings import SENDER_HEADERS, HttpSettings
from distributary.subscriptions.resource import parse_rotation

PATH = "$.protocolsettings.signature"


def faults(spec, **members):
    """(path, code) of each fault."""
    with pytest.raises(ResourceError) as caught:
        spec(**members)
    return [(fault.path, fault.code) for fault in caught.value.faults]


def test_what_the_server_writes_is_ignored(spec):
    """A client may send back what it read."""
    read = {"scheme": "v1", "keys": [{"scheme": "v1", "created": "2026-01-01T00:00:00Z"}]}
    realized = spec(protocolsettings={"signature": read}).to_json()
    assert realized["protocolsettings"]["signature"] == {"scheme": "v1"}


@pytest.mark.parametrize(
    ("signature", "path", "code"),
    [
        ({}, ".scheme", "missing"),
        ({"scheme": "v2"}, ".scheme", "value"),
        ({"scheme": "v1", "secret": "whsec_canary"}, ".secret", "unknown"),
        ({"scheme": "v1", "overlap": "PT1H"}, ".overlap", "unknown"),
        ("v1", "", "type"),
    ],
)
def test_no_other_signature_is_accepted(spec, signature, path, code):
    """In particular no secret of the client's own."""
    assert faults(spec, protocolsettings={"signature": signature}) == [(PATH + path, code)]


def test_only_http_is_signed(spec):
    """Brokers pass messages on to others."""
    found = faults(
        spec,
        protocol="MQTT5",
        sink="mqtt://127.0.0.1/",
        protocolsettings={"topicname": "t", "signature": {"scheme": "v1"}},
    )
    assert found == [(PATH, "not-applicable")]


def test_a_dead_letter_sink_has_no_signature_of_its_own(spec):
    """At the sink's own origin it has the sink's."""
    target = {
        "sink": "http://127.0.0.1:9/dead",
        "protocolsettings": {"signature": {"scheme": "v1"}},
    }
    found = faults(spec, protocolsettings={"delivery": {"deadLetterSink": target}})
    where = "$.protocolsettings.delivery.deadLetterSink.protocolsettings.signature"
    assert found == [(where, "not-applicable")]


@pytest.mark.parametrize("signature", [{}, {"signature": {"scheme": "v1"}}])
@pytest.mark.parametrize(
    "name",
    [
        "webhook-id",
        "Webhook-Timestamp",
        "WEBHOOK-SIGNATURE",
        "WebHook-Request-Origin",
        "webhook-request-callback",
        "webhook-request-rate",
        "Kn-Namespace",
    ],
)
def test_a_header_that_tells_who_sends_is_the_server_s(spec, name, signature):
    """Signed or not, of a sink and of a dead letter sink: a receiver trusts what it says."""
    headers = {"headers": {name: "x"}}
    found = faults(spec, protocolsettings={**headers, **signature})
    assert found == [(f'$.protocolsettings.headers["{name}"]', "reserved")]
    target = {"sink": "http://127.0.0.1:9/dead", "protocolsettings": headers}
    found = faults(spec, protocolsettings={"delivery": {"deadLetterSink": target}})
    where = "$.protocolsettings.delivery.deadLetterSink.protocolsettings.headers"
    assert found == [(f'{where}["{name}"]', "reserved")]


def test_of_other_names_that_begin_like_these_none_is_taken():
    """A receiver may have its own."""
    taken = [(name.upper(), "x") for name in sorted(SENDER_HEADERS)]
    kept = HttpSettings(headers=(*taken, ("webhook-token", "y")))
    assert kept.lines == ((b"webhook-token", b"y"),)  # of what an earlier version stored


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({}, (None, 86_400.0)),
        ({"overlap": "PT0S"}, (None, 0.0)),
        ({"overlap": "P7D", "scheme": "v1a"}, ("v1a", 604_800.0)),
    ],
)
def test_a_rotation_is_read(body, found):
    """With its defaults."""
    assert tuple(parse_rotation(body)) == found


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"overlap": "PT604801S"}, "$.overlap", "duration"),
        ({"overlap": "-PT1S"}, "$.overlap", "duration"),
        ({"overlap": "tomorrow"}, "$.overlap", "duration"),
        ({"overlap": ""}, "$.overlap", "empty"),
        ({"overlap": 5}, "$.overlap", "type"),
        ({"scheme": "v3"}, "$.scheme", "value"),
        ({"secret": "whsec_canary"}, "$.secret", "unknown"),
        ([], "$", "type"),
    ],
)
def test_no_other_rotation_is(body, path, code):
    """Every fault has its place."""
    with pytest.raises(ResourceError) as caught:
        parse_rotation(body)
    assert [(fault.path, fault.code) for fault in caught.value.faults] == [(path, code)]
