"""Bodies of requests, within limits."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from distributary.knative.apiserver.http._protobuf import PROTOBUF, read_protobuf
from distributary.knative.apiserver.machinery import Object, StatusError
from distributary.knative.apiserver.machinery.limits import BODY_BYTES_MAX
from distributary.knative.apiserver.machinery.read import check_depth, read_object, read_value

ASIDE_BYTES: Final = 64 * 1024
"""Larger bodies are parsed beside the event loop: YAML takes up to a second for a megabyte, and
a watch or a delivery's status should not wait for that."""

_ASIDE: Final = ThreadPoolExecutor(1, "kubernetes-bodies")
"""Where that is done, one at a time. The loop's own threads are for the store: bodies that take
long must not keep the Subscriptions API from it, nor share the interpreter among many."""

WAITING_MAX: Final = 16
"""Bodies that wait for that thread, besides the one that it parses: half a minute of its time at
worst, 32 MiB. One more is answered 429, as the API server does; clients try again by themselves."""

_Parsed = TypeVar("_Parsed")
_large: set[object] = set()
"""Those that are parsed or wait."""


_BROWSER_FIELDS: Final = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode")
_BROWSER_AGENT: Final = "mozilla/"
"""What browsers alone send. A page cannot change any of them where no leave is asked."""


async def read_body(request: Request) -> bytes:
    """The body of *request*.

    Raises:
        StatusError: ``RequestEntityTooLarge``: above ``BODY_BYTES_MAX``. ``UnsupportedMediaType``:
            compressed. ``TooManyRequests``: it is large, and so are enough others.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise StatusError("UnsupportedMediaType", "compressed bodies are not supported")
    if int(request.headers.get("content-length", "0")) >= ASIDE_BYTES and _crowded():
        async for _ in request.stream():
            pass  # read, since an answer before its request's end may be lost; not kept
        raise _too_many()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            message = f"Request entity too large: limit is {BODY_BYTES_MAX}"
            raise StatusError("RequestEntityTooLarge", message)
    return bytes(body)


def _content_type(request: Request) -> str:
    """What the body is said to be; JSON where nothing is said, as Kubernetes has it.

    Clients of Kubernetes leave it out (the Python client for every create). So may any web page,
    whose browser then asks nobody's leave: what a browser sends must say its type.
    """
    fields = request.headers
    said: str = fields.get("content-type", "")
    if said.partition(";")[0].strip():
        return said
    browser = fields.get("user-agent", "").lower().startswith(_BROWSER_AGENT)
    return (
        said if browser or any(name in fields for name in _BROWSER_FIELDS) else "application/json"
    )


async def parse_object(request: Request, body: bytes) -> tuple[Object, list[str]]:
    """The object in *body*, and the paths of members that stand twice; see ``read_object``."""
    content_type = _content_type(request)
    if content_type.partition(";")[0].strip().lower() == PROTOBUF:
        return await _parse(request, body, _read_protobuf), []
    return await _parse(request, body, lambda held: read_object(held, content_type))


async def parse_value(request: Request, body: bytes) -> Any:
    """Any JSON value in *body*; see ``read_value``."""
    content_type = _content_type(request)
    return await _parse(request, body, lambda held: read_value(held, content_type)[0])


def _read_protobuf(body: bytes) -> Object:
    found = read_protobuf(body)
    check_depth(found)  # which counts the values too
    return found


async def _parse(request: Request, body: bytes, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    if len(body) < ASIDE_BYTES:
        return parse(body)
    return await _aside(request, body, parse)


async def _aside(request: Request, body: bytes, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    """What *parse* makes of *body* in the thread, when it is its turn.

    Raises:
        StatusError: ``TooManyRequests``: enough others wait. And those of *parse*.
        ClientDisconnect: The client left before; nothing is kept for it.
    """
    with _place() as held:
        held.append(body)
        del body
        loop = asyncio.get_running_loop()
        parsing = loop.run_in_executor(_ASIDE, lambda: parse(held[0]))
        leaving = loop.create_task(left(request.receive))
        try:
            await asyncio.wait((parsing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not parsing.done():
                raise ClientDisconnect
            return parsing.result()
        finally:
            leaving.cancel()
            parsing.cancel()


@contextlib.contextmanager
def _place() -> Iterator[list[bytes]]:
    """A place among those that are parsed or wait; what it holds is let go with it."""
    if _crowded():
        raise _too_many()
    place = object()
    held: list[bytes] = []
    _large.add(place)
    try:
        yield held
    finally:
        _large.discard(place)
        held.clear()  # the thread's queue keeps what was given up until it comes to it


def _crowded() -> bool:
    return len(_large) > WAITING_MAX


def _too_many() -> StatusError:
    return StatusError(
        "TooManyRequests", "too many large objects are being read; try again", retry_after_s=1
    )


async def left(receive: Receive) -> None:
    """Returns when the client of a request whose body is read is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
