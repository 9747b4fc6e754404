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
    """How the whole system is."""

    def ready(self) -> tuple[bool, list[str]]:
        """Whether the pipeline runs and the log accepts; if not, why, for people."""

    def metrics(self) -> bytes:
        """Every metric in the Prometheus text format 0.0.4."""


def create_app(
    subscriptions: Subscriptions,
    health: HealthReport,
    seen: Callable[[], SeenNames],
    deliveries: Deliveries,
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
) -> Starlette:
    """The application that answers every path but those for publishing.

    Starts and closes nothing: *subscriptions* is started before the first request, and so is what
    is *mounted*.

    Args:
        subscriptions: Does what ``/subscriptions`` asks.
        health: Answers ``/readyz`` and ``/metrics``.
        seen: The event types and sources that were seen, for ``GET /``.
        deliveries: Says how deliveries stand, and asks their owners.
        mounted: Path -> who answers it, and all paths below it.
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
    # Starlette would redirect /subscriptions/ to an absolute URL made of the Host header.
    app.router.redirect_slashes = False
    return app


def _reading(answer: Callable[[], Response]) -> Resource:
    """A path that is read, whoever asks: *answer* is made anew for each request."""

    async def handle(_request: Request) -> Response:
        return answer()

    return Resource({"GET": handle})


def _alive() -> Response:
    """Alive means that this loop turns; what else is wrong stands at ``/readyz``."""
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
