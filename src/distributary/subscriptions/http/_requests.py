"""Reads HTTP requests: bodies within limits, conditional headers, and list parameters."""

from collections.abc import Mapping

from starlette.requests import Request

from distributary.core.errors import RequestError
from distributary.resource import RESOURCE_BYTES_MAX, Faults, Schema, decode_json
from distributary.resource.schema import checked
from distributary.subscriptions.http.parameters import (
    LIMIT_EXPECTED,
    is_json,
    parse_limit,
    parse_tags,
    precondition,
)
from distributary.subscriptions.store.stored import Precondition


async def read_json(request: Request) -> object:
    """Read the JSON body of *request*.

    Raises:
        RequestError: Not declared as JSON (415), or larger than ``RESOURCE_BYTES_MAX`` (413,
            before it is read where the length says so).
        ResourceError: Not JSON, or nested too deep.
    """
    if not is_json(request.headers.get("content-type", "")):
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
    """Read ``If-Match`` and ``If-None-Match`` of *request*.

    Raises:
        RequestError: One of them is not a list of entity tags. Ignoring it would turn a conditional
            change into an unconditional one.
    """
    return precondition(_tags(request, "if-match"), _tags(request, "if-none-match"))


def _tags(request: Request, name: str) -> frozenset[str] | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    tags = parse_tags(",".join(values))
    if tags is None:
        raise RequestError("bad-request", f"{name} holds * or entity tags in double quotes")
    return tags


def read_list_parameters(
    request: Request, others: Mapping[str, Schema]
) -> tuple[int | None, dict[str, str]]:
    """Read ``limit`` (None: absent) and the parameters of *others* from a list request.

    Raises:
        ResourceError: An unknown or repeated parameter, or one that violates its schema.
            A misspelt parameter must not look as if it had been followed.
    """
    faults, given = Faults(), request.query_params
    limit = parse_limit(given["limit"]) if "limit" in given else None
    for name in dict.fromkeys(given.keys()):
        if name != "limit" and name not in others:
            known = ", ".join(("limit", *others))
            faults.add("query", "unknown", f"unknown parameter; known: {known}")
        elif len(given.getlist(name)) > 1:
            faults.add(name, "duplicate", "stands twice")
        elif name != "limit":
            checked(faults, name, others[name], given[name])
        elif limit is None:
            faults.add(name, "value", LIMIT_EXPECTED)
    faults.refuse()
    return limit, {name: given[name] for name in others if name in given}
