"""The log lines of an owner, on the standard error of Spark's worker."""

import contextlib
import io
import sys
from typing import Any

import structlog


class _LastingStream(io.StringIO):
    """Standard error, which breaks when the JVM ends: lines are lost then, and stop nobody."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def owner_log(level: str) -> Any:
    """Returns a logger of JSON lines to standard error, which passes through the JVM."""
    return structlog.wrap_logger(
        structlog.WriteLogger(_LastingStream()),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        role="owner",
    )
