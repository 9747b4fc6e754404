"""HTTP responses of the receiver as bytes; the common ones are built once a second.

Hides header order, dates and problem details (RFC 9457).
"""

import enum
import re
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import msgspec

from distributary.access import challenge
from distributary.core.errors import CATALOGUE, Fault
from distributary.server.ingest import _limits

_RETRY_AFTER = b"retry-after: %d\r\n" % _limits.RETRY_AFTER_S
# Any rate: overload gets 503 with Retry-After (CloudEvents http-webhook 4.2). ``IngestContext``
# decides which origin.
_PERMISSION = b"webhook-allowed-origin: %b\r\nwebhook-allowed-rate: *\r\n"
_ORIGIN = re.compile(rb"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,251}[A-Za-z0-9_])?\.?")
BROWSER_FIELDS = b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n"
"""On every response with a body: no page of another origin can embed it, and browsers do not guess
its type (Fetch; WHATWG MIME Sniffing)."""
NOT_STORED_FIELD = b"cache-control: no-store\r\n"
"""On answers that say nothing else: no cache keeps what one client was told (RFC 9111)."""
REVALIDATED_FIELD = b"cache-control: no-cache, private\r\n"
"""The same for the Kubernetes API, whose clients keep documents by their ``ETag``."""
_TRANSPORT_SECURITY = b"strict-transport-security: max-age=31536000\r\n"
"""Tells browsers to reach this host by TLS alone, for a year (RFC 6797)."""
_encode = msgspec.json.encode
_STATUS_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    503: "ServiceUnavailable",
}
"""Reason of a ``Status`` (k8s.io/apimachinery) by HTTP status; others have none."""


class Persistence(enum.IntEnum):
    """Whether the connection stays open after a response; the index of prebuilt variants."""

    KEEP = 0
    """HTTP/1.1, persistent: the default, no header needed."""
    CLOSE = 1
    """This response is the last."""
    KEEP_HTTP10 = 2
    """HTTP/1.0, persistent: needs a header."""


# Constants, for each event: a member read from its enumeration costs as much as several calls.
KEEP: Final = Persistence.KEEP
CLOSE: Final = Persistence.CLOSE

_CONNECTION = (b"", b"connection: close\r\n", b"connection: keep-alive\r\n")


def connection_field(persistence: Persistence) -> bytes:
    """Returns the ``connection`` header line with its CRLF; may be empty."""
    return _CONNECTION[persistence]


def status_line(status: int) -> bytes:
    """Returns the status line, such as ``HTTP/1.1 202 Accepted``, with its CRLF."""
    return b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode("ascii"))


_ACCEPTED = status_line(202)
_CONTINUE = status_line(100) + b"\r\n"


def origin_of_question(fields: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The one ``WebHook-Request-Origin`` among *fields*; None: none, several, or no DNS name."""
    found = {value for name, value in fields if name == b"webhook-request-origin"}
    origin = found.pop() if len(found) == 1 else b""
    return origin if _ORIGIN.fullmatch(origin) else None


class Responses:
    """Builds responses; ``restamp`` renews the date.

    Attributes:
        accepted: The 202 of an accepted request, by ``Persistence``.
        go_on: The interim 100.
        security: Header line of every response over TLS; empty without it.
    """

    __slots__ = ("_date", "accepted", "go_on", "security")

    def __init__(self, wall_ms: int, *, secure: bool = False) -> None:
        self._date = b""
        self.security = _TRANSPORT_SECURITY if secure else b""
        self.accepted: tuple[bytes, ...] = ()
        self.go_on = _CONTINUE
        self.restamp(wall_ms)

    def restamp(self, wall_ms: int) -> None:
        """Set the date of responses (RFC 9110 section 6.6.1 asks for one)."""
        date = formatdate(wall_ms / 1000, usegmt=True).encode("ascii")
        self._date = b"date: %s\r\n%s" % (date, self.security)
        self.accepted = tuple(
            self.build(_ACCEPTED, connection, b"content-length: 0\r\n")
            for connection in _CONNECTION
        )

    def build(self, line: bytes, connection: bytes, fields: bytes, body: bytes = b"") -> bytes:
        """Joins a response from its parts; *connection* and *fields* are whole lines."""
        return b"".join((line, self._date, connection, fields, b"\r\n", body))

    def options(self, persistence: Persistence, *, permission: bytes | None, allow: bytes) -> bytes:
        """Builds the response to OPTIONS.

        Args:
            persistence: Whether the connection stays open.
            permission: Who may send events (``WebHook-Allowed-Origin``); None: nobody, or nobody
                asked.
            allow: The line ``Allow``.
        """
        fields = allow
        if permission is not None:
            fields += _PERMISSION % permission
        return self.build(
            status_line(200), _CONNECTION[persistence], fields + b"content-length: 0\r\n"
        )

    def problem(
        self,
        code: str,
        detail: str,
        persistence: Persistence,
        *,
        faults: Sequence[Fault] = (),
        allow: bytes = b"",
        without_body: bool = False,
        as_status: bool = False,
    ) -> bytes:
        """Builds problem details, or a ``Status`` of the Kubernetes API.

        Args:
            code: Key of ``errors.CATALOGUE``: gives status and title.
            detail: What was wrong with this request; holds no secret.
            persistence: Whether the connection stays open.
            faults: Every fault found, with its place.
            allow: The line ``Allow`` of a 405.
            without_body: Response to HEAD: the header alone.
            as_status: The client is one of the Kubernetes API: a ``Status``, without *faults*.
        """
        entry = CATALOGUE[code]
        if as_status:
            media_type, body = b"application/json", _status(code, detail)
        else:
            media_type, body = b"application/problem+json", _problem(code, detail, faults)
        fields = b"content-type: %s\r\ncontent-length: %d\r\n" % (media_type, len(body))
        if entry.status in (429, 503):
            fields += _RETRY_AFTER
        elif entry.status == 401:
            fields += b"www-authenticate: %s\r\n" % challenge(code).encode("ascii")
        elif entry.status == 405:
            fields += allow
        elif entry.status == 415 and not faults:
            # The coding is unsupported, not the format (RFC 9110 section 15.5.16).
            fields += b"accept-encoding: identity\r\n"
        return self.build(
            status_line(entry.status),
            _CONNECTION[persistence],
            fields + BROWSER_FIELDS + NOT_STORED_FIELD,
            b"" if without_body else body,
        )


def _problem(code: str, detail: str, faults: Sequence[Fault]) -> bytes:
    entry = CATALOGUE[code]
    return _encode(
        {
            "type": "about:blank",
            "title": entry.title,
            "status": entry.status,
            "code": code,
            "detail": detail,
            "faults": faults,
        }
    )


def _status(code: str, detail: str) -> bytes:
    status = CATALOGUE[code].status
    return _encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": detail,
            "reason": _STATUS_REASONS.get(status, ""),
            "details": {"causes": [{"reason": code, "message": CATALOGUE[code].title}]},
            "code": status,
        }
    )
