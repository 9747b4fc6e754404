"""Events over HTTP: the search, and the way of one."""

import contextlib
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.access import Permission, Verb, sender_of
from distributary.core.errors import EventError, Fault, ResourceError
from distributary.core.event import Event, json_format
from distributary.core.tenant import path_in
from distributary.history.attempts import EventRow
from distributary.history.newest import Attempted
from distributary.resource.times import parse_time_ms
from distributary.subscriptions.events import (
    AskedRoute,
    EventQuery,
    Events,
    EventWay,
    FoundEvent,
    Match,
    position_text,
    read_position,
)
from distributary.subscriptions.http._answers import (
    in_each_namespace,
    json_response,
    part_response,
    time_text,
)
from distributary.subscriptions.http._openapi_deliveries import NAME
from distributary.subscriptions.http._openapi_events import TEXT_PARAMETERS
from distributary.subscriptions.http._requests import (
    namespace_of,
    read_list_parameters,
    read_parameters,
)
from distributary.subscriptions.http._resources import Resource

LIMIT_DEFAULT: Final = 100
"""Events of a part without ``limit``: a screen or two."""
ATTEMPTS_DEFAULT: Final = 50
"""Attempts of a subscription without ``limit``."""
DATA_SHOWN_BYTES_MAX: Final = 4096
"""Longer data are left out of a list, and told by their length; the way of an event has them."""
LOOKED_FIELD: Final = "distributary-looked-to"
"""Header field of a part: all events accepted after this time have been looked at."""


def event_resources(events: Events) -> dict[str, Resource]:
    """``/events`` and the paths below it, here and below a namespace."""

    async def found(request: Request) -> Response:
        asked, given = _read_query(request)
        page, publishers = await events.find(asked)
        each = zip(page.items, publishers, strict=True)
        items = [_listed(hit, by) for hit, by in each]
        given |= {"limit": str(asked.limit)}
        answer = part_response(items, path_in(asked.namespace, "/events"), given, page.next_cursor)
        if page.next_cursor is not None and page.looked_ms is not None:
            answer.headers[LOOKED_FIELD] = time_text(page.looked_ms)
        return answer

    async def way(request: Request) -> Response:
        namespace = namespace_of(request)
        position = read_position(str(request.path_params["position"]))
        told = await events.way(position, namespace, _read_route(request))
        sender = sender_of(request.scope["headers"])
        answers = sender.may(Permission(Verb.WRITE, namespace))
        return json_response(_way(told, answers=answers))

    async def attempts(request: Request) -> Response:
        namespace = namespace_of(request)
        limit, _ = read_list_parameters(request, {})
        id_ = request.path_params["id"]
        newest = await events.attempts(id_, namespace, ATTEMPTS_DEFAULT if limit is None else limit)
        sender = sender_of(request.scope["headers"])
        answers = sender.may(Permission(Verb.WRITE, namespace))
        answer = json_response([_attempted(each, answers=answers) for each in newest.items])
        if newest.looked_ms is not None:
            answer.headers[LOOKED_FIELD] = time_text(newest.looked_ms)
        return answer

    paths = {
        "/subscriptions/{id}/attempts": Resource({"GET": attempts}),
        "/events": Resource({"GET": found}),
        "/events/{position}": Resource({"GET": way}),
    }
    return in_each_namespace(paths)


def _read_query(request: Request) -> tuple[EventQuery, dict[str, str]]:
    """What *request* asks for, and its parameters but limit and cursor.

    Raises:
        ResourceError: A parameter is unknown, repeated, or invalid.
    """
    known = {**TEXT_PARAMETERS, "broker": NAME, "channel": NAME, "cursor": {}}
    limit, given = read_list_parameters(request, known)
    cursor = given.pop("cursor", None)
    if "broker" in given and "channel" in given:
        raise ResourceError([Fault("channel", "conflict", "say broker or channel, not both")])
    asked = EventQuery(
        namespace=namespace_of(request),
        broker=given.get("broker"),
        channel=given.get("channel"),
        id=given.get("id"),
        source=given.get("source"),
        type=given.get("type"),
        subject=given.get("subject"),
        since_ms=_time(given, "since"),
        until_ms=_time(given, "until"),
        limit=LIMIT_DEFAULT if limit is None else limit,
        cursor=cursor,
    )
    return asked, given


