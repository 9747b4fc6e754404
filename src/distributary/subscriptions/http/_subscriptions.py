"""The HTTP binding of the Subscriptions API (3.3): methods, paths and rendered results."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from distributary.subscriptions.http._requests import (
    read_json,
    read_list_parameters,
    read_precondition,
)
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.http.operations import (
    ListRange,
    OperationName,
    OperationResult,
    Operations,
)
from distributary.subscriptions.store.stored import Precondition

_JSON = "application/json"


class SubscriptionPaths:
    """``/subscriptions`` and ``/subscriptions/{id}``.

    Args:
        operations: Carry out requests.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.collection = Resource(
            {
                "GET": self._answering(OperationName.QUERY),
                "POST": self._answering(OperationName.CREATE),
            }
        )
        self.member = Resource(
            {
                "GET": self._answering(OperationName.RETRIEVE),
                "PUT": self._answering(OperationName.UPDATE),
                "DELETE": self._answering(OperationName.DELETE),
            }
        )

    def _answering(self, operation: OperationName) -> Handler:
        async def answer(request: Request) -> Response:
            call = _HttpCall(request)
            rendered = _render(await self._operations.answer(operation, call), call)
            rendered.headers["cache-control"] = "no-store"  # they may hold keys of sinks
            return rendered

        return answer


class _HttpCall:
    """A request as an ``ApiCall``."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def id(self) -> str:
        return str(self._request.path_params["id"])

    async def read_body(self) -> object:
        return await read_json(self._request)

    def read_precondition(self) -> Precondition:
        return read_precondition(self._request)

    def read_range(self) -> ListRange:
        limit, others = read_list_parameters(self._request, {"cursor": {}})
        return ListRange(limit, others.get("cursor"))


def _render(result: OperationResult, call: _HttpCall) -> Response:
    headers = {}
    if result.etag is not None:
        headers["etag"] = result.etag
    if result.created_id is not None:
        # Relative, so that a client's Host header never decides where others are sent.
        headers["location"] = f"/subscriptions/{result.created_id}"
    if result.next_cursor is not None:
        target = f"/subscriptions?limit={call.read_range().limit}&cursor={result.next_cursor}"
        headers["link"] = f'<{target}>; rel="next"'
    if not isinstance(result.body, bytes):
        return StreamingResponse(result.body, media_type=_JSON)
    status = result.status.code
    if not result.body:
        return Response(status_code=status, headers=headers)
    return Response(result.body, status, headers, media_type=_JSON)
