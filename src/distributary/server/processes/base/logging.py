"""Log lines: JSON objects between processes, rendered for people on a terminal."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import msgspec
import structlog

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_LEVEL_OF_METHOD = {**_LEVELS, "warn": 30, "exception": 40, "critical": 50}
LINE_CHARS_MAX = 8_192
"""Longer lines of other programs are truncated: a stack trace is many lines, not one."""


def configure(level: str, *, role: str) -> None:
    """Write JSON lines to standard error, where the supervisor reads them."""
    structlog.configure(
        processors=[
            _drop_below,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _with_role(role),
            structlog.processors.JSONRenderer(),
        ],
        # The level may change later, and loggers are cached: a processor filters.
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    set_level(level)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


_least = [_LEVELS["info"]]


def set_level(level: str) -> None:
    """Set the least level that this process logs."""
    _least[0] = _LEVELS[level]


def _drop_below(
    _logger: Any, name: str, fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if _LEVEL_OF_METHOD[name] < _least[0]:
        raise structlog.DropEvent
    return fields


def _with_role(role: str) -> Any:
    def add(_logger: Any, _name: str, fields: dict[str, Any]) -> dict[str, Any]:
        fields.setdefault("role", role)
        return fields

    return add


_CONTROLS = {number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0))}
_SHAPE = {"exception": "\n\t"}
"""Control characters to keep, by fields that this program formats itself."""


def harmless(text: str, *, kept: str = "") -> str:
    r"""Returns *text* with every control character, but those *kept*, escaped as ``\xNN``.

    Texts of brokers, sinks and programs are shown to people: on a terminal, control characters
    could move the cursor, set the title, or hide neighbouring text.
    """
    shown = {number: code for number, code in _CONTROLS.items() if chr(number) not in kept}
    return text.translate(shown)


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return harmless(value, kept=_SHAPE.get(key, ""))
    if isinstance(value, dict):
        return {harmless(str(name)): _plain("", one) for name, one in value.items()}
    return [_plain("", one) for one in value] if isinstance(value, list) else value


class Lines:
    """Writes the lines of all processes in the configured format.

    Args:
        out: Receives the lines of this program.
        form: ``console``, ``json`` or ``auto`` (console on a terminal).
        other: Receives lines of other programs (the JVM).
    """

    def __init__(self, out: TextIO, form: str, other: TextIO) -> None:
        self._out = out
        self._other = other
        self.tap: Callable[[dict[str, Any]], None] | None = None
        """Receives the fields of each line of this program too; None: nobody does."""
        self.lost_count = 0
        """Lines that could not be written."""
        self.for_people = form == "console" or (form == "auto" and out.isatty())
        """Whether lines are rendered for people; else each one is a JSON object."""
        self._render = (
            structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=24)
            if self.for_people
            else None
        )

    def write(self, line: str) -> None:
        """Write one line of a child, or of this process."""
        line = line.rstrip("\n")
        fields: Any = None
        if line.startswith("{"):
            try:
                fields = msgspec.json.decode(line)
            except msgspec.MsgspecError:
                fields = None
        ours = isinstance(fields, dict) and "event" in fields
        if not ours:
            line = harmless(line[:LINE_CHARS_MAX], kept="\t")
        elif self._render is not None:
            shown = {key: _plain(key, value) for key, value in fields.items() if value is not None}
            line = str(self._render(None, "", shown))
        out = self._out if ours else self._other
        try:
            out.write(line + "\n")
            out.flush()
        except OSError:
            # A full disk or a closed pipe: nowhere is left to log it, and the thread that passes
            # a child's lines on must not end, since the child would end with it.
            self.lost_count += 1
        if ours and self.tap is not None:
            self.tap(fields)


class LineLoggers:
    """A logger factory for structlog that writes through ``Lines``."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __call__(self, *_arguments: object) -> "LineLoggers":
        """See ``structlog``'s ``logger_factory``: one logger serves all."""
        return self

    def msg(self, line: str) -> None:
        """Write one line."""
        self._lines.write(line)

    debug = info = warning = warn = error = critical = exception = log = msg
