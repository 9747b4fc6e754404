"""HTTP method dispatch for one path, with ``OPTIONS``, ``HEAD`` and 405."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from distributary.subscriptions.http._problems import MethodNotAllowed

Handler = Callable[[Request], Awaitable[Response]]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
"""The order of methods in ``Allow``."""


class Resource:
    """An ASGI application for one path.

    Derives ``HEAD`` from GET, and responds to ``OPTIONS`` with ``Allow`` (decision 4, discovery).

    Args:
        handlers: Method -> its handler.

    Attributes:
        allow: Value of ``Allow``.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        assert handlers
        self._handlers = handlers
        known = {*handlers, "OPTIONS"} | ({"HEAD"} if "GET" in handlers else set())
        self.allow = ", ".join(method for method in METHODS if method in known)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        method = request.method
        if method == "OPTIONS":
            return Response(status_code=200, headers={"allow": self.allow})
        handler = self._handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise MethodNotAllowed(self.allow)
        response = await handler(request)
        return _without_body(response) if method == "HEAD" else response


def _without_body(response: Response) -> Response:
    """The same header fields without a body; a stream is not started."""
    bare = Response(status_code=response.status_code)
    bare.raw_headers = response.raw_headers
    return bare
