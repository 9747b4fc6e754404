"""Telemetry of the whole server, sent by the control process: metrics, and the lines of its log.

Spans are sent by the processes that record them (``receiver.tracing``, ``partitions``).
"""

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from distributary.core.clock import Clock, until_next_s
from distributary.core.errors import SettingsError
from distributary.core.meter import Meter
from distributary.net.otlp import OtlpSettings, is_installed, settings_of
from distributary.server.processes.base.logging import Lines
from distributary.server.processes.supervision.health import Health
from distributary.server.settings import Settings

if TYPE_CHECKING:
    from distributary.net.otlp.logs import Logs
    from distributary.net.otlp.metrics import Metrics

COUNT_S = 1.0
"""Interval of the counts of what was sent and given up."""
FLUSH_S_MAX = 1.0
"""Longest wait at a stop for each of metrics and log lines, seconds."""


def otlp_of(settings: Settings) -> OtlpSettings:
    """Returns what is sent by OTLP."""
    return settings_of(
        settings.otlp,
        settings.otlp_endpoint,
        settings.otlp_headers_file,
        settings.trace_sample_ratio,
        os.environ,
    )


class Telemetry:
    """Sends metrics and log lines, each where the settings say so.

    Args:
        settings: The settings in force; a change needs a restart.
        lines: Lines of all processes.
        clock: Gives times.
        log: Takes a line when the collector takes nothing, and when it does again.

    Raises:
        SettingsError: The extra is not installed, or the file of headers cannot be used.
    """

    def __init__(self, settings: Settings, lines: Lines, clock: Clock, log: Any) -> None:
        otlp = otlp_of(settings)
        self._metrics: Metrics | None = None
        self._logs: Logs | None = None
        if not otlp.signals:
            return
        if not is_installed():
            raise SettingsError(
                "--otlp needs the SDK of OpenTelemetry, which is not installed."
                " Install it (pip install 'distributary[otel]'), or leave the setting out"
            )
        otlp.headers()  # a fault shows here, before anything is started

        def tell(event: str, fields: dict[str, object]) -> None:
            log.warning(event, **fields)

        from distributary.net.otlp import logs, metrics  # noqa: PLC0415 - takes 90 ms

        if otlp.sends("metrics"):
            self._metrics = metrics.Metrics(otlp, clock, tell)
        if otlp.sends("logs"):
            self._logs = logs.Logs(otlp, clock, tell)
            lines.tap = self._logs.add

    async def follow(self, health: Health, meter: Meter) -> None:
        """Send the metrics of *health* at their interval, and count into *meter*."""
        metrics, logs = self._metrics, self._logs
        due_s = float("-inf")
        while metrics is not None or logs is not None:
            for each in (metrics, logs):
                if each is not None:
                    each.count_into(meter)
            if metrics is not None and time.monotonic() >= due_s:
                due_s = time.monotonic() + metrics.interval_s
                metrics.send(health.families())
            await asyncio.sleep(until_next_s(COUNT_S, time.monotonic()))

    async def close(self, health: Health) -> None:
        """Send the last metrics and lines, for a bounded time."""
        if self._metrics is not None:
            self._metrics.send(health.families())
            await asyncio.to_thread(self._metrics.close, FLUSH_S_MAX)
        if self._logs is not None:
            await asyncio.to_thread(self._logs.close, FLUSH_S_MAX)
