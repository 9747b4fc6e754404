"""The HTTP binding of the Subscriptions API (3.3): methods, paths and rendered results."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from distributary.core.tenant import path_in
from distributary.subscriptions.http._answers import in_each_namespace, link_to_next
from distributary.subscriptions.http._openapi_status import STATE
from distributary.subscriptions.http._requests import (
    namespace_of,
    read_json,
    read_json_if_any,
    read_list_parameters,
    read_precondition,
)
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.http.operations import (
    ListRange,
    OperationName,
    OperationResult,
    Operations,
    Status,
)
from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.store.stored import Precondition

_JSON = "application/json"


class SubscriptionPaths:
    """``/subscriptions``, ``/subscriptions/{id}`` and ``/subscriptions/{id}/signature/rotate``.

    The same below a namespace.

    Args:
        operations: Carry out requests.
        subscriptions: Rotates keys, which is no operation of the specification.
    """

    def __init__(self, operations: Operations, subscriptions: Subscriptions) -> None:
        self._operations = operations
        self._subscriptions = subscriptions

    def resources(self) -> dict[str, Resource]:
        """The paths."""
        collection = {
            "GET": self._answering(OperationName.QUERY),
            "POST": self._answering(OperationName.CREATE),
        }
        member = {
            "GET": self._answering(OperationName.RETRIEVE),
            "PUT": self._answering(OperationName.UPDATE),
            "DELETE": self._answering(OperationName.DELETE),
        }
        found = {
            "/subscriptions": Resource(collection),
            "/subscriptions/{id}": Resource(member),
            "/subscriptions/{id}/signature/rotate": Resource({"POST": self._rotate}),
        }
        return in_each_namespace(found)

    def _answering(self, operation: OperationName) -> Handler:
        async def answer(request: Request) -> Response:
            call = _HttpCall(request)
            rendered = _render(await self._operations.answer(operation, call), call)
            rendered.headers["cache-control"] = "no-store"  # they may hold keys of sinks
            return rendered

        return answer

    async def _rotate(self, request: Request) -> Response:
        call = _HttpCall(request)
        precondition = call.read_precondition()
        body = await read_json_if_any(request)
        made = await self._subscriptions.rotate(call.id, body, precondition, call.namespace)
        rendered = _render(OperationResult(Status.OK, made.encode(), etag=made.etag), call)
        rendered.headers["cache-control"] = "no-store"
        return rendered


class _HttpCall:
    """A request as an ``ApiCall``."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def namespace(self) -> str:
        return namespace_of(self._request)

    @property
    def id(self) -> str:
        return str(self._request.path_params["id"])

    async def read_body(self) -> object:
        return await read_json(self._request)

    def read_precondition(self) -> Precondition:
        return read_precondition(self._request)

    def read_range(self) -> ListRange:
        limit, others = read_list_parameters(self._request, {"cursor": {}, "state": STATE})
        return ListRange(limit, others.get("cursor"), state=others.get("state"))


def _render(result: OperationResult, call: _HttpCall) -> Response:
    headers = {}
    if result.etag is not None:
        headers["etag"] = result.etag
    if result.created_id is not None:
        # Relative, so that a client's Host header never decides where others are sent.
        headers["location"] = path_in(call.namespace, f"/subscriptions/{result.created_id}")
    if result.next_cursor is not None:
        wanted = call.read_range()
        given = {"limit": wanted.limit, "state": wanted.state}
        path = path_in(call.namespace, "/subscriptions")
        headers["link"] = link_to_next(path, given, result.next_cursor)
    if not isinstance(result.body, bytes):
        return StreamingResponse(result.body, media_type=_JSON)
    status = result.status.code
    if not result.body:
        return Response(status_code=status, headers=headers)
    return Response(result.body, status, headers, media_type=_JSON)
