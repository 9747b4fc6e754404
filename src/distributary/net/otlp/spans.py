"""Spans: recorded when they end, sent by a thread of the SDK.

A span is made as a value, not by a ``Tracer``: whoever calls this has decided about sampling and
knows the start. That takes a fifth of the time, and most of that in the thread that sends.
"""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from distributary.core.event.trace_context import TraceContext
from distributary.core.meter import Meter
from distributary.net.otlp import _sdk as sdk
from distributary.net.otlp._settings import OtlpSettings
from distributary.net.otlp._signal_meter import SignalMeter, Tell
from distributary.net.otlp._span_encoding import LINKS_MAX, SpanEncoding, Value, What

CLIENT: Final = SpanKind.CLIENT
SERVER: Final = SpanKind.SERVER

TEXT_CHARS_MAX: Final = 1_024
"""Longest text of a span: as many wait as ``OTEL_BSP_MAX_QUEUE_SIZE`` says, so all of their texts
take some 30 MiB at most, and a request to the collector some megabytes."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSAMPLED: Final = TraceFlags(TraceFlags.DEFAULT)
_FINE: Final = Status(StatusCode.UNSET)
_ANY: Final = SpanContext(1, 1, is_remote=False, trace_flags=_SAMPLED)


class Spans:
    """Records spans of one process; any thread of the process may call it, one at a time.

    Args:
        settings: Where they go.
        role: Of the process, as in log lines.
        tell: Writes a line when the collector takes none, and when it does again.
        exporter: Sends them; None: by OTLP.

    Raises:
        SettingsError: The file of headers cannot be used.
    """

    def __init__(
        self,
        settings: OtlpSettings,
        role: str,
        tell: Tell,
        *,
        exporter: SpanExporter | None = None,
    ) -> None:
        queued_max = sdk.queue_max(OTEL_BSP_MAX_QUEUE_SIZE)
        self.sample_ratio = settings.sample_ratio
        self._items = SignalMeter("traces", queued_max, tell)
        inner = exporter or OTLPSpanExporter(**sdk.begin(settings, "traces"))
        self._processor = BatchSpanProcessor(
            _Sending(inner, self._items, sdk.resource(role), sdk.scope()),
            max_queue_size=queued_max,
            max_export_batch_size=sdk.batch_max(queued_max),
        )

    def add(
        self,
        name: str,
        context: TraceContext,
        parent: TraceContext | None,
        times_ns: tuple[int, int],
        attributes: Mapping[str, Value],
        *,
        links: Sequence[TraceContext] = (),
        error: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        """Record a span that has ended. Never blocks; gives it up where too many wait.

        Args:
            name: What was done.
            context: Of the span.
            parent: Of its parent; None: it begins the trace.
            times_ns: Its start and end, nanoseconds of Unix time.
            attributes: What is to be known of it; texts are cut at ``TEXT_CHARS_MAX``.
            links: Other spans that it has to do with; those beyond ``LINKS_MAX`` are left out.
            error: Why it failed; None: it did not.
            kind: Whether it answers a request, makes one, or neither.
        """
        if not self._items.offer():
            return
        what = _cut(attributes), links[:LINKS_MAX], error and error[:TEXT_CHARS_MAX]
        self._processor.on_end(_Recorded((name, kind, context, parent, times_ns, *what)))

    def count_into(self, meter: Meter) -> None:
        """Add to the counters of *meter* what has happened since the last call."""
        self._items.count_into(meter)

    def flush(self, seconds: float) -> None:
        """Send what waits, for *seconds* at most; the rest goes on in its thread."""
        sdk.within(seconds, self._processor.force_flush)

    def close(self, seconds: float) -> None:
        """Send what waits, for *seconds* at most, and stop."""
        sdk.within(seconds, self._processor.shutdown)


def _cut(attributes: Mapping[str, Value]) -> Mapping[str, Value]:
    """*attributes* as they may wait: publishers choose ids and types, of 65,536 characters each."""
    return {
        name: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
        for name, value in attributes.items()
    }


class _Recorded(ReadableSpan):
    """A span that has ended, as it was recorded: what is sent of it is made by the other thread.

    So the one that records it, once in a hundred events and with cold caches, does little.
    """

    def __init__(self, what: What) -> None:
        self.what = what

    @property
    def context(self) -> SpanContext:
        """One that is sampled, as all are: more is not asked for before it is sent."""
        return _ANY


class _Sending(SpanExporter):
    """Makes the spans that are sent, and counts what an exporter does with them."""

    def __init__(
        self, inner: SpanExporter, items: SignalMeter, of: Resource, by: InstrumentationScope
    ) -> None:
        self._inner = inner
        self._items = items
        self._resource = of
        self._scope = by
        self._post = body_sender(inner)
        self._encoding: SpanEncoding | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._export([each.what for each in spans if isinstance(each, _Recorded)])
        finally:
            self._items.ended(len(spans), sent=result is SpanExportResult.SUCCESS)
        return result

    def _export(self, recorded: list[What]) -> SpanExportResult:
        if self._post is None:
            return self._inner.export([self._made(what) for what in recorded])
        if self._encoding is None:
            self._encoding = SpanEncoding(self._made(recorded[0]))
        sent = self._post(self._encoding.encode(recorded))
        return SpanExportResult.SUCCESS if sent else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._inner.shutdown()

    def _made(self, what: What) -> ReadableSpan:
        name, kind, (trace_id, span_id, _), parent, times_ns, attributes, links, error = what
        return ReadableSpan(
            name,
            SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED),
            None if parent is None else _remote(parent),
            self._resource,
            attributes,
            links=[Link(_remote(each)) for each in links[:LINKS_MAX]],
            kind=kind,
            status=_FINE if error is None else Status(StatusCode.ERROR, error),
            start_time=times_ns[0],
            end_time=times_ns[1],
            instrumentation_scope=self._scope,
        )


def body_sender(exporter: SpanExporter) -> Callable[[bytes], bool] | None:
    """How *exporter* sends a body that is encoded already; None: it encodes spans itself.

    The SDK's exporter has no public way: where another version lacks this one, it encodes.
    """
    send = getattr(getattr(exporter, "_client", None), "export", None)
    if send is None or not isinstance(exporter, OTLPSpanExporter):
        return None
    return lambda body: bool(send(body).success)


def _remote(context: TraceContext) -> SpanContext:
    trace_id, span_id, sampled = context
    flags = _SAMPLED if sampled else _UNSAMPLED
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)


def new_span_id() -> int:
    """Returns the id of a new span: 64 random bits, not 0."""
    return secrets.randbits(64) or 1


_open: dict[tuple[int, OtlpSettings, str], Spans] = {}
_opening = threading.Lock()


def shared(settings: OtlpSettings, role: str, tell: Tell) -> Spans:
    """Returns the spans of this process and *role*, which outlive whoever asks for them.

    Sessions of an owner follow one another in one process, and none may wait for what the one
    before has not sent.
    """
    key = os.getpid(), settings, role
    with _opening:
        found = _open.get(key)
        if found is None:
            found = _open[key] = Spans(settings, role, tell)
    return found
