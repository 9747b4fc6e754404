"""HTTP responses of the receiver as bytes; the common ones are built once a second.

Hides header order, dates and problem details (RFC 9457).
"""

import enum
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

import msgspec

from distributary.core.errors import CATALOGUE, Fault
from distributary.server.ingest import _limits

_ALLOW_EVENTS = b"allow: POST, OPTIONS\r\n"
_ALLOW_OTHERS = b"allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"
_RETRY_AFTER = b"retry-after: %d\r\n" % _limits.RETRY_AFTER_S
# Grants every origin and any rate: authentication decides who may publish, and overload gets 503
# with Retry-After (CloudEvents http-webhook 4.2).
_PERMISSION = b"webhook-allowed-origin: *\r\nwebhook-allowed-rate: *\r\n"
BROWSER_FIELDS = b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n"
"""On every response with a body: no page of another origin can embed it, and browsers do not guess
its type (Fetch; WHATWG MIME Sniffing)."""
_encode = msgspec.json.encode
_STATUS_REASONS = {
    400: "BadRequest",
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


_CONNECTION = (b"", b"connection: close\r\n", b"connection: keep-alive\r\n")


def connection_field(persistence: Persistence) -> bytes:
    """Returns the ``connection`` header line with its CRLF; may be empty."""
    return _CONNECTION[persistence]


def status_line(status: int) -> bytes:
    """Returns the status line, such as ``HTTP/1.1 202 Accepted``, with its CRLF."""
    return b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode("ascii"))


_ACCEPTED = status_line(202)
_CONTINUE = status_line(100) + b"\r\n"


class Responses:
    """Builds responses; ``restamp`` renews the date.

    Attributes:
        accepted: The 202 of an accepted request, by ``Persistence``.
        go_on: The interim 100.
    """

    __slots__ = ("_date", "accepted", "go_on")

    def __init__(self, wall_ms: int) -> None:
        self._date = b""
        self.accepted: tuple[bytes, ...] = ()
        self.go_on = _CONTINUE
        self.restamp(wall_ms)

    def restamp(self, wall_ms: int) -> None:
        """Set the date of responses (RFC 9110 section 6.6.1 asks for one)."""
        self._date = b"date: %s\r\n" % formatdate(wall_ms / 1000, usegmt=True).encode("ascii")
        self.accepted = tuple(
            self.build(_ACCEPTED, connection, b"content-length: 0\r\n")
            for connection in _CONNECTION
        )

    def build(self, line: bytes, connection: bytes, fields: bytes, body: bytes = b"") -> bytes:
        """Joins a response from its parts; *connection* and *fields* are whole lines."""
        return b"".join((line, self._date, connection, fields, b"\r\n", body))

    def options(self, persistence: Persistence, *, permission: bool, everything: bool) -> bytes:
        """Builds the response to OPTIONS.

        Args:
            persistence: Whether the connection stays open.
            permission: The sender asked to send events (``WebHook-Request-Origin``): grant it.
            everything: ``OPTIONS *``: about the server, not about a path of events.
        """
        fields = _ALLOW_OTHERS if everything else _ALLOW_EVENTS
        if permission and not everything:
            fields += _PERMISSION
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
        events_path: bool = False,
        without_body: bool = False,
        as_status: bool = False,
    ) -> bytes:
        """Builds problem details, or a ``Status`` of the Kubernetes API.

        Args:
            code: Key of ``errors.CATALOGUE``: gives status and title.
            detail: What was wrong with this request; holds no secret.
            persistence: Whether the connection stays open.
            faults: Every fault found, with its place.
            events_path: The request was for a path of events: decides ``Allow`` of a 405.
            without_body: Response to HEAD: the header alone.
            as_status: The client is one of the Kubernetes API: a ``Status``, without *faults*.
        """
        entry = CATALOGUE[code]
        if as_status:
            media_type, body = b"application/json", _status(code, detail)
        else:
            media_type, body = b"application/problem+json", _problem(code, detail, faults)
        fields = b"content-type: %s\r\ncontent-length: %d\r\n" % (media_type, len(body))
        if entry.status == 503:
            fields += _RETRY_AFTER
        elif entry.status == 405:
            fields += _ALLOW_EVENTS if events_path else _ALLOW_OTHERS
        elif entry.status == 415 and not faults:
            # The coding is unsupported, not the format (RFC 9110 section 15.5.16).
            fields += b"accept-encoding: identity\r\n"
        return self.build(
            status_line(entry.status),
            _CONNECTION[persistence],
            fields + BROWSER_FIELDS,
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
