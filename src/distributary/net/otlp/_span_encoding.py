"""Spans as OpenTelemetry's own messages, made from values at once.

The SDK's encoder takes 24 us for a span, nearly all of it to look at what it was given; to fill the
messages that OpenTelemetry publishes takes 3. What is said of the process is encoded by the SDK,
once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from distributary.core.event.trace_context import TraceContext

Value: TypeAlias = str | int | float | bool

What: TypeAlias = tuple[
    str,
    SpanKind,
    TraceContext,
    TraceContext | None,
    tuple[int, int],
    Mapping[str, Value],
    Sequence[TraceContext],
    str | None,
]
"""Name, kind, context, parent, start and end, attributes, links, error of a span that ended."""

LINKS_MAX: Final = 128
"""Most links of a span, as OpenTelemetry's default: a batch may have 1,000 events."""

_LOCAL: Final = trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE: Final = _LOCAL | trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_ERROR: Final = trace_pb2.Status.STATUS_CODE_ERROR
_KINDS: Final = {
    SpanKind.INTERNAL: trace_pb2.Span.SPAN_KIND_INTERNAL,
    SpanKind.SERVER: trace_pb2.Span.SPAN_KIND_SERVER,
    SpanKind.CLIENT: trace_pb2.Span.SPAN_KIND_CLIENT,
}


class SpanEncoding:
    """Makes the body of an export of traces (OTLP 1.x, ``ExportTraceServiceRequest``).

    Args:
        example: A span of the resource and the scope that all spans have.
    """

    def __init__(self, example: ReadableSpan) -> None:
        empty = encode_spans([example])
        del empty.resource_spans[0].scope_spans[0].spans[:]
        self._begin = empty.SerializeToString()

    def encode(self, spans: Iterable[What]) -> bytes:
        """The body with *spans*."""
        request = ExportTraceServiceRequest.FromString(self._begin)
        add = request.resource_spans[0].scope_spans[0].spans.add
        for what in spans:
            _fill(add(), what)
        found: bytes = request.SerializeToString()
        return found


def _fill(span: Any, what: What) -> None:
    name, kind, (trace_id, span_id, _), parent, (start_ns, end_ns), attributes, links, error = what
    span.name = name
    span.kind = _KINDS[kind]
    span.trace_id = trace_id.to_bytes(16)
    span.span_id = span_id.to_bytes(8)
    span.start_time_unix_nano = start_ns
    span.end_time_unix_nano = end_ns
    span.flags = _LOCAL
    if parent is not None:
        span.parent_span_id = parent.span_id.to_bytes(8)
        span.flags = _REMOTE
    add = span.attributes.add
    for key, value in attributes.items():
        added = add()
        added.key = key
        if isinstance(value, str):
            added.value.string_value = value
        elif isinstance(value, bool):  # before numbers: it is one for Python
            added.value.bool_value = value
        elif isinstance(value, int):
            added.value.int_value = value
        else:
            added.value.double_value = value
    for each in links[:LINKS_MAX]:
        link = span.links.add()
        link.trace_id = each.trace_id.to_bytes(16)
        link.span_id = each.span_id.to_bytes(8)
        link.flags = _REMOTE
    if error is None:
        span.status.SetInParent()
    else:
        span.status.code = _ERROR
        span.status.message = error
