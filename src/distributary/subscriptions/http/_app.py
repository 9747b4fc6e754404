"""The ASGI application: every path that is not for publishing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from distributary.datadir.seen import SeenNames
from distributary.subscriptions.http import _problems
from distributary.subscriptions.http._deliveries import (
    dead_letter_resources,
    delivery_resources,
    json_response,
)
from distributary.subscriptions.http._description import describe
from distributary.subscriptions.http._docs import CONTENT_SECURITY_POLICY, build_docs
from distributary.subscriptions.http._openapi import build_openapi
from distributary.subscriptions.http._resources import Resource
from distributary.subscriptions.http._subscriptions import SubscriptionPaths
from distributary.subscriptions.http.operations import Operations
from distributary.subscriptions.service import Deliveries, Subscriptions

_METRICS_TYPE = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}


class HealthReport(Protocol):
    """Health and metrics of the whole system."""

    def ready(self) -> tuple[bool, list[str]]:
        """Whether the pipeline runs and the log accepts records; if not, why, for people."""

    def metrics(self) -> bytes:
        """All metrics in the Prometheus text format 0.0.4."""


def create_app(
    subscriptions: Subscriptions,
    health: HealthReport,
    seen: Callable[[], SeenNames],
    deliveries: Deliveries,
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
) -> Starlette:
    """Make the application for every path except those for publishing.

    It starts and closes nothing: *subscriptions* and whatever is *mounted* must be started before
    the first request.

    Args:
        subscriptions: Carries out the operations of ``/subscriptions``.
        health: For ``/readyz`` and ``/metrics``.
        seen: Event types and sources seen so far, for ``GET /``.
        deliveries: Reports delivery status, and requests resumes and redrives.
        mounted: Path -> application for it and all paths below.
    """
    paths = SubscriptionPaths(Operations(subscriptions))
    resources = {
        "/": _reading(lambda: json_response(describe(seen()))),
        "/subscriptions": paths.collection,
        "/subscriptions/{id}": paths.member,
        **delivery_resources(deliveries),
        **dead_letter_resources(deliveries),
        "/healthz": _reading(_alive),
        "/readyz": _reading(lambda: _readiness(health)),
        "/metrics": _reading(lambda: Response(health.metrics(), headers=_METRICS_TYPE)),
        **_documents(),
    }
    routes = [Route(path, resource) for path, resource in resources.items()]
    for path, answers in mounted.items():
        routes += [Route(path, answers), Route(path + "/{rest:path}", answers)]
    app = Starlette(
        routes=routes,
        exception_handlers={
            **dict.fromkeys(_problems.HANDLED, _problems.answer_error),
            Exception: _problems.answer_bug,
        },
    )
    # Starlette would redirect /subscriptions/ to an absolute URL built from the Host header.
    app.router.redirect_slashes = False
    return app


def _reading(answer: Callable[[], Response]) -> Resource:
    """A path for GET; *answer* makes the response to each request."""

    async def handle(_request: Request) -> Response:
        return answer()

    return Resource({"GET": handle})


def _alive() -> Response:
    """Alive means that this event loop runs; other faults are at ``/readyz``."""
    return Response("ok\n", media_type="text/plain")


def _readiness(health: HealthReport) -> Response:
    ready, reasons = health.ready()
    if not ready:
        return _problems.problem("unavailable", "; ".join(reasons) or "not ready")
    return json_response({"ready": True})


def _documents() -> dict[str, Resource]:
    openapi = build_openapi()
    body = msgspec.json.encode(openapi)
    page = build_docs(openapi).encode()
    policy = {"content-security-policy": CONTENT_SECURITY_POLICY}
    return {
        "/openapi.json": _reading(lambda: Response(body, media_type="application/json")),
        "/docs": _reading(lambda: Response(page, headers=policy, media_type="text/html")),
    }
