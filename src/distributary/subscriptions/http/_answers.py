"""What handlers of several paths share: JSON responses, lists in parts, times, the prefix."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from distributary.resource.times import moment
from distributary.subscriptions.http._resources import Resource

_IN_NAMESPACE: Final = "/namespaces/{namespace}"
"""Before a path: the same for one namespace."""


def in_each_namespace(found: dict[str, Resource]) -> dict[str, Resource]:
    """*found*, by their short paths and by those below a namespace."""
    return found | {_IN_NAMESPACE + path: resource for path, resource in found.items()}


def json_response(value: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def part_response(
    items: Sequence[object], path: str, given: Mapping[str, object], next_cursor: str | None
) -> Response:
    """A part of the list at *path*, whose ``Link`` leads to the next one, if there is one.

    Args:
        items: What is in the part.
        path: Of the list.
        given: Parameters of the request but its cursor, which hold for the next part too.
        next_cursor: Of the next part; None: this is the last.
    """
    response = json_response(items)
    if next_cursor is not None:
        response.headers["link"] = link_to_next(path, given, next_cursor)
    return response


def link_to_next(path: str, given: Mapping[str, object], cursor: str) -> str:
    """The header ``Link`` that leads to the next part of the list at *path*.

    Args:
        path: Of the list.
        given: Parameters of the request but its cursor; None: not said.
        cursor: Of the next part.
    """
    said = {name: value for name, value in given.items() if value is not None}
    return f'<{path}?{urlencode({**said, "cursor": cursor}, quote_via=quote)}>; rel="next"'


def time_text(wall_ms: int) -> str:
    """A wall clock time in milliseconds as answers write it: RFC 3339, always in milliseconds.

    Not ``resource.times.format_time``, which writes as people do: clients compare texts of answers.
    The nearest one that can be told, where it lies outside the years 1 to 9999: senders of tokens
    choose theirs, and earlier versions kept such times.
    """
    return moment(wall_ms).isoformat(timespec="milliseconds")
