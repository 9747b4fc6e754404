"""Log lines and SIGTERM during the start, before logging and signal handlers are set up.

Imports little: ``cli`` calls it before the imports that take seconds.
"""

import datetime as dt
import os
import signal
import sys

import msgspec


def say(log_format: str, level: str, event: str, reason: str) -> None:
    """Write one line to standard error: for people, or as a JSON object.

    Args:
        log_format: The setting: ``console``, ``json``, or ``auto`` (console on a terminal).
        level: Log level.
        event: Name of the log event.
        reason: Text for people; may have several lines.
    """
    os.write(sys.stderr.fileno(), _line(log_format, level, event, reason).encode())


def _line(log_format: str, level: str, event: str, reason: str) -> str:
    if log_format == "console" or (log_format == "auto" and sys.stderr.isatty()):
        return f"distributary: {reason}\n"
    fields = {
        "event": event,
        "reason": reason,
        "level": level,
        "timestamp": dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "Z"),
        "role": "serve",
    }
    return msgspec.json.encode(fields).decode() + "\n"


def end_when_asked(log_format: str) -> None:
    """Let SIGTERM end the process at once, with exit code 0 and a log line.

    For the time before anything runs; the server then installs its own handlers.
    """

    def end(_number: int, _frame: object) -> None:
        say(log_format, "info", "stopped", "asked to stop during the start; nothing was running")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # settings are being read as it is
