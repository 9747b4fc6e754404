"""Kept dead letters over HTTP: listed in parts, and what people may have done with them."""

import re
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.core.errors import Fault, ResourceError
from distributary.subscriptions.http._deliveries import json_response, time_text
from distributary.subscriptions.http._requests import read_json
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.http.parameters import LIMIT_EXPECTED, parse_limit
from distributary.subscriptions.service import Deliveries, ListedDeadLetter, Selection

LIMIT_DEFAULT: Final = 100
"""Dead letters of a part, where nobody says how many: a screen or two."""
_PARAMETERS: Final = ("limit", "cursor", "subscription", "route")
_RUN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_NAME_EXPECTED: Final = "expected 1 to 128 of the characters A-Z a-z 0-9 . _ -"
_MEMBERS: Final = ("subscription", "route", "all", "run")


class DeadLetterPaths:
    """``/dead-letters`` and what stands below.

    Args:
        deliveries: Looks, and asks.
    """

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self.dead_letters = Resource({"GET": self._list})
        self.redrive = Resource({"POST": self._asking("redrive")})
        self.purge = Resource({"POST": self._asking("purge")})
        self.run = Resource({"GET": self._run})

    async def _list(self, request: Request) -> Response:
        found = _parameters(request)
        limit = LIMIT_DEFAULT if found.get("limit") is None else parse_limit(found["limit"])
        if limit is None:
            raise ResourceError([Fault("limit", "value", LIMIT_EXPECTED)])
        selection = Selection(found.get("subscription"), found.get("route"))
        page = await self._deliveries.dead_letters(selection, limit, found.get("cursor"))
        answer = json_response([_dead_letter(dead_letter) for dead_letter in page.dead_letters])
        if page.next_cursor is not None:
            kept = [f"{name}={found[name]}" for name in ("subscription", "route") if name in found]
            target = "&".join([f"limit={limit}", f"cursor={page.next_cursor}", *kept])
            answer.headers["link"] = f'</dead-letters?{target}>; rel="next"'
        return answer

    def _asking(self, kind: Any) -> Handler:
        async def answer(request: Request) -> Response:
            selection, run = _read_selection(await read_json(request))
            demand = await self._deliveries.ask(kind, selection, run)
            answer = json_response({"run": demand.run}, 202)
            answer.headers["location"] = f"/dead-letters/runs/{demand.run}"
            return answer

        return answer

    async def _run(self, request: Request) -> Response:
        found = await self._deliveries.run(str(request.path_params["run"]))
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


def _parameters(request: Request) -> dict[str, str]:
    faults: list[Fault] = []
    for name in dict.fromkeys(request.query_params.keys()):
        if name not in _PARAMETERS:
            known = ", ".join(_PARAMETERS)
            faults.append(Fault("query", "unknown", f"unknown parameter; known: {known}"))
        elif len(request.query_params.getlist(name)) > 1:
            faults.append(Fault(name, "duplicate", "stands twice"))
    faults += [
        Fault(name, "value", _NAME_EXPECTED)
        for name in ("subscription", "route")
        if name in request.query_params and not _NAME.fullmatch(request.query_params[name])
    ]
    if "subscription" in request.query_params and "route" in request.query_params:
        faults.append(Fault("route", "conflict", "say subscription or route, not both"))
    if faults:
        raise ResourceError(faults)
    return dict(request.query_params)


def _read_selection(body: object) -> tuple[Selection, str | None]:
    """Which dead letters, and the id of the run, as *body* says."""
    if not isinstance(body, dict):
        raise ResourceError([Fault("$", "type", "expected an object")])
    faults = [
        Fault(f"$.{name}", "unknown", f"unknown member; known: {', '.join(_MEMBERS)}")
        for name in body
        if name not in _MEMBERS
    ]
    faults += [
        Fault(f"$.{name}", "value", _NAME_EXPECTED)
        for name in ("subscription", "route")
        if name in body and not (isinstance(body[name], str) and _NAME.fullmatch(body[name]))
    ]
    if "all" in body and body["all"] is not True:
        faults.append(Fault("$.all", "value", "expected true"))
    run = body.get("run")
    if "run" in body and not (isinstance(run, str) and _RUN.fullmatch(run)):
        faults.append(Fault("$.run", "value", "1 to 64 of the characters A-Z a-z 0-9 _ -"))
    if sum(name in body for name in ("subscription", "route", "all")) != 1:
        faults.append(Fault("$", "missing", "say one of: subscription, route, all"))
    if faults:
        raise ResourceError(faults)
    return Selection(body.get("subscription"), body.get("route")), run


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
