"""Telemetry by OTLP: spans, metrics and log lines, through the SDK of OpenTelemetry.

Callers: ``server``, ``partitions``. Hides the SDK, which is imported when something is opened: a
server without telemetry imports none of it. The threads of the SDK send; nothing here waits for
the collector, and what it does not take is counted and given up.
"""

from distributary.net.otlp._settings import (
    OtlpSettings,
    is_installed,
    settings_of,
)
from distributary.net.otlp._signal_meter import Tell
