"""Pause, resume, disable, enable, retry and replay over HTTP: paths below a subscription."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from distributary.core.demand import Demand, DemandDetails
from distributary.resource import Faults
from distributary.resource.schema import checked
from distributary.subscriptions.http._answers import in_each_namespace, json_response
from distributary.subscriptions.http._openapi_runs import DISABLE
from distributary.subscriptions.http._requests import (
    answered,
    namespace_of,
    read_json,
    read_json_if_any,
)
from distributary.subscriptions.http._resources import Resource
from distributary.subscriptions.http._runs import (
    asked,
    by_of,
    details_of,
    read_replay,
    read_retry,
)
from distributary.subscriptions.http._status import halts_of
from distributary.subscriptions.service import Deliveries, run_name
from distributary.subscriptions.store.steering import Steering


def steering_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """Paths below a subscription."""

    async def pause(request: Request) -> Response:
        return await change(request, deliveries.steering.pause)

    async def enable(request: Request) -> Response:
        return await change(request, deliveries.steering.enable)

    async def change(request: Request, make: Callable[[str, str, str], Steering]) -> Response:
        return json_response(_steering(await answered(request, make, *_named(request))))

    async def resume(request: Request) -> Response:
        demand = await answered(request, deliveries.steering.resume, *_named(request))
        return json_response({"run": run_name(demand)}, 202)

    async def disable(request: Request) -> Response:
        faults = Faults()
        body = checked(faults, "$", DISABLE, await read_json_if_any(request))
        faults.refuse()
        id_, by, namespace = _named(request)
        reason = body.get("reason", "")
        found = await answered(request, deliveries.steering.disable, id_, reason, by, namespace)
        return json_response(_steering(found))

    async def retry(request: Request) -> Response:
        body = read_retry(await read_json_if_any(request))
        return await run(request, deliveries.steering.retry, body)

    async def replay(request: Request) -> Response:
        body = read_replay(await read_json(request, "a replay"))
        return await run(request, deliveries.steering.replay, body)

    async def run(
        request: Request,
        ask: Callable[[str, str | None, DemandDetails, str], Demand],
        body: dict[str, Any],
    ) -> Response:
        id_, by, namespace = _named(request)
        details = details_of(body, by, deliveries.runs.partitions)
        demand = await answered(request, ask, id_, body.get("run"), details, namespace)
        return asked(demand, namespace)

    found = {
        "/subscriptions/{id}/pause": Resource({"POST": pause}),
        "/subscriptions/{id}/resume": Resource({"POST": resume}),
        "/subscriptions/{id}/disable": Resource({"POST": disable}),
        "/subscriptions/{id}/enable": Resource({"POST": enable}),
        "/subscriptions/{id}/retry": Resource({"POST": retry}),
        "/subscriptions/{id}/replay": Resource({"POST": replay}),
    }
    return in_each_namespace(found)


def _named(request: Request) -> tuple[str, str, str]:
    return str(request.path_params["id"]), by_of(request), namespace_of(request)


def _steering(now: Steering) -> dict[str, Any]:
    return {"paused": None, "disabled": None, **halts_of(now)}
