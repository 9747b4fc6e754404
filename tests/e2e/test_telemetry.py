"""A whole server that sends traces, metrics and logs to a collector, which then goes away."""

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.otlp_collector import CollectedSpan, OtlpCollector
from kit.running_server import RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0
SIGNALS = {"traces", "metrics", "logs"}
SECRET = "s3cret-of-the-collector"
QUICK = {"retry": 3, "backoffDelay": "PT0.1S", "backoffMax": "PT0.1S"}


class Sink:
    """Takes events on loopback; the first one at ``/busy`` is refused with 503."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                path, fields = self.path, {k.lower(): v for k, v in self.headers.items()}
                again = any(
                    path == each and fields["ce-id"] == one["ce-id"]
                    for each, one in tuple(sink.requests)
                )
                sink.requests.append((path, fields))
                status = 503 if path == "/busy" and not again else 204
                self.wfile.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def traceparents(self, path: str, event_id: str) -> list[str]:
        """What came along with one event, attempt by attempt."""
        found = tuple(self.requests)
        return [f.get("traceparent", "") for p, f in found if p == path and f["ce-id"] == event_id]

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()


class World(NamedTuple):
    """A server, what it delivers to, and its collector."""

    server: RunningServer
    sink: Sink
    collector: OtlpCollector
    routes: dict[str, str]

    def publish(self, *, traceparent: str | None = None, **attributes: str) -> str:
        """Publish an event; returns its id."""
        name = uuid.uuid4().hex
        fields = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/e2e", "ce-type": "t.otel"}
        fields |= {f"ce-{key}": value for key, value in attributes.items()}
        if traceparent is not None:
            fields |= {"traceparent": traceparent, "tracestate": "v=1"}
        assert self.server.request("POST", "/events", b"x", fields).status == 202
        return name

    def trace_of(self, trace_id: str, count: int) -> list[CollectedSpan]:
        """The spans of a trace, once there are so many."""
        wait_until(
            lambda: len(self.collector.trace(trace_id)) >= count,
            ARRIVE_S_MAX,
            f"{count} spans, of {self.collector.trace(trace_id)}",
        )
        return self.collector.trace(trace_id)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that traces every event, with two subscriptions."""
    folder: Path = tmp_path_factory.mktemp("telemetry")
    headers = folder / "headers"
    headers.write_text(f"api-key={SECRET}\n")
    headers.chmod(0o600)
    collector, sink = OtlpCollector(), Sink()
    environ = clean_environ() | {
        "OTEL_SERVICE_NAME": "shop-events",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_BLRP_SCHEDULE_DELAY": "200",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "5",
    }
    flags = ["--otlp", "traces,metrics,logs", "--otlp-endpoint", collector.url]
    flags += ["--otlp-headers-file", str(headers), "--trace-sample-ratio", "1"]
    with RunningServer(folder / "data", flags=flags, environ=environ) as server:
        routes = {}
        for name in ("fine", "busy"):
            body = {
                "protocol": "HTTP",
                "sink": f"{sink.url}/{name}",
                "types": ["t.otel"],
                "protocolsettings": {"delivery": QUICK},
            }
            path, kind = f"/subscriptions/{name}", {"content-type": "application/json"}
            answer = server.request("PUT", path, json.dumps(body).encode(), kind)
            assert answer.status in (200, 201), answer
            routes[name] = path
        yield World(server, sink, collector, routes)
        server.stop()
    sink.close()


def test_a_trace_runs_from_the_publisher_to_each_attempt(world: World) -> None:
    """Receipt, append, an attempt at one sink and two at the other, the second with a link."""
    trace_id, span_id = uuid.uuid4().hex, uuid.uuid4().hex[:16]
    name = world.publish(traceparent=f"00-{trace_id}-{span_id}-01")
    spans = world.trace_of(trace_id, 5)
    by_name = {span.name: span for span in spans}
    receive, append = by_name["receive"], by_name["append"]
    assert (receive.parent, receive.kind) == (span_id, "server")
    assert (append.parent, append.kind) == (receive.span_id, "internal")
    assert receive.attributes["cloudevents.event_id"] == name
    attempts = [span for span in spans if span.name == "deliver"]
    assert [(each.parent, each.kind) for each in attempts] == [(append.span_id, "client")] * 3
    fine = [each for each in attempts if each.attributes["distributary.subscription"] == "fine"]
    busy = [each for each in attempts if each.attributes["distributary.subscription"] == "busy"]
    assert [each.attributes["http.response.status_code"] for each in (*fine, *busy)] == [
        204,
        503,
        204,
    ]
    assert [each.attributes["distributary.attempt"] for each in busy] == [1, 2]
    assert [each.error for each in busy] == ["503", None]
    assert [each.links for each in busy] == [[], [(trace_id, busy[0].span_id)]]
    assert {span.resource["service.name"] for span in spans} == {"shop-events"}
    assert receive.resource["distributary.role"] == "ingest"
    assert fine[0].resource["distributary.role"].startswith("owner-p")
    for path, found in (("/fine", fine), ("/busy", busy)):
        expected = [f"00-{trace_id}-{each.span_id}-01" for each in found]
        assert world.sink.traceparents(path, name) == expected
    assert all("tracestate" not in fields for _, fields in world.sink.requests)


