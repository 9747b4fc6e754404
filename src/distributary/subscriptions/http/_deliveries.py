"""Delivery status and dead letters over HTTP: reads, resume, redrive and purge."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.core.errors import Fault, ResourceError
from distributary.core.flow import DemandKind
from distributary.resource import Faults
from distributary.resource.schema import checked
from distributary.subscriptions.http._openapi_deliveries import NAME, SELECTION
from distributary.subscriptions.http._requests import read_json, read_list_parameters
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.service import (
    DeadLetterSelection,
    Deliveries,
    ListedDeadLetter,
    RouteState,
)

LIMIT_DEFAULT: Final = 100
"""Dead letters of a part without ``limit``: a screen or two."""


def delivery_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """Paths below a subscription."""

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
    """A JSON response."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def time_text(wall_ms: int) -> str:
    """A wall clock time in milliseconds as RFC 3339."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


def status_of(state: RouteState) -> dict[str, Any]:
    """Body of ``/subscriptions/{id}/status``."""
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


def dead_letter_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """``/dead-letters`` and the paths below it."""

    async def dead_letters(request: Request) -> Response:
        known = {"cursor": {}, "subscription": NAME, "route": NAME}
        said, found = read_list_parameters(request, known)
        limit, cursor = LIMIT_DEFAULT if said is None else said, found.pop("cursor", None)
        if len(found) > 1:
            fault = Fault("route", "conflict", "say subscription or route, not both")
            raise ResourceError([fault])
        selection = DeadLetterSelection(found.get("subscription"), found.get("route"))
        page = await asyncio.to_thread(deliveries.dead_letters, selection, limit, cursor)
        answer = json_response([_dead_letter(dead_letter) for dead_letter in page.items])
        if page.next_cursor is not None:
            kept = [f"{name}={value}" for name, value in found.items()]
            target = "&".join([f"limit={limit}", f"cursor={page.next_cursor}", *kept])
            answer.headers["link"] = f'</dead-letters?{target}>; rel="next"'
        return answer

    def asking(kind: DemandKind) -> Handler:
        async def answer(request: Request) -> Response:
            selection, run = _read_selection(await read_json(request))
            demand = await asyncio.to_thread(deliveries.ask, kind, selection, run)
            answer = json_response({"run": demand.run}, 202)
            answer.headers["location"] = f"/dead-letters/runs/{demand.run}"
            return answer

        return answer

    async def run(request: Request) -> Response:
        found = await asyncio.to_thread(deliveries.run, str(request.path_params["run"]))
        return json_response(
            {
                "run": found.demand.run,
                "kind": found.demand.kind,
                "asked": time_text(found.demand.asked_ms),
                "state": "done" if found.done else "running",
                "handled": found.handled,
                "passed": found.passed,
            }
        )

    return {
        "/dead-letters": Resource({"GET": dead_letters}),
        "/dead-letters/redrive": Resource({"POST": asking("redrive")}),
        "/dead-letters/purge": Resource({"POST": asking("purge")}),
        "/dead-letters/runs/{run}": Resource({"GET": run}),
    }


def _read_selection(body: object) -> tuple[DeadLetterSelection, str | None]:
    """Read the selection of dead letters and the id of the run from *body*."""
    faults = Faults()
    found = checked(faults, "$", SELECTION, body)
    if found is not None and sum(name != "run" for name in found) != 1:
        faults.add("$", "missing", "say one of: subscription, route, all")
    faults.refuse()
    return DeadLetterSelection(found.get("subscription"), found.get("route")), found.get("run")


def _dead_letter(found: ListedDeadLetter) -> dict[str, Any]:
    failure = found.failure
    told: dict[str, Any] = {
        "id": found.id,
        "route": found.route,
        "kept": time_text(found.kept_ms),
        "reason": failure.reason,
        "sink": failure.dest,
    }
    if found.event_json is None:
        told["damaged"] = True
    else:
        told["event"] = msgspec.Raw(found.event_json)
    if failure.code is not None:
        told["status"] = failure.code
    if found.name is not None:
        told[found.name.kind] = found.name.text
    return told
