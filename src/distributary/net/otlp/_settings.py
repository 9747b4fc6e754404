"""What is sent by OTLP and where, from our settings and the variables of OpenTelemetry."""

import importlib.util
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.environment import SERVICE_CREDENTIALS_VARIABLE
from distributary.core.errors import SettingsError, StoreError
from distributary.core.files import open_bits_of, read_private

RATIO_DEFAULT: Final = 0.01
"""Share of events without a trace that begin one."""

HEADERS_BYTES_MAX: Final = 8 * 1024
"""Largest file of headers: an HTTP server takes no more."""

_MODULES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class OtlpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process sends; holds no secret, so that it may stand in arguments.

    Attributes:
        signals: Some of ``traces``, ``metrics`` and ``logs``; empty: nothing.
        endpoint: Base URL of the collector; empty: as the variables of OpenTelemetry say.
        headers_file: File with headers, which are secrets; empty: as these variables say.
        sample_ratio: Share of events without a trace that begin one, from 0 to 1.
    """

    signals: tuple[str, ...] = ()
    endpoint: str = ""
    headers_file: str = ""
    sample_ratio: float = RATIO_DEFAULT

    def sends(self, signal: str) -> bool:
        """Whether *signal* is sent."""
        return signal in self.signals

    def url(self, signal: str) -> str | None:
        """The URL for *signal*; None: the SDK derives it from its variables."""
        return f"{self.endpoint.rstrip('/')}/v1/{signal}" if self.endpoint else None

    def headers(self) -> dict[str, str]:
        """Reads the file of headers; empty: there is none.

        Raises:
            SettingsError: The file cannot be read, others may read it too, or it holds no headers.
                Never quotes it.
        """
        if not self.headers_file:
            return {}
        path, folder = Path(self.headers_file), os.environ.get(SERVICE_CREDENTIALS_VARIABLE)
        try:
            raw = read_private(
                path,
                HEADERS_BYTES_MAX + 1,
                what="the file of headers",
                remedy="replace the secrets in it",
                open_bits=open_bits_of(path, Path(folder) if folder else None),
            )
        except StoreError as error:
            raise SettingsError(f"otlp_headers_file: {error}") from error
        lines = raw.decode("utf-8", "replace").splitlines()
        pairs = [line.partition("=") for line in lines if line.strip()]
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        printable = all(map(_is_header, headers.items())) and all(equals for _, equals, _ in pairs)
        if len(raw) > HEADERS_BYTES_MAX or not printable or len(headers) < len(pairs):
            text = f"otlp_headers_file: {path}: expected lines such as name=value, each name once"
            raise SettingsError(f"{text}, {HEADERS_BYTES_MAX} bytes at most")
        return headers


def _is_header(pair: tuple[str, str]) -> bool:
    name, value = pair
    return (
        bool(name)
        and name.replace("-", "").replace("_", "").isalnum()
        and name.isascii()
        and value.isascii()
        and value.isprintable()
    )


def settings_of(
    signals: tuple[str, ...],
    endpoint: str | None,
    headers_file: Path | None,
    sample_ratio: float | None,
    environ: Mapping[str, str],
) -> OtlpSettings:
    """Returns what is sent, from our settings; where they say nothing, from *environ*.

    Source:
        OpenTelemetry, environment variable specification: ``OTEL_SDK_DISABLED``,
        ``OTEL_TRACES_SAMPLER_ARG``; an unusable value is ignored.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return OtlpSettings()
    ratio = _ratio(environ.get("OTEL_TRACES_SAMPLER_ARG")) if sample_ratio is None else sample_ratio
    return OtlpSettings(
        signals=signals,
        endpoint=endpoint or "",
        headers_file="" if headers_file is None else str(headers_file.absolute()),
        sample_ratio=ratio,
    )


def _ratio(text: str | None) -> float:
    try:
        ratio = float(text or "")
    except ValueError:
        return RATIO_DEFAULT
    return ratio if math.isfinite(ratio) and 0.0 <= ratio <= 1.0 else RATIO_DEFAULT


def is_installed() -> bool:
    """Whether the extra ``distributary[otel]`` is installed; imports nothing large."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _MODULES)
    except ModuleNotFoundError:  # a parent package is missing
        return False
