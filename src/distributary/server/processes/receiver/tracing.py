"""The spans of a receiver: what they record, and when they are sent."""

import functools
from random import Random
from typing import TYPE_CHECKING, Any

from distributary.core.errors import SettingsError
from distributary.net.otlp import OtlpSettings
from distributary.server.ingest import PublishTracing

if TYPE_CHECKING:
    from distributary.net.otlp.spans import Spans


def open_spans(settings: OtlpSettings, role: str, log: Any) -> "Spans | None":
    """Returns the spans of this process; None: none are sent, and no SDK is imported.

    What prevents it is told, and stops no publisher.

    Args:
        settings: What is sent.
        role: Of this process.
        log: Its logger.
    """
    if not settings.sends("traces"):
        return None
    try:
        from distributary.net.otlp.spans import Spans  # noqa: PLC0415 - takes 90 ms, and memory

        return Spans(settings, role, lambda event, fields: log.warning(event, **fields))
    except (ImportError, SettingsError) as error:
        log.warning("no-traces", reason=str(error))
        return None


def publish_tracing(spans: "Spans | None") -> PublishTracing | None:
    """Returns what traces publishing requests by *spans*."""
    if spans is None:
        return None
    from distributary.net.otlp.spans import SERVER  # noqa: PLC0415 - loaded already

    return PublishTracing(
        functools.partial(spans.add, "receive", kind=SERVER),
        functools.partial(spans.add, "append"),
        spans.sample_ratio,
        Random(),  # noqa: S311 - ids of spans are no secrets
    )
