"""Log lines by OTLP: what the server writes for its operator, as records."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.environment_variables import OTEL_BLRP_MAX_QUEUE_SIZE

from distributary.core.clock import Clock
from distributary.core.meter import Meter
from distributary.net.otlp import _sdk as sdk
from distributary.net.otlp._settings import OtlpSettings
from distributary.net.otlp._signal_meter import SignalMeter, Tell

_SEVERITIES: Final = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "critical": SeverityNumber.FATAL,
}

_OURS: Final = frozenset(("event", "level", "timestamp"))
"""Fields of a line that have a place of their own in a record."""

TEXT_CHARS_MAX: Final = 8_192
"""Longest text of a field: a line of another program is cut there too."""


class Logs:
    """Records lines of all processes. Any thread may call it, one at a time.

    Args:
        settings: Where they go.
        clock: Gives the time of lines without one.
        tell: Writes a line when the collector takes none, and when it does again.

    Raises:
        SettingsError: The file of headers cannot be used.
    """

    def __init__(self, settings: OtlpSettings, clock: Clock, tell: Tell) -> None:
        queued_max = sdk.queue_max(OTEL_BLRP_MAX_QUEUE_SIZE)
        self._clock = clock
        self._items = SignalMeter("logs", queued_max, tell)
        self._resource = sdk.resource("serve")
        self._scope = sdk.scope()
        self._processor = BatchLogRecordProcessor(
            _Counted(OTLPLogExporter(**sdk.begin(settings, "logs")), self._items),
            max_queue_size=queued_max,
            max_export_batch_size=sdk.batch_max(queued_max),
        )

    def add(self, fields: Mapping[str, Any]) -> None:
        """Record a line. Never blocks; gives it up where too many wait."""
        if not self._items.offer():
            return
        level = str(fields.get("level", "info"))
        now_ns = self._clock.wall_ms() * 1_000_000
        record = LogRecord(
            timestamp=_nanoseconds(fields.get("timestamp")) or now_ns,
            observed_timestamp=now_ns,
            severity_text=level.upper(),
            severity_number=_SEVERITIES.get(level, SeverityNumber.INFO),
            body=_value(fields.get("event")),
            attributes={key: _value(fields[key]) for key in fields if key not in _OURS},
        )
        self._processor.on_emit(
            ReadWriteLogRecord(record, self._resource, instrumentation_scope=self._scope)
        )

    def count_into(self, meter: Meter) -> None:
        """Add to the counters of *meter* what has happened since the last call."""
        self._items.count_into(meter)

    def close(self, seconds: float) -> None:
        """Send what waits, for *seconds* at most, and stop."""
        sdk.within(seconds, self._processor.shutdown)


class _Counted(LogRecordExporter):
    """Counts what an exporter sends."""

    def __init__(self, inner: LogRecordExporter, items: SignalMeter) -> None:
        self._inner = inner
        self._items = items

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result = LogRecordExportResult.FAILURE
        try:
            result = self._inner.export(batch)
        finally:
            self._items.ended(len(batch), sent=result is LogRecordExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _nanoseconds(text: object) -> int | None:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1_000_000) * 1_000
    except ValueError:
        return None


def _value(value: Any) -> Any:
    """*value* as an attribute may hold it: numbers beyond 64 bits are texts."""
    if isinstance(value, str):
        return value[:TEXT_CHARS_MAX]
    if isinstance(value, (bool, float)) or value is None:
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, Mapping):
        return {str(key): _value(each) for key, each in value.items()}
    return [_value(each) for each in value]
