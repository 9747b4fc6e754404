"""The Subscriptions API of a whole server: over the wire, and what deliveries make of it."""

import json
from collections.abc import Iterator

import pytest

from distributary.cli._behaviour import Behaviour
from kit.running_server import Answer, RunningServer, wait_until
from kit.traffic import Sink, Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0
"""Longest wait for a delivery: longer means that it never comes."""

JSON = {"content-type": "application/json"}


class Wire:
    """A server, and sinks that tell what arrived."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.sinks = traffic.sinks

    def send(self, method: str, path: str, value: object, **headers: str) -> Answer:
        """Send *value* as JSON."""
        return self.server.request(method, path, json.dumps(value).encode(), JSON | headers)

    def proposal(self, sink: str, **members: object) -> dict[str, object]:
        """A subscription that sends to *sink*."""
        return {"sink": self.sinks[sink].url, "protocol": "HTTP", **members}

    def publish(self, id_: str, type_: str, source: str) -> None:
        """One event."""
        event = {"specversion": "1.0", "id": id_, "source": source, "type": type_}
        fields = {"content-type": "application/cloudevents+json"}
        answer = self.server.request("POST", "/events", json.dumps(event).encode(), fields)
        assert answer.status == 202

    def arrive(self, sink: str, *ids: str) -> None:
        """Wait until exactly these events arrived."""
        wait_until(lambda: len(ids_at(self.sinks[sink])) >= len(ids), ARRIVE_S_MAX, str(ids))
        assert sorted(ids_at(self.sinks[sink])) == sorted(ids)


def ids_at(sink: Sink) -> list[str]:
    """Ids of the events that *sink* got."""
    return [dict(request.headers)[b"ce-id"].decode() for request in tuple(sink.requests)]


@pytest.fixture(scope="module")
def wire(tmp_path_factory, plain_server) -> Iterator[Wire]:
    """A running server with a sink for each test that needs one."""
    folder = tmp_path_factory.mktemp("api")
    behaviours = {"kept": Behaviour(), "replaced": Behaviour()}
    with Traffic(folder, behaviours, keep_requests=True) as traffic:
        yield Wire(plain_server, traffic)


def test_an_update_that_is_rejected_leaves_the_old_subscription_at_work(wire):
    """Refused whole: neither its filters nor its sink take effect, and the tag stays."""
    old = wire.proposal("kept", source="/kept", filters=[{"exact": {"type": "a"}}])
    created = wire.send("PUT", "/subscriptions/kept", old)
    assert created.status == 201
    rejected = (
        wire.send("PUT", "/subscriptions/kept", old | {"filters": [{"exact": {"type": ""}}]}),
        wire.send("PUT", "/subscriptions/kept", old | {"sink": "nowhere", "filters": []}),
        wire.send("PUT", "/subscriptions/kept", {**old, "filters": [], "x": 1}),
        wire.send("PUT", "/subscriptions/kept", old | {"filters": []}, **{"if-match": '"x"'}),
    )
    assert [answer.status for answer in rejected] == [400, 400, 400, 412]
    assert rejected[0].json()["faults"][0]["path"] == "$.filters[0].exact.type"
    read = wire.server.request("GET", "/subscriptions/kept")
    kept = {name: value for name, value in read.json().items() if name != "status"}
    assert (kept, read.headers["etag"]) == (created.json(), created.headers["etag"])
    wire.publish("1", "a", "/kept")
    wire.publish("2", "b", "/kept")
    wire.publish("3", "a", "/kept")
    wire.arrive("kept", "1", "3")


def test_an_update_that_is_taken_is_in_force_when_it_is_answered(wire):
    """The events before it by the old filters, those after it by the new ones."""
    before = wire.proposal("replaced", source="/replaced", filters=[{"exact": {"type": "a"}}])
    wire.send("PUT", "/subscriptions/replaced", before)
    wire.publish("1", "a", "/replaced")
    wire.publish("2", "b", "/replaced")
    answer = wire.send(
        "PUT", "/subscriptions/replaced", before | {"filters": [{"exact": {"type": "b"}}]}
    )
    assert answer.status == 200
    wire.publish("3", "a", "/replaced")
    wire.publish("4", "b", "/replaced")
    wire.arrive("replaced", "1", "4")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b'{"filters":["' + b"x" * (1 << 20), 413, id="a filter of 1 MiB"),
        pytest.param(
            b'{"filters":[' + b'{"not":' * 200 + b"1" + b"}" * 200 + b"]}", 400, id="200 deep"
        ),
        pytest.param(
            b'{"uid":"1","revision":9,"state":"live","etag":"x"}', 400, id="mass assignment"
        ),
        pytest.param(b'{"sink":["http://127.0.0.1/"],"protocol":1}', 400, id="wrong types"),
        pytest.param(b"[" * 100_000, 400, id="brackets"),
    ],
)
def test_hostile_bodies_are_refused_as_a_whole(wire, body, status):
    """Nothing is stored, and the server goes on."""
    before = wire.server.request("GET", "/subscriptions").json()
    answer = wire.server.request("POST", "/subscriptions", body, JSON)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert wire.server.request("GET", "/subscriptions").json() == before


def test_types_and_sources_that_were_seen_outlast_a_restart(wire):
    """The description names those of accepted events alone, also after the server has stopped."""
    server = wire.server
    wire.publish("1", "com.example.seen", "/seen")
    refused = b'{"specversion":"1.0","id":"","source":"/refused","type":"refused"}'
    fields = {"content-type": "application/cloudevents+json"}
    assert server.request("POST", "/events", refused, fields).status == 400
    wait_until(lambda: "/seen" in described(server)["eventsources"], ARRIVE_S_MAX, "it is seen")
    before = described(server)
    assert server.stop() == 0
    server.start()
    server.wait_ready()
    assert described(server) == before
    assert "com.example.seen" in before["eventtypes"]
    assert "/refused" not in before["eventsources"]
    assert not before["eventtypes_truncated"]


def described(server: RunningServer) -> dict:
    """The service description."""
    return server.request("GET", "/").json()
