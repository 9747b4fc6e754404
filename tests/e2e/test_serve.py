"""The whole server: publish, filter, deliver over HTTP, with real processes and real sinks."""

import base64
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator

import psutil
import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.cli._listen_server import Request
from distributary.core.database import sqlite_url
from distributary.core.outcome import DeliveryStore
from distributary.datadir import StatusField
from kit.proton_client import ProtonClient
from kit.running_server import (
    Role,
    RunningServer,
    wait_until,
)
from kit.traffic import Traffic
from kit.world import ARRIVE_S_MAX, World

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUICK = {"retry": 2, "backoffDelay": "PT0.05S", "backoffMax": "PT0.1S"}
"""A delivery policy that is at its end within a second."""

STEADFAST = {"retry": 1000, "backoffDelay": "PT0.1S", "backoffMax": "PT0.3S"}
"""A delivery policy that outlasts a restart."""

JSON = {"content-type": "application/json"}
UNKNOWN_MODE = "application/cloudevents+xml"
NAMES = ("good", "other", "flaky", "refusing", "dead", "later")
RESTARTS = 'process_restarts_total{process="pipeline"}'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, plain_server: RunningServer) -> Iterator[World]:
    """The server with the sinks of this module."""
    folder = tmp_path_factory.mktemp("serve")
    sinks = dict.fromkeys(NAMES, Behaviour())
    sinks["refusing"] = Behaviour(statuses=(StatusChance(400),))
    with Traffic(folder, sinks, keep_requests=True) as traffic:
        yield World(plain_server, traffic)


def _ids(requests: list[Request]) -> list[str]:
    return [dict(request.headers)[b"ce-id"].decode() for request in requests]


# -- publish, filter, deliver -----------------------------------------------------------------


def _binary(source: str) -> tuple[dict[str, str], bytes]:
    fields = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": source, "ce-type": "t.one"}
    return {**fields, "ce-subject": "s%20x", "ce-ext": "e", "content-type": "text/x"}, b"\x00\xff\n"


def _structured(source: str) -> tuple[dict[str, str], bytes]:
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": source,
        "type": "t.one",
        "subject": "s x",
        "ext": "e",
        "datacontenttype": "text/x",
        "data_base64": base64.b64encode(b"\x00\xff\n").decode(),
    }
    return {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()


def _batch(source: str) -> tuple[dict[str, str], bytes]:
    _, body = _structured(source)
    return {"content-type": "application/cloudevents-batch+json"}, b"[" + body + b"]"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_binary, id="binary"),
        pytest.param(_structured, id="structured"),
        pytest.param(_batch, id="batch"),
    ],
)
def test_an_event_published_in_any_mode_is_delivered_whole(
    world: World, make: Callable[[str], tuple[dict[str, str], bytes]]
) -> None:
    """Attributes, extensions and every byte of the data arrive as they were sent."""
    source = f"/mode/{make.__name__}"
    world.subscribe(source, "good")
    headers, body = make(source)
    assert world.server.request("POST", "/events", body, headers).status == 202
    (request,) = world.arrived(source, "good")
    fields = dict(request.headers)
    assert request.body == b"\x00\xff\n"
    assert fields[b"content-type"] == b"text/x"
    assert fields[b"ce-subject"] == b"s%20x"
    assert fields[b"ce-ext"] == b"e"
    assert fields[b"ce-type"] == b"t.one"


def test_a_subscription_may_ask_for_structured_events(world: World) -> None:
    """``format: structured``: the event comes as one JSON document."""
    world.subscribe("/structured", "good", protocolsettings={"format": "structured"})
    world.publish("/structured", "1")
    (request,) = world.arrived("/structured", "good")
    assert dict(request.headers)[b"content-type"].startswith(b"application/cloudevents+json")
    assert json.loads(request.body)["data"] == {"a": 1}


def test_filters_decide_who_gets_what(world: World) -> None:
    """Two subscriptions see the same stream, each its own part of it."""
    world.subscribe("/filters", "good", filters=[{"prefix": {"type": "order."}}])
    world.subscribe("/filters", "other", filters=[{"not": {"exact": {"type": "order.made"}}}])
    for number, kind in enumerate(("order.made", "order.paid", "stock.low")):
        assert world.publish("/filters", str(number), type=kind).status == 202
    world.arrived("/filters", "good", 2)
    world.arrived("/filters", "other", 2)
    world.settle()
    assert sorted(_ids(world.requests("/filters", "good"))) == ["0", "1"]
    assert sorted(_ids(world.requests("/filters", "other"))) == ["1", "2"]


def test_headers_of_the_subscription_are_sent(world: World) -> None:
    """``protocolsettings.headers`` go with every delivery."""
    world.subscribe("/headers", "good", protocolsettings={"headers": {"X-Tenant": "seven"}})
    world.publish("/headers", "1")
    (request,) = world.arrived("/headers", "good")
    assert dict(request.headers)[b"x-tenant"] == b"seven"


