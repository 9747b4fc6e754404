"""Clauses of the data plane: how events are taken at addresses, and how they are sent."""

import json
from urllib.parse import urlsplit

import pytest
import yaml

from distributary.core.event import Event
from distributary.knative.kinds import BROKER, CHANNEL
from distributary.protocols.http import binding as event_http
from kit import given
from kit.knative_client import event_attributes

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
BINARY = {f"ce-{name}": value for name, value in EVENT.items()}
STRUCTURED = {"content-type": "application/cloudevents+json"}


class Way:
    """An address, and a sink for what is taken there."""

    def __init__(self, world, kind) -> None:
        self.world = world
        self.sink = world.sink()
        self.route = world.trigger if kind == "broker" else world.subscription
        self.address = world.broker() if kind == "broker" else world.channel()
        self.kind = kind

    def post(self, body, headers, method="POST"):
        """One request."""
        return self.world.server.request(method, self.address, body, headers)

    def check(self, *sent) -> None:
        """Exactly these (attributes, data) arrived."""
        self.sink.wait(len(sent))
        arrived = [(event.attributes, event.data or b"") for event in self.sink.events]
        assert sorted(arrived, key=str) == sorted(sent, key=str)


@pytest.fixture(params=["broker", "channel"])
def way(request, world) -> Way:
    """A Broker and a Channel."""
    return Way(world, request.param)


@pytest.mark.clause("knative.broker.url.receiver")
@pytest.mark.clause("knative.channel.url.receiver")
@pytest.mark.clause("knative.wire.binary-and-structured")
@pytest.mark.clause("knative.wire.acknowledgement")
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_events_are_taken_binary_structured_and_in_batches(way, version):
    """And their version stays what it was."""
    way.route(way.sink.url)
    events = [EVENT | {"id": str(number), "specversion": version} for number in range(4)]
    fields = {f"ce-{name}": value for name, value in events[0].items()}
    answers = [
        way.post(b"", fields),
        way.post(json.dumps(events[1]).encode(), STRUCTURED),
        way.post(
            json.dumps(events[2:]).encode(), {"content-type": "application/cloudevents-batch+json"}
        ),
    ]
    assert [answer.status for answer in answers] == [202, 202, 202]
    way.check(*((event, b"") for event in events))


@pytest.mark.clause("knative.wire.binary-and-structured")
@pytest.mark.clause("knative.wire.post")
@pytest.mark.clause("knative.wire.binding")
@pytest.mark.parametrize("format_", ["binary", "json", None])
@pytest.mark.parametrize("taken", ["binary", "structured"])
def test_events_are_sent_by_post_in_the_mode_that_is_asked_for(way, format_, taken):
    """Binary where nothing is asked for; in either mode it is the event that came."""
    delivery = {"retry": 1} if format_ is None else {"format": format_}
    way.route(way.sink.url, delivery=delivery)
    sent = Event(event_attributes(datacontenttype="application/json", n=5), b'{"a":1}')
    encode = event_http.encode_binary if taken == "binary" else event_http.encode_structured
    fields, body = encode(sent)
    headers = dict(line.split(": ", 1) for line in fields.decode().splitlines())
    assert way.post(body, headers).status == 202
    (arrival,) = way.sink.wait()
    assert arrival.method == "POST"
    structured = arrival.headers["content-type"].startswith("application/cloudevents+json")
    assert structured == (format_ == "json")
    assert json.loads(arrival.event.data) == {"a": 1}
    attributes = {name: str(value) for name, value in arrival.event.attributes.items()}
    assert attributes == {name: str(value) for name, value in sent.attributes.items()}


@pytest.mark.clause("knative.wire.acknowledgement")
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (BINARY | {"ce-specversion": "19.0"}, b"{}"),
        *(
            ({name: value for name, value in BINARY.items() if name != f"ce-{missing}"}, b"{}")
            for missing in EVENT
        ),
        (BINARY | {"ce-id": ""}, b""),
        (BINARY | {"ce-time": "yesterday"}, b""),
        (STRUCTURED, b"{not json"),
        (STRUCTURED, b"[]"),
        (STRUCTURED, b""),
        (STRUCTURED, json.dumps(EVENT | {"data": 1, "data_base64": "AA=="}).encode()),
    ],
    ids=[
        "unknown version",
        *(f"no {name}" for name in EVENT),
        "empty id",
        "no time",
        "no JSON",
        "a list",
        "nothing",
        "data twice",
    ],
)
def test_what_is_no_event_is_answered_400(way, headers, body):
    """As a problem; and no route sees it."""
    answer = way.post(body, headers)
    assert (answer.status, answer.json()["code"]) == (400, "malformed-event")


