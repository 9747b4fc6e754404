"""Reads and parses request bodies, within limits."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from distributary.access import has_its_share, sender_of
from distributary.core.turns import Places
from distributary.knative.apiserver.http._protobuf import PROTOBUF, read_protobuf
from distributary.knative.apiserver.machinery import Object, StatusError
from distributary.knative.apiserver.machinery.limits import BODY_BYTES_MAX
from distributary.knative.apiserver.machinery.read import (
    JSON,
    check_depth,
    is_yaml,
    read_object,
    read_value,
)

ASIDE_BYTES: Final = 64 * 1024
"""Bodies of this size and more are parsed off the event loop: a megabyte of YAML takes up to a
second, for which watches and statuses of deliveries should not wait."""

YAML_ASIDE_BYTES: Final = 4 * 1024
"""The same for YAML that is no JSON: 64 KiB of it take 70 ms, and hundreds of requests may come at
once."""

_ASIDE: Final = ThreadPoolExecutor(1, "kubernetes-bodies")
"""Thread for large bodies, one at a time. The loop's own threads serve the store: slow bodies must
not block the Subscriptions API, nor run on many threads at once."""

_TURNS: Final = Places(1)
"""The place on that thread, which namespaces take in turn."""

WAITING_MAX: Final = 16
"""Bodies that wait for that thread, besides the one being parsed: at worst half a minute of its
time, and 32 MiB. Further ones get 429, as from the API server; clients retry. Once half of them
wait, a namespace whose keys have a quarter gets 429 too."""

_Parsed = TypeVar("_Parsed")
_large: Counter[str] = Counter()
"""Large bodies that are being parsed or wait, by the only namespace of who sent them; empty: of all
others."""


_BROWSER_FIELDS: Final = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode")
_BROWSER_AGENT: Final = "mozilla/"
"""Sent only by browsers. A page cannot change them in a request without a CORS preflight."""


async def read_body(request: Request) -> bytes:
    """The body of *request*.

    Raises:
        StatusError: ``RequestEntityTooLarge``: above ``BODY_BYTES_MAX``. ``UnsupportedMediaType``:
            compressed. ``TooManyRequests``: it is large, and too many large ones wait.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise StatusError("UnsupportedMediaType", "compressed bodies are not supported")
    if int(request.headers.get("content-length", "0")) >= ASIDE_BYTES and _crowded(
        _holder_of(request)
    ):
        async for _ in request.stream():
            pass  # read and drop: a response before the end of the request may be lost
        raise _too_many()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            message = f"Request entity too large: limit is {BODY_BYTES_MAX}"
            raise StatusError("RequestEntityTooLarge", message)
    return bytes(body)


def _content_type(request: Request) -> str:
    """The content type of the body; JSON by default, as in Kubernetes.

    Clients of Kubernetes omit it (the Python client for every create). A web page can omit it too,
    and then its browser makes no CORS preflight: requests of browsers must therefore have a type.
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
    """The object in *body*, and the paths of duplicate members (``read_object``)."""
    content_type = _content_type(request)
    if content_type.partition(";")[0].strip().lower() == PROTOBUF:
        return await _parse(request, body, _read_protobuf), []
    return await _read(request, body, content_type, read_object)


async def parse_value(request: Request, body: bytes) -> Any:
    """Any JSON value in *body* (``read_value``)."""
    value, _ = await _read(request, body, _content_type(request), read_value)
    return value


def _read_protobuf(body: bytes) -> Object:
    found = read_protobuf(body)
    check_depth(found)  # also limits the number of values
    return found


async def _read(
    request: Request, body: bytes, content_type: str, read: Callable[[bytes, str], _Parsed]
) -> _Parsed:
    if not (is_yaml(content_type) and YAML_ASIDE_BYTES <= len(body) < ASIDE_BYTES):
        return await _parse(request, body, lambda held: read(held, content_type))
    with contextlib.suppress(StatusError):  # most YAML that kubectl sends is JSON
        return read(body, JSON)
    return await _aside(request, body, lambda held: read(held, content_type))


async def _parse(request: Request, body: bytes, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    if len(body) < ASIDE_BYTES:
        return parse(body)
    return await _aside(request, body, parse)


async def _aside(request: Request, body: bytes, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    """Parse *body* in the thread for large bodies.

    Raises:
        StatusError: ``TooManyRequests``: too many wait. And those of *parse*.
        ClientDisconnect: The client disconnected first; its body is dropped.
    """
    holder = _holder_of(request)
    with _place(holder) as held:
        held.append(body)
        del body
        parsing = asyncio.ensure_future(_in_turn(holder, lambda: parse(held[0])))
        leaving = asyncio.ensure_future(left(request.receive))
        try:
            await asyncio.wait((parsing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not parsing.done():
                raise ClientDisconnect
            return parsing.result()
        finally:
            leaving.cancel()
            parsing.cancel()


async def _in_turn(holder: str, parse: Callable[[], _Parsed]) -> _Parsed:
    async with _TURNS.one(holder):
        return await asyncio.get_running_loop().run_in_executor(_ASIDE, parse)


def _holder_of(request: Request) -> str:
    """Whose share *request* takes (``Identity.holder``); empty: nobody's."""
    return sender_of(request.scope["headers"]).holder


@contextlib.contextmanager
def _place(holder: str) -> Iterator[list[bytes]]:
    """A slot in the queue of large bodies; the list that holds the body is cleared on exit."""
    if _crowded(holder):
        raise _too_many()
    held: list[bytes] = []
    _large[holder] += 1
    try:
        yield held
    finally:
        _large[holder] -= 1
        if not _large[holder]:
            del _large[holder]
        held.clear()  # the thread's queue keeps a cancelled job until its turn


def _crowded(holder: str) -> bool:
    count = _large.total()
    return count > WAITING_MAX or bool(holder and has_its_share(_large[holder], count, WAITING_MAX))


def _too_many() -> StatusError:
    return StatusError(
        "TooManyRequests", "too many large objects are being read; try again", retry_after_s=1
    )


async def left(receive: Receive) -> None:
    """Wait until the client disconnects; the request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