# -- when sinks fail --------------------------------------------------------------------------


def test_a_failed_delivery_is_tried_again_until_it_succeeds(world: World) -> None:
    """Two 503 and then a 200: three attempts, one delivery."""
    world.traffic.behave("flaky", Behaviour(fail_first=2))
    world.subscribe("/retry", "flaky", protocolsettings={"delivery": STEADFAST})
    world.publish("/retry", "1")
    requests = world.arrived("/retry", "flaky", 3)
    world.settle()
    assert [request.status for request in requests] == [503, 503, 200]


def test_a_dead_letter_says_what_failed(world: World) -> None:
    """A sink that refuses for good: the dead letter sink gets the event and the reason."""
    delivery = {**QUICK, "deadLetterSink": world.sink("dead").url}
    world.subscribe("/dead", "refusing", protocolsettings={"delivery": delivery})
    world.publish("/dead", "1")
    (request,) = world.arrived("/dead", "dead")
    fields = dict(request.headers)
    assert fields[b"ce-knativeerrordest"] == world.sink("refusing").url.encode()
    assert fields[b"ce-knativeerrorcode"] == b"400"
    assert fields[b"ce-id"] == b"1"
    assert request.body == b'{"a": 1}'
    assert len(world.requests("/dead", "refusing")) == 1


def test_without_a_dead_letter_sink_the_store_keeps_the_event(world: World) -> None:
    """What cannot be delivered stays for inspection, with its reason."""
    world.subscribe("/kept", "refusing", protocolsettings={"delivery": QUICK})
    world.publish("/kept", "1")
    world.arrived("/kept", "refusing")
    world.settle()
    kept = []
    for partition in range(world.server.partition_count()):
        url = sqlite_url(world.server.paths.delivery_db(partition))
        store = DeliveryStore(url, partition)
        kept += store.dead_letters()
        store.close()
    (dead_letter,) = [dead_letter for dead_letter in kept if b"/kept" in dead_letter.event]
    assert dead_letter.failure.code == 400
    assert dead_letter.failure.dest == world.sink("refusing").url


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        pytest.param(("GET", "/nowhere", None, {}), 404, id="404"),
        pytest.param(("PUT", "/events", b"x", {}), 405, id="405"),
        pytest.param(("POST", "/events", b"x" * (1024 * 1024 + 1), JSON), 413, id="413"),
        pytest.param(("POST", "/events", b"x", {"content-type": UNKNOWN_MODE}), 415, id="415"),
        pytest.param(("POST", "/events", b"x", {"x-long": "x" * 9000}), 431, id="431"),
        pytest.param(("POST", "/events", b"{}", {"ce-id": "1", **JSON}), 400, id="400"),
    ],
)
def test_requests_that_cannot_be_taken_are_refused_with_a_reason(
    world: World, asked: tuple[str, str, bytes | None, dict[str, str]], status: int
) -> None:
    """The status fits, and the body is a problem description with a code."""
    try:
        answer = world.server.request(*asked)
    except (BrokenPipeError, ConnectionResetError):
        # Refused before the body was read: the client was still sending and saw the end first.
        assert status == 413
        return
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"]
    if status == 405:
        assert "POST" in answer.headers["allow"]


def test_options_grants_what_a_webhook_sender_asks(world: World) -> None:
    """The validation handshake of the webhook specification."""
    answer = world.server.request(
        "OPTIONS",
        "/events",
        headers={"webhook-request-origin": "sender.example", "webhook-request-rate": "120"},
    )
    assert answer.status == 200
    assert "POST" in answer.headers["allow"]
    assert answer.headers["webhook-allowed-origin"] in {"sender.example", "*"}
    assert "webhook-allowed-rate" in answer.headers


# -- changes ----------------------------------------------------------------------------------


def test_an_update_moves_what_comes_to_the_new_sink(world: World) -> None:
    """After the answer to a PUT, events go where it says."""
    name = world.subscribe("/update", "good")
    world.publish("/update", "1")
    world.arrived("/update", "good")
    body = {"id": name, "sink": world.sink("other").url, "protocol": "HTTP", "source": "/update"}
    answer = world.server.request(
        "PUT", f"/subscriptions/{name}", json.dumps(body).encode(), dict(JSON)
    )
    assert answer.status == 200
    world.publish("/update", "2")
    assert _ids(world.arrived("/update", "other")) == ["2"]
    world.settle()
    assert _ids(world.requests("/update", "good")) == ["1"]


