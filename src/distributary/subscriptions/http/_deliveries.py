"""Dead letters over HTTP, and requests to redrive and purge them."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.core.demand import DemandKind
from distributary.core.errors import Fault, ResourceError
from distributary.core.tenant import path_in
from distributary.core.turns import in_thread
from distributary.subscriptions.consent import ALLOWED_RATE, CALLBACK_PATH
from distributary.subscriptions.http._answers import (
    in_each_namespace,
    json_response,
    part_response,
    time_text,
)
from distributary.subscriptions.http._openapi_deliveries import NAME
from distributary.subscriptions.http._openapi_parts import TIME
from distributary.subscriptions.http._requests import (
    answered,
    namespace_of,
    read_json,
    read_list_parameters,
)
from distributary.subscriptions.http._resources import Handler, Resource
from distributary.subscriptions.http._runs import (
    asked,
    by_of,
    details_of,
    moment,
    read_selection,
)
from distributary.subscriptions.service import DeadLetterSelection, Deliveries, ListedDeadLetter

_ALLOWED_RATE: Final = ALLOWED_RATE.decode()

LIMIT_DEFAULT: Final = 100
"""Dead letters of a part without ``limit``: a screen or two."""


def consent_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """The path at which a target consents later (http-webhook 1.0, section 4.1.3)."""

    async def confirm(request: Request) -> Response:
        if request.method == "HEAD":  # link checkers send it: it changes nothing
            return Response(media_type="text/plain")
        rates = [value.encode("latin-1") for value in request.headers.getlist(_ALLOWED_RATE)]
        name, key = str(request.path_params["name"]), request.query_params.get("key", "")
        row = await in_thread("", deliveries.confirm, name, key, rates)  # nobody is asked who it is
        text = f"Events from {row.origin} may be sent until {time_text(row.until_ms)}"
        if row.rate_per_min is not None:
            text += f", at most {row.rate_per_min} a minute"
        headers = {"cache-control": "no-store", "referrer-policy": "no-referrer"}
        return Response(f"{text}.\n", media_type="text/plain", headers=headers)

    return {f"{CALLBACK_PATH}/{{name}}": Resource({"GET": confirm, "POST": confirm})}


def dead_letter_resources(deliveries: Deliveries) -> dict[str, Resource]:
    """``/dead-letters`` and the paths below it."""

    async def dead_letters(request: Request) -> Response:
        known = {"cursor": {}, "subscription": NAME, "route": NAME, "since": TIME, "until": TIME}
        said, found = read_list_parameters(request, known)
        limit, cursor = LIMIT_DEFAULT if said is None else said, found.pop("cursor", None)
        if "subscription" in found and "route" in found:
            fault = Fault("route", "conflict", "say subscription or route, not both")
            raise ResourceError([fault])
        namespace = namespace_of(request)
        selection = DeadLetterSelection(
            found.get("subscription"),
            found.get("route"),
            namespace,
            moment(found.get("since")),
            moment(found.get("until")),
        )
        page = await answered(request, deliveries.dead_letters, selection, limit, cursor)
        items = [_dead_letter(dead_letter) for dead_letter in page.items]
        given = {"limit": limit, **found}
        return part_response(items, path_in(namespace, "/dead-letters"), given, page.next_cursor)

    async def dead_letter(request: Request) -> Response:
        id_, namespace = str(request.path_params["id"]), namespace_of(request)
        found = await answered(request, deliveries.dead_letter, id_, namespace)
        return json_response(_dead_letter(found))

    def asking(kind: DemandKind) -> Handler:
        async def answer(request: Request) -> Response:
            namespace = namespace_of(request)
            body = read_selection(await read_json(request))
            selection = DeadLetterSelection(body.get("subscription"), body.get("route"), namespace)
            details = details_of(body, by_of(request), deliveries.runs.partitions)
            run = body.get("run")
            demand = await answered(request, deliveries.ask, kind, selection, run, details)
            return asked(demand, namespace)

        return answer

    paths = {
        "/dead-letters": Resource({"GET": dead_letters}),
        "/dead-letters/redrive": Resource({"POST": asking("redrive")}),
        "/dead-letters/purge": Resource({"POST": asking("purge")}),
        "/dead-letters/{id}": Resource({"GET": dead_letter}),
    }
    return in_each_namespace(paths)


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
        told["namespace"] = found.name.namespace
    return told
