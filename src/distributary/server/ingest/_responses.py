"""Answers of the receiver as bytes; the common ones are built once a second.

Callers: ``_protocol`` and ``_server``. Hides header order, dates and problem details (RFC 9457).
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
# We grant every origin and any rate: what may publish is for authentication to say, and too
# much is answered 503 with Retry-After (CloudEvents http-webhook 4.2).
_PERMISSION = b"webhook-allowed-origin: *\r\nwebhook-allowed-rate: *\r\n"
BROWSER_FIELDS = b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n"
"""With every answer that has a body: a page of another origin gets nothing of it, however it
embeds it, and nothing is taken for what it does not say it is (Fetch; WHATWG MIME Sniffing)."""
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
"""HTTP status -> reason of a ``Status`` (k8s.io/apimachinery); others have none."""


class Persistence(enum.IntEnum):
    """What an answer says about the connection; the index of prebuilt variants."""

    KEEP = 0
    """HTTP/1.1, goes on: nothing need be said."""
    CLOSE = 1
    """This answer is the last."""
    KEEP_HTTP10 = 2
    """HTTP/1.0, goes on: must be said."""


_CONNECTION = (b"", b"connection: close\r\n", b"connection: keep-alive\r\n")


def connection_field(persistence: Persistence) -> bytes:
    """The ``connection`` line for *persistence*, with its CRLF; may be empty."""
    return _CONNECTION[persistence]


def status_line(status: int) -> bytes:
    """``HTTP/1.1 202 Accepted`` with its CRLF."""
    return b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode("ascii"))


_ACCEPTED = status_line(202)
_CONTINUE = status_line(100) + b"\r\n"


class Responses:
    """Builds answers; ``restamp`` renews the date.

    Attributes:
        accepted: The 202 of an accepted event, one for each ``Persistence``.
        go_on: The interim 100.
    """

    __slots__ = ("_date", "accepted", "go_on")

    def __init__(self, wall_ms: int) -> None:
        self._date = b""
        self.accepted: tuple[bytes, ...] = ()
        self.go_on = _CONTINUE
        self.restamp(wall_ms)

    def restamp(self, wall_ms: int) -> None:
        """Dates answers *wall_ms* from now on (RFC 9110 section 6.6.1 asks for a date)."""
        self._date = b"date: %s\r\n" % formatdate(wall_ms / 1000, usegmt=True).encode("ascii")
        self.accepted = tuple(
            self.build(_ACCEPTED, connection, b"content-length: 0\r\n")
            for connection in _CONNECTION
        )

    def build(self, line: bytes, connection: bytes, fields: bytes, body: bytes = b"") -> bytes:
        """An answer from its parts; *connection* and *fields* are whole lines."""
        return b"".join((line, self._date, connection, fields, b"\r\n", body))

    def options(self, persistence: Persistence, *, permission: bool, everything: bool) -> bytes:
        """The answer to OPTIONS.

        Args:
            persistence: What to say about the connection.
            permission: The sender asked to send events (``WebHook-Request-Origin``): grant it.
            everything: ``OPTIONS *``: about the server, not about the events path.
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
        """A problem details answer, or a ``Status`` of the Kubernetes API.

        Args:
            code: Key of ``errors.CATALOGUE``: gives status and title.
            detail: What was wrong with this request; holds no secret.
            persistence: What to say about the connection.
            faults: Every fault found, with its place.
            events_path: The request was for the events path: decides ``Allow`` of a 405.
            without_body: Answer to HEAD: the header alone.
            as_status: The client is one of the Kubernetes API; *faults* are not for it.
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
            # Nothing is wrong with the format: it was the coding (RFC 9110 section 15.5.16).
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
