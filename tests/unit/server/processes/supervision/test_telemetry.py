"""Telemetry of the server: off by default, then not even imported; refused where it cannot be."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.core.clock import SystemClock
from distributary.core.errors import SettingsError
from distributary.net.otlp import OtlpSettings
from distributary.server.processes.base.logging import Lines
from distributary.server.processes.supervision import telemetry
from distributary.server.processes.supervision.telemetry import Telemetry, otlp_of
from distributary.server.settings import Settings, load


def _telemetry_of(settings: Settings) -> tuple[Telemetry, Lines]:
    lines = Lines(io.StringIO(), "json", io.StringIO())
    return Telemetry(settings, lines, SystemClock(), None), lines


def test_off_is_the_default_and_taps_no_line() -> None:
    """Nothing is opened."""
    assert otlp_of(Settings()) == OtlpSettings()
    _, lines = _telemetry_of(Settings())
    assert lines.tap is None


@pytest.mark.slow
def test_off_imports_nothing() -> None:
    """Neither receivers nor owners nor the control process load the SDK."""
    modules = ("processes._serve", "processes.ingest_process", "processes.pipeline_process")
    named = ", ".join(f"distributary.server.{module}" for module in modules)
    code = f"import sys, distributary.partitions, {named}; print('opentelemetry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


def test_without_the_extra_the_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setattr(telemetry, "is_installed", lambda: False)
    with pytest.raises(SettingsError, match=r"distributary\[otel\]"):
        _telemetry_of(Settings(otlp=("traces",)))


def test_headers_that_cannot_be_read_are_refused_at_the_start(tmp_path: Path) -> None:
    """Before any process is started."""
    settings = Settings(otlp=("traces",), otlp_headers_file=tmp_path / "none")
    with pytest.raises(SettingsError, match="otlp_headers_file"):
        _telemetry_of(settings)


def test_lines_are_tapped_as_they_are_written() -> None:
    """Those of the server's own processes, after they were written."""
    out = io.StringIO()
    lines = Lines(out, "json", io.StringIO())
    tapped: list[dict[str, object]] = []
    lines.tap = tapped.append
    lines.write('{"event": "ready", "role": "serve"}\n')
    lines.write("a line of another program\n")
    assert tapped == [{"event": "ready", "role": "serve"}]
    assert "ready" in out.getvalue()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("otlp", "traces,spans"),
        ("otlp", 1),
        ("otlp_endpoint", "collector:4318"),
        ("otlp_endpoint", "http://user@collector"),
        ("otlp_endpoint", "http://collector/?key=1"),
        ("trace_sample_ratio", "1.1"),
        ("trace_sample_ratio", "nan"),
        ("trace_sample_ratio", True),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: object) -> None:
    """By name, with what is expected."""
    with pytest.raises(SettingsError, match=name.replace("_", "[_-]")):
        load({name: value}, {}, None)


def test_settings_in_any_spelling() -> None:
    """From a file, a flag or the environment; in one order."""
    found = load({"trace_sample_ratio": "0.5"}, {"DISTRIBUTARY_OTLP": "logs, traces"}, None)
    assert (found.otlp, found.trace_sample_ratio) == (("traces", "logs"), 0.5)
    found = load({}, {}, 'otlp = ["metrics"]\notlp_endpoint = "https://c.example/otlp"\n')
    assert (found.otlp, found.otlp_endpoint) == (("metrics",), "https://c.example/otlp")
