"""Every kind of fault is found, named and placed; all of them at once."""

import dataclasses

import pytest

from distributary.core.errors import ResourceError
from distributary.resource import FAULTS_MAX
from distributary.subscriptions import resource as api_subscription


def settings(**members):
    """Members of a proposal with these protocol settings."""
    return {"protocolsettings": members}


def delivery(**members):
    """Members of a proposal with this delivery."""
    return {"protocolsettings": {"delivery": members}}


S = "$.protocolsettings"
D = "$.protocolsettings.delivery"

CASES = {
    "misspelt member": ({"filtres": []}, ("$.filtres", "unknown")),
    "member that needs quotes": ({"a b": 1}, ('$["a b"]', "unknown")),
    "sink missing": ({"sink": ...}, ("$.sink", "missing")),
    "sink not text": ({"sink": 1}, ("$.sink", "type")),
    "sink null": ({"sink": None}, ("$.sink", "type")),
    "sink empty": ({"sink": ""}, ("$.sink", "empty")),
    "sink too long": ({"sink": "http://e.com/" + "a" * 4096}, ("$.sink", "too-long")),
    "protocol missing": ({"protocol": ...}, ("$.protocol", "missing")),
    "protocol not text": ({"protocol": ["HTTP"]}, ("$.protocol", "type")),
    "protocol in lower case": ({"protocol": "http"}, ("$.protocol", "unknown")),
    "protocol unknown": ({"protocol": "SMTP"}, ("$.protocol", "unknown")),
    "source not text": ({"source": 1}, ("$.source", "type")),
    "source null": ({"source": None}, ("$.source", "type")),
    "source empty": ({"source": ""}, ("$.source", "empty")),
    "source with a space": ({"source": "a b"}, ("$.source", "uri")),
    "source with a bad percent": ({"source": "a%2"}, ("$.source", "uri")),
    "types not a list": ({"types": "a"}, ("$.types", "type")),
    "types empty": ({"types": []}, ("$.types", "empty")),
    "a type empty": ({"types": ["a", ""]}, ("$.types[1]", "empty")),
    "a type not text": ({"types": [1]}, ("$.types[0]", "type")),
    "a type too long": ({"types": ["a" * 1025]}, ("$.types[0]", "too-long")),
    "types too many": ({"types": ["a"] * 1001}, ("$.types", "too-many")),
    "config not an object": ({"config": []}, ("$.config", "type")),
    "config key unknown": ({"config": {"period": 5}}, ("$.config.period", "unknown")),
    "config key empty": ({"config": {"": 5}}, ('$.config[""]', "unknown")),
    "credential": ({"sinkCredential": []}, ("$.sinkCredential", "type")),
    "credential, later spelling": ({"sinkcredential": []}, ("$.sinkcredential", "type")),
    "filters not a list": ({"filters": {}}, ("$.filters", "type")),
    "filters null": ({"filters": None}, ("$.filters", "type")),
    "settings not an object": ({"protocolsettings": []}, (S, "type")),
    "setting unknown": (settings(retries=1), (f"{S}.retries", "unknown")),
    "method not text": (settings(method=1), (f"{S}.method", "type")),
    "method in lower case": (settings(method="post"), (f"{S}.method", "value")),
    "method without a body": (settings(method="GET"), (f"{S}.method", "value")),
    "format not text": (settings(format=1), (f"{S}.format", "type")),
    "format unknown": (settings(format="avro"), (f"{S}.format", "value")),
    "two formats": (
        settings(format="binary", delivery={"format": "json"}),
        (f"{D}.format", "conflict"),
    ),
    "headers not an object": (settings(headers=[]), (f"{S}.headers", "type")),
    "header value not text": (settings(headers={"A": 1}), (f"{S}.headers.A", "type")),
    "header name no token": (settings(headers={"A B": "1"}), (f'{S}.headers["A B"]', "value")),
    "header name empty": (settings(headers={"": "1"}), (f'{S}.headers[""]', "value")),
    "header with CR LF": (settings(headers={"A": "1\r\nB: 2"}), (f"{S}.headers.A", "value")),
    "header with LF at the end": (settings(headers={"A": "1\n"}), (f"{S}.headers.A", "value")),
    "header with NUL": (settings(headers={"A": "\0"}), (f"{S}.headers.A", "value")),
    "header beyond ASCII": (settings(headers={"A": "ü"}), (f"{S}.headers.A", "value")),
    "header twice": (settings(headers={"A": "1", "a": "2"}), (f"{S}.headers.a", "duplicate")),
    "too many headers": (
        settings(headers={f"a{n}": "" for n in range(101)}),
        (f"{S}.headers", "too-many"),
    ),
    "headers too long": (settings(headers={"a": "x" * 8192}), (f"{S}.headers", "too-long")),
    "delivery not an object": (settings(delivery=1), (D, "type")),
    "delivery member unknown": (delivery(retires=1), (f"{D}.retires", "unknown")),
    "retry not whole": (delivery(retry=1.5), (f"{D}.retry", "type")),
    "retry a boolean": (delivery(retry=True), (f"{D}.retry", "type")),
    "retry negative": (delivery(retry=-1), (f"{D}.retry", "value")),
    "retry too many": (delivery(retry=1001), (f"{D}.retry", "value")),
    "backoff policy unknown": (delivery(backoffPolicy="none"), (f"{D}.backoffPolicy", "value")),
    "backoff policy not text": (delivery(backoffPolicy=1), (f"{D}.backoffPolicy", "type")),
    "delay no duration": (delivery(backoffDelay="soon"), (f"{D}.backoffDelay", "duration")),
    "delay a number": (delivery(backoffDelay=True), (f"{D}.backoffDelay", "type")),
    "delay too long": (delivery(backoffDelay="P8D"), (f"{D}.backoffDelay", "value")),
    "ceiling below the delay": (
        delivery(backoffDelay="PT2S", backoffMax="PT1S"),
        (f"{D}.backoffMax", "value"),
    ),
    "timeout zero": (delivery(timeout="PT0S"), (f"{D}.timeout", "value")),
    "timeout too long": (delivery(timeout="PT11M"), (f"{D}.timeout", "value")),
    "rate zero": (delivery(rateLimit=0), (f"{D}.rateLimit", "value")),
    "rate a boolean": (delivery(rateLimit=True), (f"{D}.rateLimit", "type")),
    "rate too high": (delivery(rateLimit=1e300), (f"{D}.rateLimit", "value")),
    "dead letter sink a number": (delivery(deadLetterSink=1), (f"{D}.deadLetterSink", "type")),
    "dead letter sink null": (delivery(deadLetterSink=None), (f"{D}.deadLetterSink", "type")),
    "dead letter sink no URI": (delivery(deadLetterSink="x"), (f"{D}.deadLetterSink", "uri")),
    "dead letter object without sink": (
        delivery(deadLetterSink={}),
        (f"{D}.deadLetterSink.sink", "missing"),
    ),
    "dead letter object, unknown member": (
        delivery(deadLetterSink={"sink": "http://e.com", "x": 1}),
        (f"{D}.deadLetterSink.x", "unknown"),
    ),
    "dead letter object, protocol unknown": (
        delivery(deadLetterSink={"sink": "http://e.com", "protocol": "kafka"}),
        (f"{D}.deadLetterSink.protocol", "unknown"),
    ),
    "dead letter object, a sink of another protocol": (
        delivery(deadLetterSink={"sink": "kafka://e.com/t"}),
        (f"{D}.deadLetterSink.sink", "uri"),
    ),
    "setting of another protocol": (settings(qos=1), (f"{S}.qos", "not-applicable")),
    "dead letter object, credential": (
        delivery(deadLetterSink={"sink": "http://e.com", "sinkCredential": {}}),
        (f"{D}.deadLetterSink.sinkCredential", "unsupported"),
    ),
    "dead letter of a dead letter": (
        delivery(
            deadLetterSink={
                "sink": "http://e.com",
                "protocolsettings": {"delivery": {"deadLetterSink": "http://e.com"}},
            }
        ),
        (f"{D}.deadLetterSink.protocolsettings.delivery.deadLetterSink", "nested"),
    ),
}


