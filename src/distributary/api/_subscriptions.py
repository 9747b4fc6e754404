"""The HTTP binding of the Subscriptions API (3.3): parse, call, render."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from distributary.api._requests import read_json, read_list_parameters, read_precondition
from distributary.api._resources import Resource
from distributary.control import Page, StoredSubscription, Subscriptions

_JSON = "application/json"

_STREAM_PAGE = 500
"""Subscriptions read at a time for a list without limit: about 300 KiB in memory."""


class SubscriptionPaths:
    """``/subscriptions`` and ``/subscriptions/{id}``.

    Args:
        subscriptions: Does what is asked.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self.collection = Resource({"GET": self._query, "POST": self._create})
        self.member = Resource(
            {"GET": self._retrieve, "PUT": self._replace, "DELETE": self._delete}
        )

    async def _create(self, request: Request) -> Response:
        created = await self._subscriptions.create(await read_json(request))
        return _answer(created, 201)

    async def _retrieve(self, request: Request) -> Response:
        found = await self._subscriptions.retrieve(_id(request))
        unless = read_precondition(request).if_none_match
        if unless is not None and ("*" in unless or found.etag in unless):
            return Response(status_code=304, headers={"etag": found.etag})
        return _answer(found, 200)

    async def _replace(self, request: Request) -> Response:
        precondition = read_precondition(request)
        body = await read_json(request)
        replaced = await self._subscriptions.replace(_id(request), body, precondition)
        return _answer(replaced.subscription, 201 if replaced.created else 200)

    async def _delete(self, request: Request) -> Response:
        precondition = read_precondition(request)
        gone = await self._subscriptions.delete(_id(request), precondition)
        return Response(gone.encode(), 200, media_type=_JSON)

    async def _query(self, request: Request) -> Response:
        limit, cursor = read_list_parameters(request)
        # The first page is read before anything is answered, so that a store that cannot be
        # read is a 503 and not a broken stream.
        first = await self._subscriptions.query(limit or _STREAM_PAGE, cursor)
        if limit is None:
            return StreamingResponse(self._all_from(first), media_type=_JSON)
        body = b"[" + b",".join(item.encode() for item in first.items) + b"]"
        headers = {}
        if first.next_cursor is not None:
            target = f"/subscriptions?limit={limit}&cursor={first.next_cursor}"
            headers["link"] = f'<{target}>; rel="next"'
        return Response(body, 200, headers, media_type=_JSON)

    async def _all_from(self, page: Page) -> AsyncIterator[bytes]:
        opening = b"["
        while page.items:
            yield opening + b",".join(item.encode() for item in page.items)
            opening = b","
            if page.next_cursor is None:
                break
            page = await self._subscriptions.query(_STREAM_PAGE, page.next_cursor)
        yield b"[]" if opening == b"[" else b"]"


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _answer(subscription: StoredSubscription, status: int) -> Response:
    headers = {"etag": subscription.etag}
    if status == 201:
        # Relative, so that no Host header of a client decides where others are sent.
        headers["location"] = f"/subscriptions/{subscription.id}"
    return Response(subscription.encode(), status, headers, media_type=_JSON)
