"""Responses: JSON bodies, and errors as a ``Status``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from distributary.core.errors import CATALOGUE, DistributaryError, client_text
from distributary.knative.apiserver.http._negotiation import JSON
from distributary.knative.apiserver.http._target import RequestTarget
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.status import status_of, warning_header

RETRY_AFTER_S: Final = 1
"""``Retry-After`` of a 503, seconds: store and log are retried about as often."""

WARNINGS_MAX: Final = 20
"""``Warning`` fields of a response; one more counts the rest. Clients limit headers."""

WARNINGS_CHARS_MAX: Final = 4096
"""Characters of all warnings: the API server's limit, and half of what clients accept as header."""

Document = Callable[[Request], Response]
"""Answers a GET with the same document for every client."""

_log = structlog.get_logger(__name__)


def json_answer(
    body: bytes | Mapping[str, Any],
    status: int = 200,
    *,
    warnings: Iterable[str] = (),
) -> Response:
    """A response with *body*: JSON as bytes, or a value to encode."""
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    answer = Response(content, status, media_type=JSON)
    answer.headers["vary"] = "accept"
    for text in _bounded(list(dict.fromkeys(warnings))):
        answer.headers.append("warning", warning_header(text))
    return answer


def streamed(pieces: Iterable[bytes]) -> Response:
    """A streamed JSON response: its body is never in memory as a whole."""
    answer = StreamingResponse(_in_turns(pieces), media_type=JSON)
    answer.headers["vary"] = "accept"
    return answer


async def _in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield to the event loop between pieces, however fast the client reads."""
    with contextlib.suppress(StatusError):  # cut off, it is no JSON: the client asks again
        for piece in pieces:
            yield piece
            await asyncio.sleep(0)


def status_answer(error: StatusError, target: RequestTarget | None = None) -> Response:
    """The response to a request refused by *error*."""
    kind, name = (None, "") if target is None else (target.kind, target.name)
    answer = json_answer(status_of(error, kind, name), error.status)
    if error.retry_after_s is not None:
        answer.headers["retry-after"] = str(error.retry_after_s)
    return answer


def as_status(error: Exception) -> StatusError:
    """Convert any exception to a ``StatusError``."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, ClientDisconnect):  # the client is disconnected: never sent
        return StatusError("BadRequest", "the request ended before its body did")
    if isinstance(error, DistributaryError):
        status = CATALOGUE[error.code].status
        _log.warning("request-failed", code=error.code, reason=str(error))
        if status == 503:
            text = client_text(error)
            return StatusError("ServiceUnavailable", text, retry_after_s=RETRY_AFTER_S)
        return StatusError("InternalError", client_text(error))
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
