"""Metrics by OTLP: the families of ``/metrics``, as the data model of OpenTelemetry has them."""

import math
import os
import threading
from itertools import pairwise
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.environment_variables import OTEL_METRIC_EXPORT_INTERVAL
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from prometheus_client.core import Metric as Family

from distributary.core.clock import Clock
from distributary.core.meter import Families, Meter
from distributary.net.otlp import _sdk as sdk
from distributary.net.otlp._settings import OtlpSettings
from distributary.net.otlp._signal_meter import SignalMeter, Tell

INTERVAL_S: Final = 60.0
"""Seconds between two exports: the default of OpenTelemetry, as ``OTEL_METRIC_EXPORT_INTERVAL``
(milliseconds) may change it."""

_INTERVAL_S_MIN: Final = 1.0
_TOTAL: Final = AggregationTemporality.CUMULATIVE
_UNKNOWN_NS: Final = 0
"""Counters outlive processes and restarts: when they began is not known, and 0 says so."""

_UNITS: Final = {"_seconds": "s", "_bytes": "By"}


class Metrics:
    """Sends metrics in a thread of its own. For one thread.

    Args:
        settings: Where they go.
        clock: Gives the time of the points.
        tell: Writes a line when the collector takes none, and when it does again.

    Raises:
        SettingsError: The file of headers cannot be used.
    """

    def __init__(self, settings: OtlpSettings, clock: Clock, tell: Tell) -> None:
        self._clock = clock
        self._items = SignalMeter("metrics", 0, tell)  # nothing waits
        self._resource = sdk.resource("serve")
        self._scope = sdk.scope()
        self._exporter = OTLPMetricExporter(**sdk.begin(settings, "metrics"))
        self._sending: threading.Thread | None = None
        self.interval_s = interval_s()

    def send(self, families: Families) -> None:
        """Send *families*; gives them up where the ones before are still under way."""
        metrics = [each for each in map(self._metric, families.collect()) if each is not None]
        count = sum(len(each.data.data_points) for each in metrics)
        if self._sending is not None and self._sending.is_alive():
            self._items.ended(count, sent=False)
            return
        work = threading.Thread(
            target=self._send, args=(metrics, count), name="otlp-metrics", daemon=True
        )
        self._sending = work
        work.start()

    def _send(self, metrics: list[Metric], count: int) -> None:
        result = MetricExportResult.FAILURE
        try:
            scoped = ScopeMetrics(self._scope, metrics, "")
            data = MetricsData([ResourceMetrics(self._resource, [scoped], "")])
            result = self._exporter.export(data)
        finally:
            self._items.ended(count, sent=result is MetricExportResult.SUCCESS)

    def count_into(self, meter: Meter) -> None:
        """Add to the counters of *meter* what has happened since the last call."""
        self._items.count_into(meter)

    def close(self, seconds: float) -> None:
        """Wait for what is under way, for *seconds* at most, and stop."""
        if self._sending is not None:
            self._sending.join(seconds)
        sdk.within(1.0, self._exporter.shutdown)

    def _metric(self, family: Family) -> Metric | None:
        now_ns = self._clock.wall_ms() * 1_000_000
        unit = next((one for end, one in _UNITS.items() if family.name.endswith(end)), "")
        if family.type == "histogram":
            points = _histograms(family, now_ns)
            data: Sum | Gauge | Histogram = Histogram(points, _TOTAL)
        else:
            numbers = [
                NumberDataPoint(dict(sample.labels), _UNKNOWN_NS, now_ns, sample.value)
                for sample in family.samples
            ]
            data = Gauge(numbers)
            if family.type == "counter":
                data = Sum(numbers, _TOTAL, is_monotonic=True)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        return Metric(name, family.documentation, unit, data) if data.data_points else None


def interval_s() -> float:
    """Returns the seconds between two exports, by the environment."""
    text = os.environ.get(OTEL_METRIC_EXPORT_INTERVAL, "")
    return max(int(text) / 1000, _INTERVAL_S_MIN) if text.isdecimal() else INTERVAL_S


def _histograms(family: Family, now_ns: int) -> list[HistogramDataPoint]:
    """One point for each set of labels: its buckets, its count and then its sum."""
    points: list[HistogramDataPoint] = []
    running: list[int] = []
    bounds: list[float] = []
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            running.append(int(sample.value))
            bounds.append(float(sample.labels["le"]))
        elif sample.name.endswith("_sum"):
            counts = [each - before for before, each in pairwise([0, *running])]
            point = HistogramDataPoint(
                dict(sample.labels),
                _UNKNOWN_NS,
                now_ns,
                count=sum(counts),
                sum=sample.value,
                bucket_counts=counts,
                explicit_bounds=[bound for bound in bounds if math.isfinite(bound)],
                min=None,  # type: ignore[arg-type]  # not known: left out of the message
                max=None,  # type: ignore[arg-type]
            )
            points.append(point)
            running, bounds = [], []
    return points
