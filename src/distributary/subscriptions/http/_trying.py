"""``POST /filters/try``: a filter on events, with the reason of each verdict. Changes nothing."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.core import filter as filter_room
from distributary.core.errors import EventError, Fault, NotFoundError
from distributary.core.event import Event, json_format
from distributary.core.filter import Explanation
from distributary.core.tenant import is_namespace
from distributary.core.turns import Places
from distributary.resource import Faults
from distributary.resource.schema import checked
from distributary.subscriptions.events import EventQuery, Events, position_text
from distributary.subscriptions.http._answers import in_each_namespace, json_response
from distributary.subscriptions.http._openapi_filters import EVENTS_TRIED_MAX, RECENT
from distributary.subscriptions.http._requests import answered, namespace_of, read_json
from distributary.subscriptions.http._resources import Resource
from distributary.subscriptions.resource import SELECTING, FilterSelection, read_selection

PARTS_MAX: Final = 20_000
"""Most expressions that are evaluated for one request, over all its events: about 0.2 s of a
thread. Beyond it a client tries fewer events at a time."""

TRIALS_AT_ONCE: Final = 2
"""Trials that are evaluated at a time; others wait, and namespaces take turns. They take half of
the threads that answer all requests to the API."""


def trying_resources(events: Events) -> dict[str, Resource]:
    """``/filters/try``, in each namespace; *events* finds the recent ones."""
    places = Places(TRIALS_AT_ONCE)

    async def attempt(request: Request) -> Response:
        if not is_namespace(namespace_of(request)):
            raise NotFoundError("there is no such namespace")
        trial = _read(await read_json(request, "a trial"))
        if trial.recent is not None:
            asked = EventQuery(namespace=namespace_of(request), limit=trial.recent)
            page, _publishers = await events.find(asked)
            tried = [Tried(each.event, position_text(each.position)) for each in page.items]
        else:
            tried = [Tried(event) for event in trial.events]
        # Far from the loop: a thousand expressions on a hundred events take a while.
        async with places.one(namespace_of(request)):
            return json_response(await answered(request, _tried, trial.selection, tried))

    return in_each_namespace({"/filters/try": Resource({"POST": attempt})})


class Trial(NamedTuple):
    """What is asked for.

    Attributes:
        selection: The filter.
        events: What to try it on.
        recent: How many of the last accepted events instead; None: *events*.
    """

    selection: FilterSelection
    events: list[Event]
    recent: int | None


class Tried(NamedTuple):
    """An event to try a filter on, and its position if it is one of the log."""

    event: Event
    position: str | None = None


def _read(body: object) -> Trial:
    """Read *body*.

    Raises:
        ResourceError: Something is wrong with either; every fault with its path.
    """
    faults = Faults()
    trial = faults.object_at("$", body)
    faults.refuse()
    assert trial is not None
    faults.unknown_members("$", trial, (*SELECTING, "events", "recent"))
    selection = read_selection(faults, trial, filter_room.check)
    events = _events(faults, trial.get("events", []))
    recent = None
    if "recent" in trial:
        recent = checked(faults, "$.recent", RECENT, trial["recent"])
        if "events" in trial:
            faults.add("$.recent", "conflict", "say events or recent, not both")
    member, number = ("recent", recent) if recent else ("events", len(events))
    count = sum(1 for _ in _expressions(selection.filters))
    if not faults.found and count * number > PARTS_MAX:
        message = f"{count} expressions on {number} events are more than {PARTS_MAX:,}"
        faults.add(f"$.{member}", "too-many", f"{message}: try fewer events at a time")
    faults.refuse()
    return Trial(selection, events, recent)


def _events(faults: Faults, values: object) -> list[Event]:
    if not isinstance(values, list):
        faults.wrong_type("$.events", "an array", values)
        return []
    if len(values) > EVENTS_TRIED_MAX:
        faults.add("$.events", "too-many", f"at most {EVENTS_TRIED_MAX} events")
        return []
    events = []
    for index, value in enumerate(values):
        try:
            events.append(_event(value))
        except EventError as error:
            for fault in error.faults:
                path = fault.path.replace("$", f"$.events[{index}]", 1)
                faults.add(path, fault.code, fault.message)
    return events


def _event(value: object) -> Event:
    """The event of a decoded JSON *value*.

    Raises:
        EventError: It is none.
    """
    try:
        return json_format.decode(msgspec.json.encode(value))
    except UnicodeEncodeError:
        fault = Fault("$", "text", "a lone surrogate is no character")
        raise EventError([fault]) from None


def _expressions(value: object) -> Iterator[object]:
    """Every object in *value*, a filter: at least as many as there are expressions."""
    if isinstance(value, Mapping):
        yield value
        for each in value.values():
            yield from _expressions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _expressions(each)


def _tried(selection: FilterSelection, events: list[Tried]) -> dict[str, Any]:
    results = [_verdict(selection, each) for each in events]
    matched = sum(result["matched"] for result in results)
    return {"tried": len(results), "matched": matched, "results": results}


def _verdict(selection: FilterSelection, tried: Tried) -> dict[str, Any]:
    attributes = tried.event.attributes
    why = selection.explain(attributes)
    known = {name: attributes[name] for name in ("id", "source", "type")}
    if tried.position is not None:
        known["position"] = tried.position
    return {**known, "matched": why.verdict, "why": explained(why)}


def explained(why: Explanation, *, decided: bool = True) -> dict[str, Any]:
    """*why* as JSON; ``decided`` marks the parts that caused the verdict of the whole."""
    told: dict[str, Any] = {
        "dialect": why.dialect,
        "path": why.path,
        "verdict": why.verdict,
        "reason": why.reason,
        "decided": decided,
    }
    if why.parts:
        among = {id(part) for part in why.decided_by}
        told["parts"] = [explained(p, decided=decided and id(p) in among) for p in why.parts]
    return told
