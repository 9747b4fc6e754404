"""Turns errors into HTTP responses with problem details."""

from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from distributary.core.errors import DistributaryError
from distributary.subscriptions.http.problem_details import (
    INTERNAL_DETAIL,
    PROBLEM_TYPE,
    Problem,
    describe_error,
)

_CODES: Final = {404: "notfound", 405: "method-not-allowed"}


class MethodNotAllowed(Exception):  # noqa: N818 - an outcome of HTTP, named as RFC 9110 does
    """The resource does not support the method; *allow* is the value of ``Allow``."""

    def __init__(self, allow: str) -> None:
        self.allow = allow
        super().__init__(allow)


def problem(code: str, detail: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """A response with the catalogue's status for *code*."""
    return _answer(Problem(code, detail), headers or {})


async def answer_error(request: Request, error: Exception) -> Response:
    """Respond to a request that raised *error*, one of ``HANDLED``."""
    if isinstance(error, MethodNotAllowed):
        detail = f"{request.method} is not among the methods of this path: {error.allow}"
        return problem("method-not-allowed", detail, headers={"allow": error.allow})
    if isinstance(error, HTTPException):
        code = _CODES.get(error.status_code, "bad-request")
        return problem(code, "there is nothing at this path" if code == "notfound" else code)
    if isinstance(error, ClientDisconnect):  # the client has gone, and reads no response
        return problem("bad-request", "the request ended before its body did")
    assert isinstance(error, DistributaryError)
    found = describe_error(error)
    path = found.subscription_path
    return _answer(found, {} if path is None else {"location": path})


async def answer_bug(_request: Request, _error: Exception) -> Response:
    """Respond to a request that failed by a bug; the server logs the exception itself."""
    return problem("internal", INTERNAL_DETAIL)


def _answer(found: Problem, headers: Mapping[str, str]) -> Response:
    answer = Response(found.encode(), found.status, media_type=PROBLEM_TYPE)
    if found.retry_after_s is not None:
        answer.headers["retry-after"] = str(found.retry_after_s)
    answer.headers["cache-control"] = "no-store"
    answer.headers.update(headers)
    return answer


HANDLED: Final = (MethodNotAllowed, HTTPException, ClientDisconnect, DistributaryError)
