"""Runs over HTTP: requests that start them, their list, their progress and their ends."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.access import sender_of
from distributary.core import filter as event_filter
from distributary.core.demand import Demand, DemandDetails
from distributary.core.outcome.dead_letter import selected
from distributary.core.tenant import path_in
from distributary.resource import Faults
from distributary.resource.schema import checked
from distributary.resource.times import parse_time_ms
from distributary.subscriptions.http._answers import (
    in_each_namespace,
    json_response,
    part_response,
    time_text,
)
from distributary.subscriptions.http._openapi_deliveries import NAME, SELECTION
from distributary.subscriptions.http._openapi_runs import KIND, PHASE, REPLAY, RETRY
from distributary.subscriptions.http._requests import answered, namespace_of, read_list_parameters
from distributary.subscriptions.http._resources import Resource
from distributary.subscriptions.service import Deliveries, RunState, run_name

LIMIT_DEFAULT: Final = 100
"""Runs of a part without ``limit``."""
_ONE_OF: Final = ("subscription", "route", "ids", "all")


def run_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """``/runs`` and the paths below it; ``/dead-letters/runs/{run}`` is an older spelling."""

    async def listed(request: Request) -> Response:
        known = {"cursor": {}, "subscription": NAME, "route": NAME, "kind": KIND, "state": PHASE}
        said, found = read_list_parameters(request, known)
        limit = LIMIT_DEFAULT if said is None else said
        namespace = namespace_of(request)
        cursor = found.pop("cursor", None)
        page = await answered(
            request,
            deliveries.runs.page,
            limit,
            cursor,
            namespace,
            subscription=found.get("subscription"),
            route=found.get("route"),
            kind=found.get("kind"),
            phase=found.get("state"),
        )
        items = [run_of(state) for state in page.items]
        given = {"limit": limit, **found}
        return part_response(items, path_in(namespace, "/runs"), given, page.next_cursor)

    async def one(request: Request) -> Response:
        name, namespace = str(request.path_params["run"]), namespace_of(request)
        return json_response(run_of(await answered(request, deliveries.runs.find, name, namespace)))

    async def cancel(request: Request) -> Response:
        name, namespace = str(request.path_params["run"]), namespace_of(request)
        state = await answered(request, deliveries.runs.cancel, name, by_of(request), namespace)
        return json_response(run_of(state), 202)

    paths = {
        "/runs": Resource({"GET": listed}),
        "/runs/{run}": Resource({"GET": one}),
        "/runs/{run}/cancel": Resource({"POST": cancel}),
        "/dead-letters/runs/{run}": Resource({"GET": one}),
    }
    return in_each_namespace(paths)


def by_of(request: Request) -> str:
    """Name of who sends *request*."""
    return sender_of(request.scope["headers"]).name


def asked(demand: Demand, namespace: str) -> Response:
    """The answer to a request that started a run: its name, and where to read its progress."""
    name = run_name(demand)
    answer = json_response({"run": name}, 202)
    answer.headers["location"] = path_in(namespace, f"/runs/{name}")
    return answer


def moment(text: str | None) -> int | None:
    """A time of RFC 3339 that the schema has checked, as wall clock in milliseconds."""
    return None if text is None else parse_time_ms(text)


def read_selection(body: object) -> dict[str, Any]:
    """Read which dead letters *body* selects, and how.

    Raises:
        ResourceError: With every fault.
    """
    faults = Faults()
    found = checked(faults, "$", SELECTION, body)
    if found is not None and sum(name in found for name in _ONE_OF) != 1:
        faults.add("$", "missing", f"say one of: {', '.join(_ONE_OF)}")
    return _filtered(faults, found)


def read_replay(body: object) -> dict[str, Any]:
    """Read the body of a request to replay.

    Raises:
        ResourceError: With every fault.
    """
    faults = Faults()
    return _filtered(faults, checked(faults, "$", REPLAY, body))


def read_retry(body: object) -> dict[str, Any]:
    """Read the body of a request to retry now.

    Raises:
        ResourceError: With every fault.
    """
    faults = Faults()
    return _filtered(faults, checked(faults, "$", RETRY, body))


def _filtered(faults: Faults, found: Any) -> dict[str, Any]:
    if isinstance(found, dict) and "filters" in found:
        for fault in event_filter.check(found["filters"], "$.filters"):
            faults.add(fault.path, fault.code, fault.message)
    faults.refuse()
    assert isinstance(found, dict)
    return found


def details_of(body: dict[str, Any], by: str, partitions: int) -> DemandDetails:
    """What a checked *body* asks for, beside its selection."""
    rate = body.get("rateLimit")
    return DemandDetails(
        by=by,
        ids=tuple(body.get("ids", ())),
        filters=tuple(body.get("filters", ())),
        since_ms=moment(body.get("since", body.get("from"))),
        until_ms=moment(body.get("until", body.get("to"))),
        rate=None if rate is None else float(rate),
        partitions=partitions if rate is not None else 1,
        dry=body.get("dryRun", False),
    )


def _whose(state: RunState) -> dict[str, Any]:
    """Which subscription or object a run is of; of one that is deleted, its route alone."""
    found: dict[str, Any] = {}
    if state.name is not None:
        found[state.name.kind] = state.name.text
    _, route = selected(state.demand.route)
    if route:
        found["route"] = route
    return found


def run_of(state: RunState) -> dict[str, Any]:
    """A run in an answer."""
    demand, details = state.demand, state.demand.details
    found: dict[str, Any] = {
        "run": run_name(demand),
        "kind": demand.kind,
        "state": state.phase,
        "asked": time_text(demand.asked_ms),
        "by": details.by,
        "selected": state.total("selected"),
        "handled": state.total("handled"),
        "passed": state.total("passed"),
        "looked": state.total("looked"),
        "total": state.total("total"),
        "dryRun": details.dry,
    }
    found |= _whose(state)
    if details.rate is not None:
        found["rateLimit"] = details.rate
    replays = demand.kind == "replay"
    for name, wall_ms in (
        ("from" if replays else "since", details.since_ms),
        ("to" if replays else "until", details.until_ms),
        ("oldest", state.oldest_ms),
    ):
        if wall_ms is not None:
            found[name] = time_text(wall_ms)
    if state.phase == "ended-early":
        found["reason"] = "its subscription, or object, was deleted or has ended"
    if state.waits_for:
        found["waitsFor"] = state.waits_for
    if state.missing:
        found["missing"] = [
            {
                "partition": each.partition,
                "from": each.from_offset,
                "to": each.to_offset,
                "records": each.records,
            }
            for each in state.missing
        ]
    if details.filters:
        found["filters"] = list(details.filters)
    if details.ids:
        found["ids"] = list(details.ids)
    return found