def _read_route(request: Request) -> AskedRoute:
    """The one route that *request* asks about.

    Raises:
        ResourceError: A parameter is unknown, repeated, or invalid.
    """
    given = read_parameters(request, {"subscription": NAME, "route": NAME})
    if len(given) > 1:
        raise ResourceError([Fault("route", "conflict", "say subscription or route, not both")])
    return AskedRoute(**given)


def _time(given: dict[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return parse_time_ms(given[name])
    except ValueError as error:
        raise ResourceError([Fault(name, "value", str(error))]) from error


def _listed(found: FoundEvent, by: str | None) -> dict[str, Any]:
    told = _head(found, by)
    event, size = found.event, found.event.data_bytes()
    if size > DATA_SHOWN_BYTES_MAX:
        told["dataBytes"] = size
        event = Event(event.attributes, None)
    return told | {"event": _json(event)}


def _head(found: FoundEvent, by: str | None) -> dict[str, Any]:
    return {
        "position": position_text(found.position),
        "time": time_text(found.time_ms),
        "by": by,
        "address": found.path,
    }


def _json(event: Event) -> msgspec.Raw | None:
    """The event in the JSON format; None: a newer version wrote what this one cannot."""
    with contextlib.suppress(EventError):
        return msgspec.Raw(json_format.encode(event))
    return None


def _way(way: EventWay, *, answers: bool) -> dict[str, Any]:
    told = _head(way.found, way.by) | {
        "event": _json(way.found.event),
        "attempts": way.attempts,
        "matches": [_match(match, answers=answers) for match in way.matches],
        "more": way.more,
    }
    if way.repeats is not None:
        told["repeats"] = position_text(way.repeats)
    return told


def _match(match: Match, *, answers: bool) -> dict[str, Any]:
    name, end = match.name, match.outcome
    told: dict[str, Any] = {"uid": match.uid}
    if name is not None and name.kind == "subscription":
        told["subscription"] = name.text
    elif name is not None:
        kind, _, object_ = name.text.partition("/")
        plural = kind.partition(".")[0]
        told["trigger" if plural == "triggers" else "object"] = (
            object_.partition("/")[2] if plural == "triggers" else name.text
        )
    told |= {"revision": match.revision, "matched": match.matched}
    if match.why:
        told["why"] = [{"path": each.path, "reason": each.reason} for each in match.why]
    if match.changed:
        told["changed"] = True
    if match.deleted:
        told["deleted"] = True
    told["outcome"] = None if end is None else end.outcome
    if match.matched and end is None:
        told["waiting"] = not match.ended
    if end is not None:
        told["ended"] = time_text(end.time_ms)
        if end.reason is not None:
            told["reason"] = end.reason
    told["attempts"] = [
        _attempt(row, answers=answers) for row in match.rows if row.attempt is not None
    ]
    return told


def _attempted(each: Attempted, *, answers: bool) -> dict[str, Any]:
    event = {"id": each.id, "source": each.source, "type": each.type}
    head = {"position": position_text(each.position), "event": event, "outcome": each.row.outcome}
    return head | _attempt(each.row, answers=answers)


def _attempt(row: EventRow, *, answers: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "time": time_text(row.time_ms),
        "stage": row.stage,
        "attempt": row.attempt,
        "duration": row.duration_s,
        "status": row.status,
        "decision": row.decision,
        "reason": row.reason,
    }
    if answers and row.answer is not None:
        told["answer"] = row.answer
    return told
