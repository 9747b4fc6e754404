"""``metav1.Status``: the response to a refused request, or to one without an object to return."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from distributary.core.errors import DistributaryError
from distributary.knative.apiserver.machinery._kind import Kind, Object

REASONS: Final[dict[str, int]] = {
    "BadRequest": 400,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Gone": 410,
    "Expired": 410,
    "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "Timeout": 504,
}
"""Reason of a ``Status`` -> HTTP status (k8s.io/apimachinery, ``meta/v1/types.go``)."""

_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_MESSAGE_CHARS_MAX: Final = 20_000
"""Longest message: a terminal shows it in one line, and the causes are listed separately."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")
_WARNING_CHARS_MAX: Final = 4096
"""Clients and proxies limit all headers of a response together, often to 8 KiB."""


class Cause(NamedTuple):
    """One fault of an object.

    Attributes:
        field: Path of the field, as Kubernetes writes it: ``spec.filters[0].exact``; empty: none.
        reason: ``FieldValueRequired``, ``FieldValueInvalid``, ``FieldValueNotSupported``,
            ``FieldValueForbidden``, ``FieldValueDuplicate``, ``FieldValueTypeInvalid``,
            ``FieldValueTooLong``...
        message: For people; includes what is expected.
    """

    field: str
    reason: str
    message: str


class StatusError(DistributaryError):
    """A refused request; the response is a ``Status`` with this message.

    Args:
        reason: A key of ``REASONS``, which gives the HTTP status.
        message: For people.
        causes: All faults, with their fields (reason ``Invalid``).
        retry_after_s: For ``Retry-After``, seconds; None: none.
        name: Of the object; empty: the one that the request's path names.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        causes: Iterable[Cause] = (),
        retry_after_s: int | None = None,
        name: str = "",
    ) -> None:
        self.reason = reason
        self.status = REASONS[reason]
        self.causes = tuple(causes)
        self.retry_after_s = retry_after_s
        self.name = name
        super().__init__(message)


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> StatusError:
    """``Invalid``: the object has these faults; worded as by the API server."""
    lines = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes
    ]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    resource = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = f'{resource} "{name}" is invalid: {text}'
    return StatusError("Invalid", message[:_MESSAGE_CHARS_MAX], causes=causes, name=name)


def conflict(kind: Kind, name: str, why: str = _MODIFIED) -> StatusError:
    """``Conflict``: the object differs from what the client assumes; by default: modified."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return StatusError("Conflict", message)


def status_of(error: StatusError, kind: Kind | None = None, name: str = "") -> Object:
    """The ``Status`` for *error*.

    Args:
        error: Why the request is refused.
        kind: Of the object concerned; None: none.
        name: Of that object; empty: the one that *error* names, if any.
    """
    details = _details(kind, name or error.name, "", by_kind=error.reason == "Invalid")
    if error.causes:
        details["causes"] = [
            {"reason": cause.reason, "message": cause.message}
            | ({"field": cause.field} if cause.field else {})
            for cause in error.causes
        ]
    if error.retry_after_s is not None:
        details["retryAfterSeconds"] = error.retry_after_s
    status = _status("Failure") | {"message": str(error), "reason": error.reason}
    if details:
        status["details"] = details
    return status | {"code": error.status}


def success_status(kind: Kind, name: str, uid: str) -> Object:
    """The ``Status`` that answers a delete."""
    return _status("Success") | {"details": _details(kind, name, uid, by_kind=False)}


def warning_header(text: str) -> str:
    """Value of a ``Warning`` header (RFC 7234, section 5.5) that kubectl shows to people.

    Control characters become blanks, quotes and backslashes are escaped, characters beyond ASCII
    are replaced, and the text is truncated to 4,096 characters.
    """
    plain = _CONTROL.sub(" ", text)[:_WARNING_CHARS_MAX].encode("ascii", "replace").decode()
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def _status(outcome: str) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome}


def _details(kind: Kind | None, name: str, uid: str, *, by_kind: bool) -> Object:
    """``StatusDetails``; its ``kind`` is the plural, except for ``Invalid``: the kind."""
    details: Object = {}
    if name:
        details["name"] = name
    if kind is not None:
        if kind.group:
            details["group"] = kind.group
        details["kind"] = kind.kind if by_kind else kind.plural
    if uid:
        details["uid"] = uid
    return details