@pytest.mark.clause("knative.broker.url.receiver")
@pytest.mark.clause("knative.channel.url.receiver")
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_answered_405(way, method):
    """With what is allowed."""
    answer = way.post(b"" if method in ("PUT", "PATCH") else None, BINARY, method)
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]


@pytest.mark.clause("knative.wire.options.allow")
def test_options_says_that_post_is_allowed(way):
    """A probe of a sender is answered well."""
    answer = way.post(None, {}, "OPTIONS")
    assert 200 <= answer.status < 300
    assert "POST" in answer.headers["allow"].split(", ")


@pytest.mark.clause("knative.response.unspecified.recipient")
def test_an_address_answers_an_event_with_202_or_an_error(way):
    """Also where a client waits for 100 Continue, or writes the path a little otherwise."""
    expect = way.post(b"x", BINARY | {"expect": "100-continue"})
    assert expect.status == 202
    for path in (f"{way.address}/", f"{way.address}/x", "/" + way.address, "/brokers/%2e%2e/b"):
        answer = way.world.server.request("POST", path, b"", BINARY)
        assert answer.status in (400, 404), path


@pytest.mark.clause("knative.wire.acknowledgement")
@pytest.mark.parametrize(
    "path",
    [
        "/brokers/{}/none",
        "/channels/{}/none",
        "/brokers/none/b",
        "/brokers/{}",
        "/brokers/",
        "/channels/{}/",
        "/brokers/{}/B",
    ],
)
def test_an_address_that_does_not_exist_is_answered_404(world, path):
    """A sender that follows the table tries again."""
    world.broker()
    world.channel()
    answer = world.server.request("POST", path.format(world.namespace), b"", BINARY)
    assert (answer.status, answer.json()["code"]) == (404, "notfound")


@pytest.mark.clause("knative.wire.duplicates.accepted")
@pytest.mark.clause("knative.wire.duplicates.not-detected")
def test_the_same_event_again_is_another_event(way):
    """Both are taken, and both are delivered."""
    way.route(way.sink.url)
    assert [way.post(b"", BINARY).status for _ in range(3)] == [202] * 3
    way.check(*[(EVENT, b"")] * 3)


def test_headers_of_the_sender_that_are_no_attributes_stay_behind(way):
    """Credentials of a publisher are not the subscriber's business."""
    way.route(way.sink.url)
    fields = {"authorization": "Bearer secret", "cookie": "a=b", "x-custom": "1"}
    assert way.post(b"", BINARY | fields).status == 202
    (arrival,) = way.sink.wait()
    assert not set(fields) & set(arrival.headers)


def official_events():
    """(place in the files, attributes, data, mode) of every event of the official suite."""
    for name in ("v1.0/v1_minimum", "v1", "v0.3/v03_minimum", "v03"):
        for number, case in enumerate(yaml.load_all(read(name), yaml.BaseLoader)):
            attributes = dict(case["ContextAttributes"])
            attributes |= attributes.pop("Extensions", {})
            attributes = {name: value.strip() for name, value in attributes.items()}
            yield f"{name}-{number}", attributes, case["Data"].encode(), case.get("Mode", "binary")


def read(name: str) -> str:
    """One of the files."""
    return (given.CLOUDEVENTS / "yaml" / f"{name}.yaml").read_text("utf-8")


@pytest.mark.clause("knative.broker.ready.address")
@pytest.mark.clause("knative.channel.ready.address")
def test_the_events_of_the_official_suite_pass_through(way):
    """Every one of them, in its mode; attributes and data arrive as they were."""
    given.needed(given.CLOUDEVENTS)
    way.route(way.sink.url)
    cases = {place: (attributes, data) for place, attributes, data, _ in official_events()}
    assert len(cases) > 10
    for place, attributes, data, mode in official_events():
        event = Event(attributes | {"place": place}, data)
        encode = event_http.encode_binary if mode == "binary" else event_http.encode_structured
        fields, body = encode(event)
        headers = dict(line.split(": ", 1) for line in fields.decode().splitlines())
        assert way.post(body, headers).status == 202, place
    way.sink.wait(len(cases))
    for event in way.sink.events:
        attributes, data = cases[str(event.attributes.pop("place"))]
        assert event.attributes == attributes
        assert (event.data or b"").strip() == data.strip()


def test_an_address_is_an_http_url_with_a_port(way):
    """Any HTTP client can use it as it stands in the status."""
    kind, name = (BROKER, "b") if way.kind == "broker" else (CHANNEL, "c")
    url = urlsplit(way.world.read(kind, name)["status"]["address"]["url"])
    assert (url.scheme, url.port, url.path) == ("http", way.world.server.port, way.address)
