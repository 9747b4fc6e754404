r"""Trace contexts: where in which trace something happens, as ``traceparent`` says it. Pure.

Called by ``server.ingest`` and ``partitions``, with tracing on alone. A context travels with a
record as one of its carried header lines (``carried``), and so changes no byte of an event.

Source:
    W3C Trace Context, ``traceparent``; CloudEvents distributed tracing extension.
"""

import re
from typing import Final, NamedTuple

from distributary.core.event.value import Event

_VALUE: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 0x01
_NAME: Final = b"traceparent:"

ATTRIBUTE: Final = "traceparent"
"""The extension attribute in which an event carries the context of its creation."""


class TraceContext(NamedTuple):
    """A place in a trace.

    Attributes:
        trace_id: The trace, 128 bits, not 0.
        span_id: The span of that place, 64 bits, not 0.
        sampled: Whether its spans are recorded.
    """

    trace_id: int
    span_id: int
    sampled: bool

    def line(self) -> bytes:
        r"""The header line that carries it, with its ``\r\n``."""
        return b"traceparent: 00-%032x-%016x-%02x\r\n" % (
            self.trace_id,
            self.span_id,
            self.sampled,
        )


def parse(value: bytes) -> TraceContext | None:
    """Returns the context in the value of a ``traceparent``; None: it is invalid, and ignored.

    Reads newer versions as version 0, whose fields they begin with.
    """
    found = _VALUE.fullmatch(value)
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5] is not None):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED))


def of_text(value: str | None) -> TraceContext | None:
    """As ``parse``, for the extension attribute of an event; None: it has none."""
    return None if value is None else parse(value.encode("utf-8", "replace"))


def with_context(event: Event, carried: bytes) -> Event:
    """Returns *event* with the context in *carried* lines as its attribute, if it has none."""
    context = of_lines(carried)
    if context is None or event.text(ATTRIBUTE) is not None:
        return event
    value = context.line().decode().partition(": ")[2].strip()
    return Event({**event.attributes, ATTRIBUTE: value}, event.data)


def of_lines(carried: bytes) -> TraceContext | None:
    """Returns the context in carried header lines; None: none is there, or an invalid one.

    Of several none counts: nobody knows which is meant.
    """
    lines = [line for line in carried.splitlines() if line.startswith(_NAME)]
    return parse(lines[0][len(_NAME) :].strip(b" \t")) if len(lines) == 1 else None


def replaced(carried: bytes, context: TraceContext) -> bytes:
    """Returns carried header lines with *context* in place of the context that they hold.

    ``tracestate`` stays, if the context continues its trace; all other lines do.
    """
    before = of_lines(carried)
    stale = before is None or before.trace_id != context.trace_id
    kept = [
        line
        for line in carried.splitlines(keepends=True)
        if not line.startswith(_NAME) and not (stale and line.startswith(b"tracestate:"))
    ]
    return b"".join((context.line(), *kept))
