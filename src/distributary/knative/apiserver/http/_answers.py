"""Answers: JSON, ``Status``, and errors of every room below as a ``Status``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from distributary.core.errors import CATALOGUE, DistributaryError
from distributary.knative.apiserver.http._negotiation import JSON
from distributary.knative.apiserver.http._target import RequestTarget
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.status import status_of, warning_header

RETRY_AFTER_S: Final = 1
"""With what is only not possible now: store and log are tried again about as often, seconds."""

WARNINGS_MAX: Final = 20
"""``Warning`` fields of an answer; one more says how many were left out. Clients bound a header."""

WARNINGS_CHARS_MAX: Final = 4096
"""All of them together: what the API server allows, and half of what clients take as a header."""

Document = Callable[[Request], Response]
"""Answers a GET with what is the same for everybody."""

_log = structlog.get_logger(__name__)


def json_answer(
    body: bytes | Mapping[str, Any],
    status: int = 200,
    *,
    warnings: Iterable[str] = (),
) -> Response:
    """An answer with *body*, JSON as bytes or to be encoded."""
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    answer = Response(content, status, media_type=JSON)
    answer.headers["vary"] = "accept"
    for text in _bounded(list(dict.fromkeys(warnings))):
        answer.headers.append("warning", warning_header(text))
    return answer


def streamed(pieces: Iterable[bytes]) -> Response:
    """An answer with a body of JSON that is made while it is sent: never all of it in memory."""
    answer = StreamingResponse(_in_turns(pieces), media_type=JSON)
    answer.headers["vary"] = "accept"
    return answer


async def _in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Others get their turn between two pieces, however fast the client reads."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


def status_answer(error: StatusError, target: RequestTarget | None = None) -> Response:
    """The answer to a request that *error* refuses."""
    kind, name = (None, "") if target is None else (target.kind, target.name)
    answer = json_answer(status_of(error, kind, name), error.status)
    if error.retry_after_s is not None:
        answer.headers["retry-after"] = str(error.retry_after_s)
    return answer


def as_status(error: Exception) -> StatusError:
    """*error* as a refusal; for all that may come from below."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, ClientDisconnect):  # nobody reads this
        return StatusError("BadRequest", "the request ended before its body did")
    if isinstance(error, DistributaryError):
        status = CATALOGUE[error.code].status
        _log.warning("request-failed", code=error.code, reason=str(error))
        if status == 503:
            return StatusError("ServiceUnavailable", str(error), retry_after_s=RETRY_AFTER_S)
        return StatusError("InternalError", str(error))
    return StatusError("InternalError", "the server failed; its log says where")


def _bounded(texts: list[str]) -> list[str]:
    kept: list[str] = []
    left_chars = WARNINGS_CHARS_MAX
    for text in texts[:WARNINGS_MAX]:
        left_chars -= len(text)
        if left_chars < 0:
            break
        kept.append(text)
    left_out = len(texts) - len(kept)
    return [*kept, f"{left_out} more warnings are left out"] if left_out else kept
