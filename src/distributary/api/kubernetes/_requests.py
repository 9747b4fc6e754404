"""Bodies of requests, within limits."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from starlette.requests import Request

from distributary.api.kubernetes._protobuf import PROTOBUF, read_protobuf
from distributary.resource.kubernetes import (
    BODY_BYTES_MAX,
    Object,
    StatusError,
    check_depth,
    read_object,
    read_value,
)

ASIDE_BYTES: Final = 64 * 1024
"""Larger bodies are parsed beside the event loop: YAML takes up to a second for a megabyte, and
a watch or a delivery's status should not wait for that."""

_ASIDE: Final = ThreadPoolExecutor(1, "kubernetes-bodies")
"""Where that is done, one at a time. The loop's own threads are for the store: bodies that take
long must not keep the Subscriptions API from it, nor share the interpreter among many."""


async def read_body(request: Request) -> bytes:
    """The body of *request*.

    Raises:
        StatusError: ``RequestEntityTooLarge``: above ``BODY_BYTES_MAX``. ``UnsupportedMediaType``:
            compressed.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise StatusError("UnsupportedMediaType", "compressed bodies are not supported")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            message = f"Request entity too large: limit is {BODY_BYTES_MAX}"
            raise StatusError("RequestEntityTooLarge", message)
    return bytes(body)


async def parse_object(request: Request, body: bytes) -> tuple[Object, list[str]]:
    """The object in *body*, and the paths of members that stand twice; see ``read_object``."""
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() == PROTOBUF:
        return await _read_protobuf(body), []
    if len(body) < ASIDE_BYTES:
        return read_object(body, content_type)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_ASIDE, read_object, body, content_type)


async def _read_protobuf(body: bytes) -> Object:
    if len(body) < ASIDE_BYTES:
        return read_protobuf(body)
    found = await asyncio.get_running_loop().run_in_executor(_ASIDE, read_protobuf, body)
    check_depth(found)  # which counts the values too
    return found


async def parse_value(request: Request, body: bytes) -> Any:
    """Any JSON value in *body*; see ``read_value``."""
    content_type = request.headers.get("content-type", "")
    if len(body) < ASIDE_BYTES:
        return read_value(body, content_type)[0]
    loop = asyncio.get_running_loop()
    value, _ = await loop.run_in_executor(_ASIDE, read_value, body, content_type)
    return value
