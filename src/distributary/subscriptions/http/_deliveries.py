"""How the deliveries of a subscription stand, over HTTP; and what people may ask of them."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.subscriptions.http._resources import Resource
from distributary.subscriptions.service import Deliveries, RouteState

_JSON: Final = "application/json"


def delivery_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """What stands below a subscription."""

    async def status(request: Request) -> Response:
        state = await asyncio.to_thread(deliveries.state, str(request.path_params["id"]))
        return json_response(status_of(state))

    async def resume(request: Request) -> Response:
        demand = await asyncio.to_thread(deliveries.resume, str(request.path_params["id"]))
        return json_response({"run": demand.run}, 202)

    return {
        "/subscriptions/{id}/status": Resource({"GET": status}),
        "/subscriptions/{id}/resume": Resource({"POST": resume}),
    }


def json_response(value: object, status: int = 200) -> Response:
    """*value* as JSON."""
    return Response(msgspec.json.encode(value), status, media_type=_JSON)


def time_text(wall_ms: int) -> str:
    """A wall clock time in milliseconds as RFC 3339 writes it."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


def status_of(state: RouteState) -> dict[str, Any]:
    """What ``/subscriptions/{id}/status`` says."""
    parked = [one.parked for one in state.partitions if one.parked is not None]
    backfilling = any(one.backfilling for one in state.partitions)
    word = "ready"
    if parked:
        word = "parked"
    elif state.failing:
        word = "failing"
    elif backfilling:
        word = "lagging"
    found: dict[str, Any] = {
        "id": state.subscription.id,
        "route": state.subscription.uid,
        "state": word,
        "waiting": sum(one.waiting for one in state.partitions),
        "lagging": backfilling,
        "kept": {
            "count": sum(one.kept for one in state.partitions),
            "bytes": sum(one.kept_bytes for one in state.partitions),
        },
    }
    if parked:
        first = min(parked, key=lambda row: row.since_ms)
        found["parked"] = {
            "since": time_text(first.since_ms),
            "reason": first.reason,
            "sink": first.dest,
            "partitions": len(parked),
        }
    if state.failing:
        last = max(state.failing, key=lambda row: row.last_ms)
        found["lastError"] = {
            "since": time_text(min(row.since_ms for row in state.failing)),
            "last": time_text(last.last_ms),
            "count": sum(row.count for row in state.failing),
            "reason": last.reason,
            "sink": last.dest,
        }
    return found