def test_an_event_without_a_trace_begins_one(world: World) -> None:
    """Of the share that the operator wants, here all."""
    name = world.publish()

    def root() -> list[CollectedSpan]:
        found = tuple(world.collector.spans)
        return [span for span in found if span.attributes.get("cloudevents.event_id") == name]

    wait_until(lambda: bool(root()), ARRIVE_S_MAX, "the span of its receipt")
    assert root()[0].parent == ""
    assert len(world.trace_of(root()[0].trace_id, 5)) == 5


def test_a_publisher_that_records_no_trace_is_followed(world: World) -> None:
    """Its sinks get the context as it is, and nothing is recorded."""
    trace_id = uuid.uuid4().hex
    sent = f"00-{trace_id}-{uuid.uuid4().hex[:16]}-00"
    name = world.publish(traceparent=sent)
    wait_until(
        lambda: len(world.sink.traceparents("/busy", name)) == 2, ARRIVE_S_MAX, "both attempts"
    )
    assert world.sink.traceparents("/busy", name) == [sent, sent]
    later = uuid.uuid4().hex
    world.publish(traceparent=f"00-{later}-{uuid.uuid4().hex[:16]}-01")
    world.trace_of(later, 5)
    assert world.collector.trace(trace_id) == []


def test_events_of_a_batch_are_linked_to_their_own_traces(world: World) -> None:
    """One trace for the request; each event's own is a link of its receipt and its attempts."""
    own, trace_id = uuid.uuid4().hex, uuid.uuid4().hex
    place = uuid.uuid4().hex[:16]
    events = [
        {"specversion": "1.0", "id": f"{own}-{n}", "source": "/e2e", "type": "t.otel"}
        for n in range(2)
    ]
    events[1]["traceparent"] = f"00-{own}-{place}-01"
    fields = {
        "content-type": "application/cloudevents-batch+json",
        "traceparent": f"00-{trace_id}-{uuid.uuid4().hex[:16]}-01",
    }
    body = json.dumps(events).encode()
    assert world.server.request("POST", "/events", body, fields).status == 202
    spans = world.trace_of(trace_id, 8)
    (receive,) = (span for span in spans if span.name == "receive")
    assert receive.links == [(own, place)]
    assert receive.attributes["messaging.batch.message_count"] == 2
    for span in spans:
        if span.name == "deliver":
            assert ((own, place) in span.links) is span.attributes[
                "distributary.position"
            ].endswith("-1")


def test_metrics_and_log_lines_arrive(world: World) -> None:
    """Those of ``/metrics``, with the same names; lines of all processes."""
    world.publish()
    wanted = "distributary_accepted_events_total"

    def newest() -> float:
        found = [point.value for point in tuple(world.collector.points) if point.name == wanted]
        return found[-1] if found else -1.0

    def shown() -> float:
        return world.server.metric("accepted_events_total")

    wait_until(lambda: newest() == shown(), ARRIVE_S_MAX, "the newest number arrives")
    names = {point.name for point in tuple(world.collector.points)}
    assert {"distributary_ack_seconds", "distributary_ready"} <= names
    logs = tuple(world.collector.logs)
    assert {"serving", "ready"} <= {line.name for line in logs}
    assert {line.attributes["role"] for line in logs} >= {"serve", "pipeline"}


def test_headers_are_shown_to_the_collector_alone(world: World) -> None:
    """Each request has them; no log, metric or path of the API does."""
    assert {fields.get("api-key") for fields in world.collector.headers} == {SECRET}
    assert SECRET not in world.server.log.read_text()
    assert SECRET not in world.server.request("GET", "/metrics").body.decode()
    assert SECRET not in repr(world.sink.requests)
    for name in ("live", "access"):
        path = getattr(world.server.paths, name)
        assert SECRET.encode() not in path.read_bytes()


def test_a_collector_that_is_gone_costs_no_event(world: World) -> None:
    """Events are delivered; what is given up is counted, and told in a line for each signal."""
    world.collector.close()
    names = [world.publish() for _ in range(50)]

    wait_until(
        lambda: all(world.sink.traceparents("/fine", name) for name in names),
        ARRIVE_S_MAX,
        "all are delivered",
    )

    def losing() -> set[str]:
        found = world.server.metrics().items()
        lost = [name for name, count in found if name.startswith("telemetry_dropped") and count]
        return {signal for signal in SIGNALS if any(f'"{signal}"' in name for name in lost)}

    wait_until(lambda: losing() == SIGNALS, ARRIVE_S_MAX, "losses are counted")

    def told() -> list[tuple[str, int | None, str]]:
        text = world.server.log.read_text()
        lines = [json.loads(line) for line in text.splitlines() if "{" in line]
        return [
            (one["role"], one.get("partition"), one["signal"])
            for one in lines
            if one["event"] == "telemetry-not-taken"
        ]

    wait_until(lambda: {signal for *_, signal in told()} == SIGNALS, ARRIVE_S_MAX, "it is told")
    assert len(told()) == len(set(told())), "one line for each process and signal"
    assert "opentelemetry" not in world.server.log.read_text()
    assert world.server.stop() == 0
