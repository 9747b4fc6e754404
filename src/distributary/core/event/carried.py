r"""Carried header fields, which travel beside an event from a Broker or Channel to its sinks.

Called by ``server.ingest`` (requests) and ``protocols.http`` (replies). They are not part of the
event: filters do not see them. They are stored as the lines of the request, each ending with
``\r\n``, and forwarded as these bytes. All other fields are dropped: credentials
(``Authorization``, ``Cookie``, ``Proxy-*``) and the rest are not meant for sinks.

Source:
    Knative Eventing 1.22 ``pkg/utils/headers.go`` (which), W3C Trace Context, B3 propagation.
"""

import re
from collections.abc import Iterable, Sequence

CARRIED_COUNT_MAX = 32
"""Most fields carried with one event: Trace Context, B3 and a request id make eight; the rest is
for ``Knative-*``."""

CARRIED_BYTES_MAX = 8 * 1024
"""Most bytes of all carried lines of one event: as many as the largest field of a request. They are
stored in the log with each event, and held for each of its deliveries."""

_NAMES = frozenset({b"traceparent", b"tracestate", b"x-request-id"})
_B3 = b"x-b3-"
_PREFIXES = (b"knative-", _B3)
_LINE = re.compile(rb"\n[%b]" % bytes({name[0] for name in (*_PREFIXES, *_NAMES)}), re.IGNORECASE)

_TOKEN = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")  # RFC 9110, 5.5: no line break

_Field = tuple[bytes, bytes]


def may_hold(head: bytes) -> bool:
    """False if no line of a request's *head* is carried; faster than ``pick``.

    Called for every request: the first letter of a name rules out all but a few.
    """
    return _LINE.search(head) is not None


def pick(fields: Iterable[_Field]) -> list[_Field]:
    """Return those of *fields* that are carried, in order; names are in lower case."""
    return [field for field in fields if field[0] in _NAMES or field[0].startswith(_PREFIXES)]


def of_request(head: bytes, fields: Iterable[_Field]) -> bytes | None:
    """Encode the carried *fields* of a request; None: they exceed the limits."""
    found = pick(fields) if may_hold(head) else ()
    return lines(found) if found else b""


def lines(fields: Sequence[_Field]) -> bytes | None:
    """Encode *fields*, from ``pick``, as lines to forward; None: they exceed the limits.

    Omits a field that no request could hold, since lines are forwarded unchanged.
    """
    kept = [
        b"%b: %b\r\n" % (name, value)
        for name, value in fields
        if _TOKEN.fullmatch(name) and _VALUE.fullmatch(value)
    ]
    joined = b"".join(kept)
    if len(kept) > CARRIED_COUNT_MAX or len(joined) > CARRIED_BYTES_MAX:
        return None
    return joined


def trace(carried: bytes) -> bytes:
    """Return the lines of *carried* that hold the trace context."""
    return b"".join(
        line
        for line in carried.splitlines(keepends=True)
        if line.startswith((b"traceparent:", b"tracestate:", _B3))
    )
