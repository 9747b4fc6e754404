"""An OpenTelemetry collector: takes OTLP over HTTP, and keeps what arrived.

It decodes by the messages that OpenTelemetry publishes (``opentelemetry-proto``), so that it reads
what a real collector would read.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

__all__ = ["Collected", "CollectedSpan", "OtlpCollector"]


class CollectedSpan(NamedTuple):
    """A span that arrived.

    Attributes:
        resource: Who recorded it.
        trace_id: In hexadecimal digits, as the other ids.
        parent: Empty: it has none.
        links: Trace and span id of each.
        error: The message of its status; None: it is no error.
    """

    name: str
    kind: str
    resource: dict[str, Any]
    trace_id: str
    span_id: str
    parent: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]
    error: str | None
    start_ns: int
    end_ns: int


class Collected(NamedTuple):
    """A log record or a metric point that arrived; a histogram's value is its count."""

    name: str
    resource: dict[str, Any]
    attributes: dict[str, Any]
    value: Any


class OtlpCollector:
    """A collector on a free port of loopback, until ``close``."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.logs: list[Collected] = []
        self.points: list[Collected] = []
        self.headers: list[dict[str, str]] = []
        self.closed = False
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if collector.closed:  # a connection of before
                    self.close_connection = True
                    return
                fields = {name.lower(): value for name, value in self.headers.items()}
                collector.take(self.path, fields, body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Take nothing any more: connections are refused."""
        self.closed = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, fields: dict[str, str], body: bytes) -> None:
        """Take one request."""
        self.headers.append(fields)
        {"/v1/traces": self._spans, "/v1/metrics": self._points, "/v1/logs": self._logs}[path](body)

    def trace(self, trace_id: str) -> list[CollectedSpan]:
        """The spans of one trace, by their start."""
        found = [span for span in tuple(self.spans) if span.trace_id == trace_id]
        return sorted(found, key=lambda span: span.start_ns)

    def _spans(self, body: bytes) -> None:
        for one in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(one.resource.attributes)
            for span in (span for scope in one.scope_spans for span in scope.spans):
                self.spans.append(
                    CollectedSpan(
                        span.name,
                        span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                        resource,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                        _values(span.attributes),
                        span.status.message if span.status.code == 2 else None,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                    )
                )

    def _logs(self, body: bytes) -> None:
        for one in ExportLogsServiceRequest.FromString(body).resource_logs:
            resource = _values(one.resource.attributes)
            for record in (record for scope in one.scope_logs for record in scope.log_records):
                found = _values(record.attributes)
                text = record.body.string_value
                self.logs.append(Collected(text, resource, found, record.severity_text))

    def _points(self, body: bytes) -> None:
        for one in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            resource = _values(one.resource.attributes)
            for metric in (metric for scope in one.scope_metrics for metric in scope.metrics):
                self.points += [
                    Collected(metric.name, resource, labels, value)
                    for labels, value in _points(metric)
                ]


def _points(metric: Metric) -> list[tuple[dict[str, Any], float]]:
    if metric.HasField("histogram"):
        return [(_values(each.attributes), each.count) for each in metric.histogram.data_points]
    numbers = metric.sum if metric.HasField("sum") else metric.gauge
    return [
        (_values(each.attributes), each.as_int if each.HasField("as_int") else each.as_double)
        for each in numbers.data_points
    ]


def _values(pairs: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _values(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)
