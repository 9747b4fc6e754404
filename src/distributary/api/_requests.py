"""Reading requests: bodies within limits, conditions, and the parameters of a list."""

import re
from typing import Final

from starlette.requests import Request

from distributary.control import ANY_TAG, PAGE_MAX, Precondition
from distributary.errors import Fault, RequestError, ResourceError
from distributary.resource import RESOURCE_BYTES_MAX, decode_json

_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_TAG_LIST = re.compile(rf"[ \t,]*({_TAG.pattern}[ \t]*(,[ \t]*|$))+")

_LIST_PARAMETERS: Final = ("limit", "cursor")


async def read_json(request: Request) -> object:
    """The JSON value that *request* carries.

    Raises:
        RequestError: Not declared as JSON (415), or larger than ``RESOURCE_BYTES_MAX`` (413,
            before it is read where the length says so).
        ResourceError: Not JSON, or nested too deep.
    """
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.replace('"', "").strip().lower()
    if media_type.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        message = "the content type of a subscription is application/json (in UTF-8)"
        raise RequestError("unsupported-media-type", message)
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RequestError("unsupported-media-type", "compressed bodies are not supported")
    return decode_json(await _read(request))


async def _read(request: Request) -> bytes:
    too_large = RequestError(
        "content-too-large", f"a subscription has at most {RESOURCE_BYTES_MAX} bytes"
    )
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > RESOURCE_BYTES_MAX:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > RESOURCE_BYTES_MAX:
            raise too_large
    return bytes(body)


def read_precondition(request: Request) -> Precondition:
    """``If-Match`` and ``If-None-Match`` of *request*.

    Raises:
        RequestError: One of them is no list of entity tags. Ignoring it would make a change that
            the client meant to be conditional.

    Source:
        RFC 9110, 13.1.1 (strong comparison) and 13.1.2 (weak comparison).
    """
    if_match = _tags(request, "if-match")
    if_none_match = _tags(request, "if-none-match")
    if if_none_match is not None:
        if_none_match = frozenset(tag.removeprefix("W/") for tag in if_none_match)
    return Precondition(if_match, if_none_match)


def _tags(request: Request, name: str) -> frozenset[str] | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    text = ",".join(values).strip()
    if text == ANY_TAG:
        return frozenset((ANY_TAG,))
    if not _TAG_LIST.fullmatch(text):
        raise RequestError("bad-request", f"{name} holds * or entity tags in double quotes")
    return frozenset(match[0] for match in _TAG.finditer(text))


def read_list_parameters(request: Request) -> tuple[int | None, str | None]:
    """``limit`` (None: everything) and ``cursor`` of a list request.

    Raises:
        ResourceError: An unknown or repeated parameter, or a limit that is none. A misspelt
            parameter must not look as if it had been followed.
    """
    faults: list[Fault] = []
    for name in dict.fromkeys(request.query_params.keys()):
        if name not in _LIST_PARAMETERS:
            known = ", ".join(_LIST_PARAMETERS)
            faults.append(Fault("query", "unknown", f"unknown parameter; known: {known}"))
        elif len(request.query_params.getlist(name)) > 1:
            faults.append(Fault(name, "duplicate", "stands twice"))
    text = request.query_params.get("limit")
    limit = None
    if text is not None:
        if re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= PAGE_MAX:
            limit = int(text)
        else:
            faults.append(Fault("limit", "value", f"expected a whole number from 1 to {PAGE_MAX}"))
    if faults:
        raise ResourceError(faults)
    return limit, request.query_params.get("cursor")