@pytest.mark.parametrize(("members", "fault"), CASES.values(), ids=CASES.keys())
def test_one_fault_is_named_alone(faults_of, members, fault):
    """Exactly the fault that was made is reported, where it was made."""
    assert faults_of(**members) == [fault]


@pytest.mark.parametrize("name", ["Host", "content-LENGTH", "Transfer-Encoding", "Connection"])
def test_headers_of_the_message_are_reserved(faults_of, name):
    """A second framing header is how requests are smuggled."""
    assert [code for _, code in faults_of(**settings(headers={name: "x"}))] == ["reserved"]


@pytest.mark.parametrize("name", ["ce-id", "CE-Type", "Content-Type"])
def test_headers_of_the_event_are_reserved(faults_of, name):
    """A subscriber cannot forge what an event says of itself."""
    assert [code for _, code in faults_of(**settings(headers={name: "x"}))] == ["reserved"]


def test_the_limits_themselves_are_allowed(parse):
    """A limit is the last good value."""
    headers = {f"a{n}": "x" for n in range(99)} | {"last": ""}
    room = 8192 - sum(len(name) + len(value) for name, value in headers.items())
    headers["last"] = "y" * room
    spec = parse(
        types=["t" * 1024] * 1000,
        protocolsettings={
            "headers": headers,
            "delivery": {
                "retry": 1000,
                "timeout": "PT10M",
                "backoffDelay": "PT0S",
                "backoffMax": "P7D",
                "rateLimit": 1_000_000,
            },
        },
    )
    assert len(spec.settings.headers) == 100


