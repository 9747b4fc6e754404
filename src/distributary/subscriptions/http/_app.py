"""The ASGI application: every path that is not for publishing."""

import functools
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from distributary.access import Gate, Verb, sender_of
from distributary.datadir.seen import SeenNames
from distributary.subscriptions.api_keys import ApiKeys
from distributary.subscriptions.events import Events
from distributary.subscriptions.http import _problems
from distributary.subscriptions.http._answers import json_response
from distributary.subscriptions.http._deliveries import (
    consent_resources,
    dead_letter_resources,
)
from distributary.subscriptions.http._description import describe
from distributary.subscriptions.http._docs import CONTENT_SECURITY_POLICY, build_docs
from distributary.subscriptions.http._events import event_resources
from distributary.subscriptions.http._issuer import IssuerDocuments, issuer_resources
from distributary.subscriptions.http._keys import identity_resources, key_resources
from distributary.subscriptions.http._openapi import build_openapi
from distributary.subscriptions.http._requests import observes_all
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.http._runs import run_resources
from distributary.subscriptions.http._status import Shown, in_state, status_resources
from distributary.subscriptions.http._steering import steering_resources
from distributary.subscriptions.http._subscriptions import SubscriptionPaths
from distributary.subscriptions.http._trying import trying_resources
from distributary.subscriptions.http.cluster import Cluster, ClusterReport, cluster_resources
from distributary.subscriptions.http.operations import Operations
from distributary.subscriptions.service import Deliveries, Statuses, Subscriptions

CONSOLE: Final = "/console"
"""Where the page for people is, if one is mounted."""

_METRICS_TYPE = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}


class HealthReport(Protocol):
    """Health and metrics of the whole system."""

    def ready(self) -> tuple[bool, list[str]]:
        """Whether the pipeline runs and the log accepts records; if not, why, for people."""

    def metrics(self, namespaces: AbstractSet[str] | None = None) -> bytes:
        """Metrics in the Prometheus text format 0.0.4.

        Args:
            namespaces: Only the series of these; None: all.
        """


def create_app(
    subscriptions: Subscriptions,
    health: HealthReport,
    seen: Callable[[], SeenNames],
    deliveries: Deliveries,
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
    *,
    events: Events,
    statuses: Statuses,
    keys: ApiKeys,
    gate: Gate | None = None,
    issuer: Callable[[], IssuerDocuments | None] = lambda: None,
    cluster: Cluster = ClusterReport,
) -> Starlette:
    """Make the application for every path except those for publishing.

    It starts and closes nothing: *subscriptions* and whatever is *mounted* must be started before
    the first request.

    Args:
        subscriptions: Carries out the operations of ``/subscriptions``.
        health: For ``/readyz`` and ``/metrics``.
        seen: Event types and sources seen so far, for ``GET /``.
        deliveries: Reads dead letters, and requests resumes and redrives.
        mounted: Path -> application for it and all paths below.
        events: Searches for events.
        statuses: Reports the status of subscriptions.
        keys: Makes, lists and revokes API keys.
        gate: Answers who may do what; None: by grants alone.
        issuer: Returns what this server publishes as an issuer; None: it is none.
        cluster: Reads who takes part, and who owns what.
    """
    paths = SubscriptionPaths(
        Operations(subscriptions, Shown(statuses), in_state(statuses)), subscriptions
    )
    resources = {
        "/": Resource({"GET": _describing(seen, page=CONSOLE if CONSOLE in mounted else None)}),
        **paths.resources(),
        **event_resources(events),
        **status_resources(statuses),
        **steering_resources(deliveries),
        **run_resources(deliveries),
        **dead_letter_resources(deliveries),
        **trying_resources(events),
        **key_resources(keys),
        **identity_resources(gate or Gate(lambda: 0)),
        **consent_resources(deliveries),
        **issuer_resources(issuer),
        **cluster_resources(cluster),
        "/healthz": _reading(_alive),
        "/readyz": Resource({"GET": _readiness_of(health)}),
        "/metrics": Resource({"GET": _metrics_of(health)}),
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


def _describing(seen: Callable[[], SeenNames], page: str | None) -> Handler:
    """The service description; names seen in events are for who observes.

    Browsers are led to *page*, if there is one: they say that they take HTML, programs do not.
    """

    async def answer(request: Request) -> Response:
        if page is not None and "text/html" in request.headers.get("accept", ""):
            return Response(status_code=303, headers={"location": page, "vary": "accept"})
        answer = json_response(describe(seen() if observes_all(request) else SeenNames()))
        answer.headers["vary"] = "accept"
        return answer

    return answer


def _readiness_of(health: HealthReport) -> Handler:
    """Whether the server is ready; the reasons are for who observes."""

    async def answer(request: Request) -> Response:
        ready, reasons = health.ready()
        if ready:
            return json_response({"ready": True})
        why = "; ".join(reasons) if observes_all(request) else ""
        return _problems.problem("unavailable", why or "not ready")

    return answer


def _metrics_of(health: HealthReport) -> Handler:
    """Metrics of the namespaces that the sender may observe; of the server if these are all."""

    async def answer(request: Request) -> Response:
        observed = sender_of(request.scope["headers"]).where(Verb.OBSERVE)
        return Response(health.metrics(observed), headers=_METRICS_TYPE)

    return answer


@functools.cache
def _description() -> tuple[bytes, bytes]:
    """The description of the API, for programs and as a page; both are always the same."""
    openapi = build_openapi()
    return msgspec.json.encode(openapi), build_docs(openapi).encode()


def _documents() -> dict[str, Resource]:
    body, page = _description()
    policy = {"content-security-policy": CONTENT_SECURITY_POLICY}
    return {
        "/openapi.json": _reading(lambda: Response(body, media_type="application/json")),
        "/docs": _reading(lambda: Response(page, headers=policy, media_type="text/html")),
    }