def test_a_deleted_subscription_gets_nothing_more(world: World) -> None:
    """After the answer to a DELETE no event is matched for it."""
    name = world.subscribe("/delete", "good")
    world.publish("/delete", "1")
    world.arrived("/delete", "good")
    assert world.server.request("DELETE", f"/subscriptions/{name}").status in {200, 204}
    assert world.server.request("GET", f"/subscriptions/{name}").status == 404
    world.publish("/delete", "2")
    world.settle()
    assert _ids(world.requests("/delete", "good")) == ["1"]


# -- seeing it run ----------------------------------------------------------------------------


def test_metrics_count_what_happened(world: World) -> None:
    """Names that dashboards use are there, and move."""
    before = world.server.metrics()
    world.subscribe("/metrics", "good")
    world.publish("/metrics", "1")
    world.arrived("/metrics", "good")
    world.settle()
    moved = ("accepted_events_total", "matches_total", "delivered_total")

    def counted() -> bool:  # each process publishes its numbers when it comes to that
        now = world.server.metrics()
        return all(now.get(name, 0.0) > before.get(name, 0.0) for name in moved)

    wait_until(counted, ARRIVE_S_MAX, f"all of them move: {moved}")
    after = world.server.metrics()
    for name in (
        "retried_total",
        'dead_lettered_total{to="sink"}',
        'lag_records{partition="0"}',
        'in_flight{partition="0"}',
        'queued{partition="0"}',
        "ack_seconds_count",
        "delivery_latency_seconds_count",
        'process_restarts_total{process="pipeline"}',
    ):
        assert name in after, name


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/", "/metrics"])
def test_the_system_paths_answer(world: World, path: str) -> None:
    """Liveness, readiness, descriptions and numbers, all on the one port."""
    assert world.server.request("GET", path).status == 200


# -- who may reach its ports ------------------------------------------------------------------


def _call_without_a_secret(port: int) -> bytes:
    """What a port of Spark answers to a call (a frame: lengths, type 3, a number)."""
    body = b"\x00\x00\x00\x12endpoint-verifier" + b"no object of Java"
    call = struct.pack(">BQI", 3, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(struct.pack(">Q", 8 + len(call)) + call)
        answer = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while not answer or len(answer) < struct.unpack(">Q", answer[:8].ljust(8))[0]:
                piece = connection.recv(65536)
                if not piece:
                    break
                answer += piece
    return answer


def test_ports_of_spark_deserialize_nothing_for_who_has_no_secret(world: World) -> None:
    """Each of the JVM's ports refuses a call before it looks at what the call holds."""
    (jvm,) = world.server.processes(Role.JVM)
    ports = {
        found.laddr.port
        for found in jvm.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN
    }
    answers = [_call_without_a_secret(port) for port in ports]
    assert any(b"SaslMessage" in answer for answer in answers)
    assert not any(b"java.io" in answer or b"NettyRpcEnv" in answer for answer in answers)


# -- stopping and going on; these stop the server, and stand last -----------------------------


def test_events_published_while_the_pipeline_is_down_are_delivered_later(world: World) -> None:
    """The front door stays open without Spark; what it took comes when Spark is back."""
    world.subscribe("/down", "good")
    restarts = world.server.metrics()[RESTARTS]
    world.server.kill(Role.JVM)
    for number in range(20):
        assert world.publish("/down", str(number)).status == 202
    wait_until(  # until then all looks well
        lambda: world.server.metrics()[RESTARTS] > restarts, 60.0, "the end of the driver is seen"
    )
    world.server.wait_ready()
    world.arrived("/down", "good", 20)
    world.settle()
    assert sorted(_ids(world.requests("/down", "good")), key=int) == [str(n) for n in range(20)]
    assert world.server.metrics()[RESTARTS] == restarts + 1


def test_a_stop_drains_and_a_start_goes_on_with_waiting_retries(
    world: World, amqp_port: int | None
) -> None:
    """SIGTERM ends with exit code 0; the retries that waited are made by the next run.

    A client of AMQP that does not leave by itself is told, and holds nothing up.
    """
    staying = ProtonClient(amqp_port) if amqp_port else None
    world.traffic.behave("later", Behaviour(statuses=(StatusChance(503),)))
    world.subscribe("/restart", "later", protocolsettings={"delivery": STEADFAST})
    world.publish("/restart", "1")
    world.arrived("/restart", "later", 2)
    assert staying is None or not staying.has_ended()
    assert world.server.stop() == 0
    assert staying is None or staying.has_ended()
    assert all(
        world.server.look(number, StatusField.IN_FLIGHT) == 0
        for number in range(world.server.partition_count())
    )

    world.traffic.behave("later", Behaviour())
    attempts = len(world.requests("/restart", "later"))
    world.server.start()
    world.server.wait_ready()
    requests = world.arrived("/restart", "later", attempts + 1)
    world.settle()
    assert [request.status for request in requests[attempts:]] == [200]
    assert _ids(requests[attempts:]) == ["1"]
    assert set(world.sink("later").taken) == {"1"}
