"""Errors as problem details (RFC 9457), drawn from ``errors.CATALOGUE``."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from distributary.control import ChangePendingError
from distributary.errors import (
    CATALOGUE,
    DistributaryError,
    Fault,
    FaultsError,
    RequestError,
)

PROBLEM_TYPE: Final = "application/problem+json"

RETRY_AFTER_S: Final = 1
"""With every 503: what is missing (log, store, room) is tried again about as often, seconds."""

_CODES: Final = {404: "notfound", 405: "method-not-allowed"}
_INTERNAL_DETAIL: Final = "the server failed; its log says where"

_log = structlog.get_logger(__name__)


class MethodNotAllowed(Exception):  # noqa: N818 - an outcome of HTTP, named as RFC 9110 does
    """The resource does not know the method; *allow* is the value of ``Allow``."""

    def __init__(self, allow: str) -> None:
        self.allow = allow
        super().__init__(allow)


def problem(
    code: str,
    detail: str,
    *,
    faults: Iterable[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer of the catalogue's status for *code*."""
    entry = CATALOGUE[code]
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": entry.title,
        "status": entry.status,
        "code": code,
        "detail": detail,
        "faults": [{"path": f.path, "code": f.code, "message": f.message} for f in faults],
    }
    answer = Response(msgspec.json.encode(body), entry.status, media_type=PROBLEM_TYPE)
    if entry.status == 503:
        answer.headers["retry-after"] = str(RETRY_AFTER_S)
    answer.headers.update(headers or {})
    return answer


async def answer_error(request: Request, error: Exception) -> Response:
    """The answer to a request that ended in *error*, one of ``HANDLED``."""
    if isinstance(error, MethodNotAllowed):
        detail = f"{request.method} is not among the methods of this path: {error.allow}"
        return problem("method-not-allowed", detail, headers={"allow": error.allow})
    if isinstance(error, HTTPException):
        code = _CODES.get(error.status_code, "bad-request")
        return problem(code, "there is nothing at this path" if code == "notfound" else code)
    if isinstance(error, ClientDisconnect):  # nobody reads this
        return problem("bad-request", "the request ended before its body did")
    assert isinstance(error, DistributaryError)
    return _of_ours(error)


async def answer_bug(_request: Request, _error: Exception) -> Response:
    """The answer to what should not happen; the server logs the exception itself."""
    return problem("internal", _INTERNAL_DETAIL)


def _of_ours(error: DistributaryError) -> Response:
    if isinstance(error, FaultsError):
        first = error.faults[0]
        more = f" (and {len(error.faults) - 1} more)" if len(error.faults) > 1 else ""
        return problem(error.code, f"{first.path}: {first.message}{more}", faults=error.faults)
    if isinstance(error, RequestError):
        return problem(error.request_code, str(error))
    if isinstance(error, ChangePendingError):
        location = {} if error.op == "deleted" else {"location": f"/subscriptions/{error.id}"}
        return problem(error.code, str(error), headers=location)
    if CATALOGUE[error.code].status >= 500:
        _log.warning("request-failed", code=error.code, reason=str(error))
    return problem(error.code, str(error))


HANDLED: Final = (MethodNotAllowed, HTTPException, ClientDisconnect, DistributaryError)
