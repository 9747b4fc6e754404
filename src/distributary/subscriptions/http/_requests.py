"""Reads HTTP requests: bodies within limits, conditional headers, and list parameters."""

from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from distributary.access import ALL_NAMESPACES, Permission, Verb, sender_of
from distributary.core.errors import RequestError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.core.turns import in_thread
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

_Answer = TypeVar("_Answer")
_Asked = ParamSpec("_Asked")


def observes_all(request: Request) -> bool:
    """Whether the sender may know what concerns all namespaces."""
    return sender_of(request.scope["headers"]).may(Permission(Verb.OBSERVE, ALL_NAMESPACES))


def namespace_of(request: Request) -> str:
    """The namespace in the path of *request*; of a short path ``default``."""
    return str(request.path_params.get("namespace", DEFAULT_NAMESPACE))


async def answered(
    request: Request, work: Callable[_Asked, _Answer], *asked: _Asked.args, **more: _Asked.kwargs
) -> _Answer:
    """Call *work*, which blocks, in a thread once it is the turn of the request's namespace."""
    return await in_thread(namespace_of(request), work, *asked, **more)


async def read_json(request: Request, what: str = "a subscription") -> object:
    """Read the JSON body of *request*, which is *what* for people.

    Raises:
        RequestError: Not declared as JSON (415), or larger than ``RESOURCE_BYTES_MAX`` (413,
            before it is read where the length says so).
        ResourceError: Not JSON, or nested too deep.
    """
    if not is_json(request.headers.get("content-type", "")):
        message = f"the content type of {what} is application/json (in UTF-8)"
        raise RequestError("unsupported-media-type", message)
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RequestError("unsupported-media-type", "compressed bodies are not supported")
    return decode_json(await _read(request, what))


async def read_json_if_any(request: Request) -> object:
    """Read the JSON body of *request*; an empty object where it has none.

    Raises:
        RequestError, ResourceError: As ``read_json``.
    """
    if "content-type" not in request.headers and not await _read(request, "a body"):
        return {}
    return await read_json(request)


async def _read(request: Request, what: str) -> bytes:
    too_large = RequestError("content-too-large", f"{what} has at most {RESOURCE_BYTES_MAX} bytes")
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
    given = request.query_params
    limit = parse_limit(given["limit"]) if "limit" in given else None
    found = read_parameters(request, {"limit": None if limit is None else {}, **others})
    found.pop("limit", None)
    return limit, found


def read_parameters(request: Request, known: Mapping[str, Schema | None]) -> dict[str, str]:
    """Read the parameters of a request, each by its schema; None: its value is no limit.

    Raises:
        ResourceError: As ``read_list_parameters``.
    """
    faults, given = Faults(), request.query_params
    for name in dict.fromkeys(given.keys()):
        schema = known.get(name)
        if name not in known:
            faults.add("query", "unknown", f"unknown parameter; known: {', '.join(known)}")
        elif len(given.getlist(name)) > 1:
            faults.add(name, "duplicate", "stands twice")
        elif schema is None:
            faults.add(name, "value", LIMIT_EXPECTED)
        else:
            checked(faults, name, schema, given[name])
    faults.refuse()
    return {name: given[name] for name in known if name in given}