def test_every_fault_comes_at_once(faults_of):
    """A client repairs its proposal in one go."""
    found = faults_of(
        sink="ftp://e.com",
        protocol="HTTP",
        types=[],
        filtres=1,
        filters=[{"exact": {"type": ""}}, {"nope": {}}],
        protocolsettings={"method": "get", "delivery": {"retry": -1}},
    )
    assert {path for path, _ in found} >= {
        "$.sink",
        "$.types",
        "$.filtres",
        f"{S}.method",
        f"{D}.retry",
    }
    assert any(path.startswith("$.filters[0]") for path, _ in found)
    assert any(path.startswith("$.filters[1]") for path, _ in found)


@pytest.mark.parametrize("body", [None, [], "x", 1, True], ids=repr)
def test_a_body_that_is_no_object_is_one_fault(rules, body):
    """Nothing is guessed."""
    with pytest.raises(ResourceError) as caught:
        api_subscription.parse(body, rules)
    assert [(fault.path, fault.code) for fault in caught.value.faults] == [("$", "type")]


def test_an_answer_names_a_bounded_number_of_faults(faults_of):
    """A hostile body does not make a larger answer."""
    found = faults_of(**{f"member{n}": 1 for n in range(10_000)})
    assert len(found) == FAULTS_MAX + 1
    assert found[-1] == ("$", "too-many")


def test_a_hint_names_the_member_that_was_meant(parse):
    """The commonest fault is a misspelt name."""
    with pytest.raises(ResourceError, match="did you mean filters"):
        parse(filtres=[])


def test_a_protocol_that_is_not_installed_says_what_it_needs(rules):
    """It is told apart from nonsense, and nothing else is said: its settings need not fit."""
    lacking = dataclasses.replace(rules, protocols_absent={"AMQP": "needs the extra x[amqp]"})
    body = {"sink": "x://e.com", "protocol": "AMQP", "protocolsettings": {"anything": 1}}
    with pytest.raises(ResourceError, match=r"needs the extra x\[amqp\]") as caught:
        api_subscription.parse(body, lacking)
    assert [(f.path, f.code) for f in caught.value.faults] == [("$.protocol", "unsupported")]


@pytest.mark.parametrize(
    "members",
    [
        {"sinkCredential": {"credentialType": "PLAIN", "secret": "canary"}},
        {"sink": "http://user:canary@example.com/"},
        settings(headers={"Authorization": "canary\r\n"}),
    ],
    ids=["credential", "userinfo", "header"],
)
def test_no_fault_repeats_a_secret(parse, members):
    """Faults travel into answers and logs."""
    with pytest.raises(ResourceError) as caught:
        parse(**members)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "members",
    [{"types": ["\ud800"]}, {"source": "/\udfff"}, {"filters": [{"exact": {"a": "\ud800"}}]}],
)
def test_a_lone_surrogate_is_a_fault(parse, members):
    """Python's own JSON decoder lets them through; no text encodes them."""
    with pytest.raises(ResourceError):
        parse(**members)
