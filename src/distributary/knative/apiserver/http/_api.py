"""The Kubernetes-style API as one ASGI application: routing of requests, and errors."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from distributary.access import Gate, sender_of
from distributary.core.clock import Clock, Random
from distributary.core.errors import DistributaryError
from distributary.knative.apiserver.http._access import REVIEW_KINDS, review_access
from distributary.knative.apiserver.http._answers import (
    as_status,
    json_answer,
    status_answer,
    streamed,
)
from distributary.knative.apiserver.http._api_subscriptions import (
    ADVICE,
    ApiSubscriptions,
    NoSubscriptions,
    show_subscriptions,
    subscription_place,
)
from distributary.knative.apiserver.http._deletes import Deletes, Settled
from distributary.knative.apiserver.http._documents import find_document
from distributary.knative.apiserver.http._lists import Lists
from distributary.knative.apiserver.http._negotiation import choose_form
from distributary.knative.apiserver.http._open_lists import OpenLists
from distributary.knative.apiserver.http._options import ListOptions, read_list_options
from distributary.knative.apiserver.http._target import RequestTarget, read_target
from distributary.knative.apiserver.http._view import PIECE_BYTES, ListView
from distributary.knative.apiserver.http._watches import Watches
from distributary.knative.apiserver.http._writes import Writes
from distributary.knative.apiserver.machinery import Object, StatusError
from distributary.knative.apiserver.machinery.table import Include
from distributary.knative.apiserver.objects import Objects

Handler = Callable[[Request, RequestTarget], Awaitable[Response]]

PATHS: Final = ("/api", "/apis", "/openapi/v2", "/openapi/v3", "/version")
"""``KubernetesApi`` serves these paths and everything below them."""

_log = structlog.get_logger(__name__)

_NOWHERE: Final = "the server could not find the requested resource"
_NOT_HERE: Final = "the server does not allow this method on the requested resource"
_INCLUDES: Final[dict[str, Include]] = {
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
    "": "Metadata",
}


class KubernetesApi:
    """An ASGI application for every path in ``PATHS``. Starts nothing.

    Args:
        objects: The objects to serve; started before the first request.
        settled: Awaited between a delete and its response.
        clock: For ages, and for when watches end.
        random: Spreads the ends of watches.
        gate: Answers who may do what; None: by grants alone.
    """

    def __init__(
        self,
        objects: Objects,
        settled: Settled,
        clock: Clock,
        random: Random,
        gate: Gate | None = None,
    ) -> None:
        self._objects = objects
        self._gate = gate or Gate(clock.wall_ms)
        self._clock = clock
        self.deliveries: Callable[[str], Object | None] = lambda _uid: None
        """Returns how the deliveries of the object with this uid go; None: it has had none."""
        self.subscriptions: ApiSubscriptions = NoSubscriptions()
        """Shows the subscriptions of the Subscriptions API."""
        self._lists = Lists(objects)
        self._open_lists = OpenLists()
        objects.on_change(self._open_lists.note)
        self._watches = Watches(objects, self._open_lists, clock, random)
        writes = Writes(objects, clock, self._gate)
        deletes = Deletes(objects, self._lists, settled)
        member = {"GET": self._get, "PUT": writes.replace, "PATCH": writes.patch}
        self._of_status: Mapping[str, Handler] = member
        self._of_member: Mapping[str, Handler] = {**member, "DELETE": deletes.delete}
        self._of_collection: Mapping[str, Handler] = {
            "GET": self._list,
            "POST": writes.create,
            "DELETE": deletes.delete_all,
        }
        self._of_everywhere: Mapping[str, Handler] = {"GET": self._list}
        # As in the API server: no deletecollection on namespaces.
        self._of_namespaces: Mapping[str, Handler] = {"GET": self._list, "POST": writes.create}

    async def close(self) -> None:
        """End every watch, so that the server can stop without waiting for clients."""
        self._watches.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        request = Request(scope, receive)
        # Not ``request.url.path``, which is wrong for a malformed Host header.
        path: str = scope["path"]
        target = read_target(path)
        try:
            answer = await self._answer(request, path, target)
        except (DistributaryError, ClientDisconnect) as error:
            answer = status_answer(as_status(error), target)
            # Its frames refer to the object, and one of them to the error: a reference cycle that
            # would hold megabytes until the next garbage collection.
            error.__traceback__ = None
        # A bug is reported as a Status too: clients of this API understand nothing else.
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("request-crashed", method=request.method, path=path, exc_info=error)
            answer = status_answer(as_status(error), target)
        if request.method == "HEAD":
            bare = Response(status_code=answer.status_code)
            bare.raw_headers = answer.raw_headers
            answer = bare
        await answer(scope, receive, send)

    async def _answer(self, request: Request, path: str, target: RequestTarget | None) -> Response:
        if target is not None:
            handlers = self._handlers(target)
            handler = handlers.get("GET" if request.method == "HEAD" else request.method)
            if handler is None:
                return _other_method(request, handlers)
            return await handler(request, target)
        review = REVIEW_KINDS.get(path)
        if review is not None:
            if request.method != "POST":
                return _other_method(request, ("POST",))
            return await review_access(request, review, self._gate)
        return await self._read_only(request, path)

    async def _read_only(self, request: Request, path: str) -> Response:
        place = subscription_place(path)
        document = find_document(path) if place is None else None
        if place is None and document is None:
            raise StatusError("NotFound", _NOWHERE)
        if request.method not in ("GET", "HEAD"):
            return _other_method(request, ("GET",), _NOT_HERE if place is None else ADVICE)
        if place is not None:
            now_ms = self._clock.wall_ms()
            return await show_subscriptions(request, place, self.subscriptions, now_ms)
        assert document is not None
        return document(request)

    def _handlers(self, target: RequestTarget) -> Mapping[str, Handler]:
        if target.watched:
            return self._of_everywhere
        if target.subresource:
            return self._of_status
        if target.name:
            return self._of_member
        if target.kind.namespaced and not target.namespace:
            return self._of_everywhere
        return self._of_collection if target.kind.namespaced else self._of_namespaces

    async def _get(self, request: Request, target: RequestTarget) -> Response:
        options = read_list_options(request.query_params, watched=False)
        if options.watch:  # as the API server does for old clients
            return self._watch(request, target, options)
        self._lists.check_version(options.version)
        view = self._view(request, target, options)
        return json_answer(view.show(self._objects.find(target.key), self._clock.wall_ms()))

    async def _list(self, request: Request, target: RequestTarget) -> Response:
        options = read_list_options(request.query_params, watched=target.watched)
        if options.watch:
            return self._watch(request, target, options)
        view = self._view(request, target, options)
        reader, now_ms = sender_of(request.scope["headers"]), self._clock.wall_ms()
        page = await self._lists.page(view, options, reader)
        if sum(len(stored.json) for stored in page.items) <= PIECE_BYTES:
            return json_answer(view.show_page(page, now_ms))
        runs = self._open_lists.read(view, page.version, page.items, reader)
        return streamed(view.page_pieces(page._replace(items=()), runs, now_ms))

    def _watch(self, request: Request, target: RequestTarget, options: ListOptions) -> Response:
        view = self._view(request, target, options)
        if request.method == "HEAD":
            return json_answer(b"")
        return self._watches.begin(view, options, sender_of(request.scope["headers"]))

    def _view(self, request: Request, target: RequestTarget, options: ListOptions) -> ListView:
        form = choose_form(request.headers.get("accept", ""))
        text = request.query_params.get("includeObject", "")
        if text not in _INCLUDES:
            raise StatusError("BadRequest", "includeObject must be None, Metadata or Object")
        fields = options.fields
        if target.name and options.watch:
            fields = f"metadata.name={target.name}" + (f",{fields}" if fields else "")
        return ListView(
            target.kind,
            target.namespace or None,
            labels=options.labels,
            fields=fields,
            form=form,
            include=_INCLUDES[text],
            deliveries=self.deliveries,
        )


def _other_method(
    request: Request,
    known: "Mapping[str, Handler] | tuple[str, ...]",
    message: str = _NOT_HERE,
) -> Response:
    allow = [*known, *(["HEAD"] if "GET" in known else []), "OPTIONS"]
    if request.method == "OPTIONS":
        return Response(headers={"allow": ", ".join(allow)})
    answer = status_answer(StatusError("MethodNotAllowed", message))
    answer.headers["allow"] = ", ".join(allow)
    return answer
