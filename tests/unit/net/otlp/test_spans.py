"""Spans on their way to a collector: bounded, counted, and nobody waits for them."""

import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from distributary.core.event.trace_context import TraceContext
from distributary.core.meter import Meter
from distributary.net.otlp import OtlpSettings
from distributary.net.otlp.spans import CLIENT, SERVER, TEXT_CHARS_MAX, Spans

LONG_S = 30.0


class Collector(SpanExporter):
    """Takes spans while it is told to; else waits, or refuses."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.result = SpanExportResult.SUCCESS
        self.opened = threading.Event()
        self.opened.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.opened.wait(LONG_S)
        if self.result is SpanExportResult.SUCCESS:
            self.spans += spans
        return self.result

    def shutdown(self) -> None:
        pass


class Told(list[tuple[str, dict[str, object]]]):
    """Lines that were written."""

    def __call__(self, event: str, fields: dict[str, object]) -> None:
        self.append((event, fields))


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector, which hangs no more at the end."""
    made = Collector()
    yield made
    made.opened.set()


def _spans(collector: Collector, told: Told) -> Spans:
    return Spans(OtlpSettings(signals=("traces",)), "test", told, exporter=collector)


def _add(spans: Spans, count: int) -> None:
    for number in range(1, count + 1):
        spans.add("deliver", TraceContext(1, number, sampled=True), None, (1, 2), {})


def _counts(spans: Spans) -> dict[str, float]:
    meter = Meter()
    spans.count_into(meter)
    return {name.partition("{")[2].rstrip("}"): n for name, n in meter.counters.items()}


SENT = 'signal="traces"'
FULL = 'signal="traces",reason="queue-full"'
REFUSED = 'signal="traces",reason="not-taken"'


def test_what_is_recorded_is_sent_and_counted(collector: Collector) -> None:
    """Ids, times, links and errors arrive as they were given."""
    spans = _spans(collector, told := Told())
    parent, other = TraceContext(1, 2, sampled=True), TraceContext(3, 4, sampled=False)
    context = TraceContext(1, 5, sampled=True)
    spans.add("x", context, parent, (10, 20), {"a": 1}, links=[other], error="timeout")
    spans.close(LONG_S)
    (span,) = collector.spans
    assert (span.name, span.start_time, span.end_time) == ("x", 10, 20)
    assert span.attributes == {"a": 1}
    assert span.context is not None
    assert span.parent is not None
    assert (span.context.span_id, span.parent.span_id) == (5, 2)
    assert [link.context.trace_id for link in span.links] == [3]
    assert span.status.description == "timeout"
    assert _counts(spans) == {SENT: 1, FULL: 0, REFUSED: 0}
    assert _counts(spans) == {SENT: 0, FULL: 0, REFUSED: 0}, "counted once"
    assert told == []


def test_texts_and_links_that_publishers_choose_are_cut_before_they_wait(
    collector: Collector,
) -> None:
    """2,048 spans with ids of 65,536 characters would take a gigabyte."""
    spans = _spans(collector, Told())
    context = TraceContext(1, 2, sampled=True)
    known = {"cloudevents.event_id": "é" * 65_536, "messaging.batch.message_count": 7}
    links = [TraceContext(3, number, sampled=True) for number in range(1, 1_001)]
    spans.add("publish", context, None, (1, 2), known, links=links, error="x" * 65_536)
    del known["cloudevents.event_id"]
    spans.close(LONG_S)
    (sent,) = collector.spans
    assert sent.attributes == {
        "cloudevents.event_id": "é" * TEXT_CHARS_MAX,
        "messaging.batch.message_count": 7,
    }
    assert len(sent.links) == 128
    assert sent.status.description == "x" * TEXT_CHARS_MAX


@pytest.mark.parametrize("named", ["", "shop"])
def test_the_operator_says_what_the_process_is_called(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """Variables of OpenTelemetry win over our own words, whether they name the service or not."""
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    also = f",service.name={named}" if named else ""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"service.instance.id=left,rack=7{also}")
    spans = _spans(collector, Told())
    _add(spans, 1)
    spans.close(LONG_S)
    found = collector.spans[0].resource.attributes
    assert found["service.name"] == (named or "distributary")
    assert (found["service.instance.id"], found["rack"]) == ("left", "7")
    assert found["distributary.role"] == "test"


def test_a_collector_that_hangs_holds_a_bounded_number(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More are given up, and counted; nobody waits for it."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    collector.opened.clear()
    spans = _spans(collector, Told())
    _add(spans, 250)
    spans.flush(0.01)  # it hangs, and this returns
    assert _counts(spans) == {SENT: 0, FULL: 150, REFUSED: 0}
    collector.opened.set()
    spans.close(LONG_S)
    assert len(collector.spans) == 100
    assert _counts(spans) == {SENT: 100, FULL: 0, REFUSED: 0}


def test_a_collector_that_refuses_is_told_once(collector: Collector) -> None:
    """One line when it begins, however much is given up."""
    collector.result = SpanExportResult.FAILURE
    spans = _spans(collector, told := Told())
    for _ in range(3):
        _add(spans, 2)
        spans.flush(LONG_S)
    assert _counts(spans) == {SENT: 0, FULL: 0, REFUSED: 6}
    assert [event for event, _ in told] == ["telemetry-not-taken"]
    collector.result = SpanExportResult.SUCCESS
    _add(spans, 1)
    spans.flush(LONG_S)
    spans.close(LONG_S)
    assert [event for event, _ in told] == ["telemetry-not-taken", "telemetry-taken-again"]
    assert told[-1][1] == {"signal": "traces", "given_up": 6}


PLACES = st.builds(
    TraceContext,
    st.integers(1, (1 << 128) - 1),
    st.integers(1, (1 << 64) - 1),
    st.booleans(),
)
VALUES = st.text(max_size=9) | st.integers(-(1 << 63), (1 << 63) - 1) | st.booleans() | st.floats()
RECORDED = st.fixed_dictionaries(
    {
        "name": st.text(max_size=9),
        "context": PLACES,
        "parent": st.none() | PLACES,
        "times_ns": st.tuples(st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 63) - 1)),
        "attributes": st.dictionaries(st.text(min_size=1, max_size=9), VALUES, max_size=4),
    },
    optional={
        "links": st.lists(PLACES, max_size=3) | st.just([TraceContext(1, 2, sampled=True)] * 200),
        "error": st.text(max_size=9),
        "kind": st.sampled_from([CLIENT, SERVER]),
    },
)


@settings(max_examples=30, deadline=None)
@given(st.lists(RECORDED, min_size=1, max_size=4))
def test_spans_are_encoded_as_the_sdk_encodes_them(recorded: list[dict[str, Any]]) -> None:
    """Whatever they say: the messages are the same."""
    by_sdk, lean = Collector(), Bodies()
    for exporter in (by_sdk, lean):
        spans = Spans(OtlpSettings(signals=("traces",)), "test", Told(), exporter=exporter)
        for each in recorded:
            spans.add(**each)
        spans.close(LONG_S)
    (body,) = lean.bodies
    assert body.SerializeToString(deterministic=True) == encode_spans(
        by_sdk.spans
    ).SerializeToString(deterministic=True)


class Bodies(OTLPSpanExporter):
    """Keeps the bodies that the SDK's exporter would send."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[ExportTraceServiceRequest] = []
        self._client = self  # as this version of the SDK names what sends: else nothing arrives

    def export(self, body: Any) -> Any:
        self.bodies.append(ExportTraceServiceRequest.FromString(body))
        return SimpleNamespace(success=True)

    def shutdown(self) -> None:
        pass
