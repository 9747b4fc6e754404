"""The ASGI application: every path that is not for publishing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from distributary.subscriptions.http import _problems
from distributary.subscriptions.http._dead_letters import DeadLetterPaths
from distributary.subscriptions.http._deliveries import DeliveryPaths
from distributary.subscriptions.http._description import Description, describe
from distributary.subscriptions.http._docs import CONTENT_SECURITY_POLICY, build_docs
from distributary.subscriptions.http._openapi import build_openapi
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.http._subscriptions import SubscriptionPaths
from distributary.subscriptions.http.operations import Operations
from distributary.subscriptions.service import Deliveries, Subscriptions

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Health(Protocol):
    """How the whole system is."""

    def ready(self) -> tuple[bool, list[str]]:
        """Whether the pipeline runs and the log accepts; if not, why, for people."""
        ...

    def metrics(self) -> bytes:
        """Every metric in the Prometheus text format 0.0.4."""
        ...


def create_app(
    subscriptions: Subscriptions,
    health: Health,
    description: Description,
    deliveries: Deliveries,
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
) -> Starlette:
    """The application that answers every path but those for publishing.

    Starts and closes nothing: *subscriptions* is started before the first request, and so is what
    is *mounted*.

    Args:
        subscriptions: Does what ``/subscriptions`` asks.
        health: Answers ``/readyz`` and ``/metrics``.
        description: What ``GET /`` says beyond what the code knows.
        deliveries: Says how deliveries stand, and asks their owners.
        mounted: Path -> who answers it, and all paths below it.
    """
    paths = SubscriptionPaths(Operations(subscriptions))
    delivering = DeliveryPaths(deliveries)
    dead_letters = DeadLetterPaths(deliveries)
    resources = {
        "/": _reading(_describing(description)),
        "/subscriptions": paths.collection,
        "/subscriptions/{id}": paths.member,
        "/subscriptions/{id}/status": delivering.status,
        "/subscriptions/{id}/resume": delivering.resume,
        "/dead-letters": dead_letters.dead_letters,
        "/dead-letters/redrive": dead_letters.redrive,
        "/dead-letters/purge": dead_letters.purge,
        "/dead-letters/runs/{run}": dead_letters.run,
        "/healthz": _reading(_alive),
        "/readyz": _reading(_readiness(health)),
        "/metrics": _reading(_metrics(health)),
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


def _reading(handler: Handler) -> Resource:
    return Resource({"GET": handler})


async def _alive(_request: Request) -> Response:
    """Alive means that this loop turns; what else is wrong stands at ``/readyz``."""
    return Response("ok\n", media_type="text/plain")


def _readiness(health: Health) -> Handler:
    async def answer(_request: Request) -> Response:
        ready, reasons = health.ready()
        if not ready:
            return _problems.problem("unavailable", "; ".join(reasons) or "not ready")
        return Response(b'{"ready":true}', media_type="application/json")

    return answer


def _metrics(health: Health) -> Handler:
    async def answer(_request: Request) -> Response:
        return Response(health.metrics(), headers={"content-type": _METRICS_TYPE})

    return answer


def _describing(description: Description) -> Handler:
    async def answer(_request: Request) -> Response:
        body = msgspec.json.encode(describe(description))
        return Response(body, media_type="application/json")

    return answer


def _documents() -> dict[str, Resource]:
    openapi = build_openapi()
    body = msgspec.json.encode(openapi)
    page = build_docs(openapi).encode()

    async def answer_openapi(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    async def answer_docs(_request: Request) -> Response:
        headers = {"content-security-policy": CONTENT_SECURITY_POLICY}
        return Response(page, headers=headers, media_type="text/html")

    return {"/openapi.json": _reading(answer_openapi), "/docs": _reading(answer_docs)}
