"""Settings of telemetry by OTLP. Part of ``Settings``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import setting

_SIGNALS = ("traces", "metrics", "logs")


def _signals(raw: Any) -> tuple[str, ...]:
    names = shapes.names(raw)
    if not set(names) <= set(_SIGNALS):
        raise ValueError
    return tuple(name for name in _SIGNALS if name in names)


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """What is sent to an OpenTelemetry collector. Plain and picklable."""

    otlp: tuple[str, ...] = setting(
        shapes.SettingShape("some of traces, metrics and logs, separated by commas", _signals),
        (),
        "What is sent to an OpenTelemetry collector by OTLP over HTTP; nothing by default. Needs"
        " the extra distributary[otel].",
    )
    otlp_endpoint: str | None = setting(
        shapes.text(
            "a URL such as http://localhost:4318, without a user",
            r"https?://(?![/:])[^\s/@?#]+(/[^\s@?#]*)?",
        ),
        None,
        "Base URL of the collector. By default as OTEL_EXPORTER_OTLP_ENDPOINT says, else"
        " http://localhost:4318.",
    )
    otlp_headers_file: Path | None = setting(  # noqa: RUF009 - dataclasses.field, renamed
        shapes.path("the path of a file that its owner alone may read"),
        None,
        "Header fields for the collector, such as an API key: lines name=value. By default those of"
        " OTEL_EXPORTER_OTLP_HEADERS.",
    )
    trace_sample_ratio: float | None = setting(
        shapes.fraction(),
        None,
        "Share of events that begin a trace, where their publisher began none. By default as"
        " OTEL_TRACES_SAMPLER_ARG says, else 0.01.",
    )
