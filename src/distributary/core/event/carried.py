r"""Header fields that go with an event, beside it, from a Broker or Channel to where it is sent.

Called by ``server.ingest`` (requests) and ``protocols.http`` (replies). They are no part of the
event: filters do not see them. They are kept as the lines that a request holds, each ending with
``\r\n``, and are sent on as these bytes. Any other field stays where it came: credentials
(``Authorization``, ``Cookie``, ``Proxy-*``) and whatever else a sender put there are nobody else's.

Source:
    Knative Eventing 1.22 ``pkg/utils/headers.go`` (which), W3C Trace Context, B3 propagation.
"""

import re
from collections.abc import Iterable, Sequence

CARRIED_COUNT_MAX = 32
"""Fields carried with one event: Trace Context, B3 and a request id make eight; the rest is for
``Knative-*``."""

CARRIED_BYTES_MAX = 8 * 1024
"""Bytes of all lines carried with one event: as much as the largest field of a request. They are
kept in the log with each event, and held for each of its deliveries."""

_NAMES = frozenset({b"traceparent", b"tracestate", b"x-request-id"})
_B3 = b"x-b3-"
_PREFIXES = (b"knative-", _B3)
_LINE = re.compile(rb"\n[%b]" % bytes({name[0] for name in (*_PREFIXES, *_NAMES)}), re.IGNORECASE)

_TOKEN = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")  # RFC 9110, 5.5: no line can begin in it

_Field = tuple[bytes, bytes]


def may_hold(head: bytes) -> bool:
    """False where no line of *head*, of a request, is carried; quicker than ``pick``.

    Asked for every request: the first letter of a name tells all but a few.
    """
    return _LINE.search(head) is not None


def pick(fields: Iterable[_Field]) -> list[_Field]:
    """Those of *fields* that are carried, in their order; names are in lower case."""
    return [field for field in fields if field[0] in _NAMES or field[0].startswith(_PREFIXES)]


def lines(fields: Sequence[_Field]) -> bytes | None:
    """*fields*, from ``pick``, as lines to be sent on; None: more than is carried.

    A field that no request could hold is left out: what is kept is sent as it stands.
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
    """The lines of *carried* that say which trace it belongs to."""
    return b"".join(
        line
        for line in carried.splitlines(keepends=True)
        if line.startswith((b"traceparent:", b"tracestate:", _B3))
    )
