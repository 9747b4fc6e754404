"""Metrics and log lines, as a collector gets them."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.core.clock import SystemClock
from distributary.core.meter import Families, Meter
from distributary.net.otlp import OtlpSettings
from distributary.net.otlp.logs import Logs
from distributary.net.otlp.metrics import Metrics, interval_s
from kit.otlp_collector import OtlpCollector

LONG_S = 30.0


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    """A collector on loopback."""
    running = OtlpCollector()
    yield running
    if not running.closed:
        running.close()


def _settings(collector: OtlpCollector) -> OtlpSettings:
    return OtlpSettings(signals=("metrics", "logs"), endpoint=collector.url)


def _meter() -> Meter:
    meter = Meter()
    meter.add('answers_total{status="202"}', 3)
    meter.add('answers_total{status="503"}')
    meter.gauges['lag_records{partition="0"}'] = 2.5
    for value in (0.3, 0.3, math.inf):
        meter.histogram("ack_seconds", (0.1, 1.0)).observe(value)
    meter.histogram("ack_seconds", (0.1, 1.0)).total = 1.0
    return meter


def _told(event: str, fields: dict[str, object]) -> None:
    pytest.fail(f"{event} {fields}")


def test_metrics_keep_names_labels_and_numbers(collector: OtlpCollector) -> None:
    """As ``/metrics`` shows them."""
    metrics = Metrics(_settings(collector), SystemClock(), _told)
    metrics.send(Families([], _meter(), {}))
    metrics.close(LONG_S)
    found = {(point.name, *point.attributes.values()): point.value for point in collector.points}
    assert found == {
        ("distributary_answers_total", "202"): 3,
        ("distributary_answers_total", "503"): 1,
        ("distributary_lag_records", "0"): 2.5,
        ("distributary_ack_seconds",): 3,
    }
    meter = Meter()
    metrics.count_into(meter)
    assert meter.counters['telemetry_sent_total{signal="metrics"}'] == 4


def test_the_environment_adds_neither_a_proxy_nor_a_password(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is sent goes to the endpoint itself, with the fields that were named for it."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login root password hunter2\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    metrics = Metrics(_settings(collector), SystemClock(), _told)
    metrics.send(Families([], _meter(), {}))
    metrics.close(LONG_S)
    assert collector.points
    assert all("authorization" not in fields for fields in collector.headers)


@pytest.mark.parametrize(
    ("text", "expected"), [("", 60.0), ("5000", 5.0), ("1", 1.0), ("x", 60.0), ("-1", 60.0)]
)
def test_the_interval(monkeypatch: pytest.MonkeyPatch, text: str, expected: float) -> None:
    """That of the variable, a second at least."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", text)
    assert interval_s() == expected


def test_a_line_becomes_a_record(collector: OtlpCollector) -> None:
    """The event is the body, the other fields are attributes, whatever they hold."""
    logs = Logs(_settings(collector), SystemClock(), _told)
    logs.add(
        {
            "event": "route-lags",
            "level": "warning",
            "timestamp": "2026-01-01T00:00:00.5Z",
            "offset": 7,
            "large": 1 << 80,
            "nested": {"a": [1, None, True]},
            "text": "x" * 10_000,
        }
    )
    logs.add({"event": "bare", "timestamp": "when?"})
    logs.close(LONG_S)
    first, second = sorted(collector.logs, key=lambda line: line.name, reverse=True)
    assert (first.name, first.value) == ("route-lags", "WARNING")
    assert first.attributes.pop("text") == "x" * 8_192
    assert first.attributes == {
        "offset": 7,
        "large": str(1 << 80),
        "nested": {"a": [1, None, True]},
    }
    assert (second.name, second.value, second.attributes) == ("bare", "INFO", {})


@pytest.mark.slow
def test_metrics_that_are_not_taken_are_counted(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one line for them; the thread that counts waits for nothing."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    told: list[str] = []
    metrics = Metrics(
        _settings(collector), SystemClock(), lambda event, _fields: told.append(event)
    )
    collector.close()
    metrics.send(Families([], _meter(), {}))
    metrics.close(LONG_S)
    meter = Meter()
    metrics.count_into(meter)
    assert meter.counters['telemetry_dropped_total{signal="metrics",reason="not-taken"}'] == 4
    assert told == ["telemetry-not-taken"]
