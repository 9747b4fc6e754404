"""What is sent by OTLP: our settings first, then the variables of OpenTelemetry."""

from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.net.otlp import OtlpSettings, settings_of


def _settings(environ: dict[str, str], ratio: float | None = None) -> OtlpSettings:
    return settings_of(("traces",), None, None, ratio, environ)


@pytest.mark.parametrize(
    ("environ", "ratio", "expected"),
    [
        pytest.param({}, None, 0.01, id="default"),
        pytest.param({"OTEL_TRACES_SAMPLER_ARG": "0.5"}, None, 0.5, id="variable"),
        pytest.param({"OTEL_TRACES_SAMPLER_ARG": "0.5"}, 0.0, 0.0, id="the setting wins"),
        pytest.param({"OTEL_TRACES_SAMPLER_ARG": "2"}, None, 0.01, id="too much"),
        pytest.param({"OTEL_TRACES_SAMPLER_ARG": "nan"}, None, 0.01, id="no number"),
        pytest.param({"OTEL_TRACES_SAMPLER_ARG": "x"}, None, 0.01, id="text"),
    ],
)
def test_the_ratio(environ: dict[str, str], ratio: float | None, expected: float) -> None:
    """An unusable variable is ignored, as OpenTelemetry says."""
    assert _settings(environ, ratio).sample_ratio == expected


def test_the_sdk_can_be_disabled() -> None:
    """``OTEL_SDK_DISABLED`` ends everything."""
    assert _settings({"OTEL_SDK_DISABLED": "True"}).signals == ()
    assert _settings({"OTEL_SDK_DISABLED": "1"}).sends("traces")


def test_urls() -> None:
    """A base URL gets the path of the signal; without one the SDK decides."""
    assert OtlpSettings(endpoint="http://c:4318/a/").url("logs") == "http://c:4318/a/v1/logs"
    assert OtlpSettings().url("logs") is None


def test_headers_come_from_a_file(tmp_path: Path) -> None:
    """One a line, with the value as it stands behind the first equals sign."""
    path = tmp_path / "headers"
    path.write_text("Api-Key = s3cret=\n\nx-tenant=a\n")
    path.chmod(0o600)
    found = OtlpSettings(headers_file=str(path)).headers()
    assert found == {"api-key": "s3cret=", "x-tenant": "a"}
    assert OtlpSettings().headers() == {}


@pytest.mark.parametrize(
    "text", ["s3cret", "a=1\na=2", "a b=s3cret", "=s3cret", "a=\x01", "a=ä", "a=" + "x" * 9_000]
)
def test_headers_that_are_none_are_refused_without_a_word_of_them(
    tmp_path: Path, text: str
) -> None:
    """The message names the file, and quotes nothing of it."""
    path = tmp_path / "headers"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SettingsError) as caught:
        OtlpSettings(headers_file=str(path)).headers()
    assert "s3cret" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The message says so."""
    with pytest.raises(SettingsError, match="cannot be read"):
        OtlpSettings(headers_file=str(tmp_path / "none")).headers()


def test_a_file_that_others_may_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every file with secrets; in the folder of a service manager its group may."""
    path = tmp_path / "headers"
    path.write_text("api-key=s3cret")
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        OtlpSettings(headers_file=str(path)).headers()
    assert "s3cret" not in str(caught.value)
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert OtlpSettings(headers_file=str(path)).headers() == {"api-key": "s3cret"}
