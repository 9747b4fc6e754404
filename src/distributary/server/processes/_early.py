"""What is said before the server's own lines are set up, and a stop that is asked for by then.

Called by ``cli``, before what takes seconds to load, and by ``_serve``.
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
        level: As in other lines.
        event: What happened, as a name.
        reason: For people; it may have several lines.
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
    """From now on SIGTERM ends the process at once, with exit code 0 and a line.

    For the time in which nothing runs yet: until the server has handlers of its own.
    """

    def end(_number: int, _frame: object) -> None:
        say(log_format, "info", "stopped", "asked to stop during the start; nothing was running")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # settings are being read as it is
