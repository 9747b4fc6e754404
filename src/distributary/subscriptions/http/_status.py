"""How subscriptions stand, over HTTP: the whole, the short member of each, and an overview."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.core.errors import NotFoundError
from distributary.core.tenant import is_namespace
from distributary.core.turns import in_thread
from distributary.subscriptions.http._answers import in_each_namespace, json_response, time_text
from distributary.subscriptions.http._requests import answered, namespace_of, observes_all
from distributary.subscriptions.http._resources import Resource
from distributary.subscriptions.http.operations import InState
from distributary.subscriptions.service import (
    Brief,
    Failures,
    Overview,
    RouteState,
    Statuses,
    TargetConsent,
    Word,
)
from distributary.subscriptions.status import Point
from distributary.subscriptions.store.steering import Steering
from distributary.subscriptions.store.stored import StoredSubscription

RECENT_COUNT: Final = 2
"""Points of five seconds that rates of an overview are taken over."""


def status_resources(statuses: Statuses) -> dict[str, Resource]:
    """``/subscriptions/{id}/status`` and ``/status``, here and below a namespace."""

    async def status(request: Request) -> Response:
        id_, namespace = str(request.path_params["id"]), namespace_of(request)
        state = await answered(request, statuses.state, id_, namespace)
        return json_response(status_of(state))

    async def overview(request: Request) -> Response:
        if not is_namespace(namespace_of(request)):
            raise NotFoundError("there is no such namespace")
        found = await answered(request, statuses.overview, namespace_of(request))
        return json_response(overview_of(found, whole_server=observes_all(request)))

    found = {
        "/subscriptions/{id}/status": Resource({"GET": status}),
        "/status": Resource({"GET": overview}),
    }
    return in_each_namespace(found)


class Shown:
    """Subscriptions as HTTP shows them: with the read-only member ``status``.

    Args:
        statuses: Knows it.
    """

    def __init__(self, statuses: Statuses) -> None:
        self._statuses = statuses

    async def __call__(self, found: Sequence[StoredSubscription]) -> list[bytes]:
        """JSON of each of them, which are of one namespace."""
        if not found:
            return []
        briefs = await in_thread(found[0].namespace, self._statuses.briefs, found)
        return [
            one.encode()[:-1] + b',"status":' + msgspec.json.encode(short_of(brief)) + b"}"
            for one, brief in zip(found, briefs, strict=True)
        ]


def in_state(statuses: Statuses) -> InState:
    """Reads subscriptions by the text of their state."""

    def read(
        state: str, namespace: str, limit: int, after: str
    ) -> tuple[list[StoredSubscription], str | None]:
        return statuses.in_state(Word(state), namespace, limit, after)

    return read


def short_of(brief: Brief) -> dict[str, Any]:
    """The member ``status`` of a subscription."""
    tally = brief.standing.tally
    consents = [_consent(one) for one in brief.consents]
    return {
        "state": brief.word.value,
        "failing": None if brief.failing is None else _failing(brief.failing),
        "lastSuccess": _time(tally.success_ms),
        "inFlight": tally.in_flight,
        "waiting": tally.waiting,
        "delivered": tally.delivered,
        "deadLettered": tally.dead_lettered,
        "rate": round(brief.standing.rate, 3),
        "rates": [round(each, 3) for each in brief.standing.rates],
        **({} if brief.steering is None else halts_of(brief.steering)),
        **({"consent": consents} if consents else {}),
    }


def _time(wall_ms: int) -> str | None:
    return time_text(wall_ms) if wall_ms else None


def _failing(failing: Failures) -> dict[str, Any]:
    found: dict[str, Any] = {
        "since": time_text(failing.since_ms),
        "last": time_text(failing.last_ms),
        "count": failing.attempts,
        "reason": failing.reason,
        "sink": failing.sink,
    }
    word, _, status = failing.reason.rpartition("status-")
    if status.isdecimal() and (not word or word.endswith(" ")):
        found["status"] = int(status)
    return found


def status_of(state: RouteState) -> dict[str, Any]:
    """Body of ``/subscriptions/{id}/status``."""
    brief, tally = state.brief, state.brief.standing.tally
    found: dict[str, Any] = {
        "id": brief.subscription.id,
        "route": brief.subscription.uid,
        "revision": brief.subscription.revision,
        **short_of(brief),
        "dropped": tally.dropped,
        "attemptsFailed": tally.failed,
        "lagging": tally.backfilling,
        "backfill": _backfill(state),
        "kept": {
            "count": sum(one.kept for one in state.partitions),
            "bytes": sum(one.kept_bytes for one in state.partitions),
        },
        "conditions": _conditions(state),
    }
    if tally.answer_status:
        found["lastAnswer"] = {
            "time": time_text(tally.answer_ms),
            "status": tally.answer_status,
        }
    found |= _halted(state)
    if brief.failing is not None:
        older = _failing(brief.failing)
        older.pop("status", None)
        found["lastError"] = older
    return found


def halts_of(steering: Steering) -> dict[str, Any]:
    """What people, or the server, have set: ``paused`` and ``disabled``, where they are."""
    found: dict[str, Any] = {}
    if steering.paused_ms is not None:
        found["paused"] = {"since": time_text(steering.paused_ms), "by": steering.paused_by or ""}
    if steering.disabled_ms is not None:
        found["disabled"] = {
            "since": time_text(steering.disabled_ms),
            "by": steering.disabled_by or "",
            "reason": steering.disabled_reason or "",
        }
    return found


def _halted(state: RouteState) -> dict[str, Any]:
    """Why nothing is sent: by people, by the server, or by the sink."""
    steering = state.brief.steering
    found = {} if steering is None else halts_of(steering)
    parked = [one.parked for one in state.partitions if one.parked is not None]
    if parked:
        first = min(parked, key=lambda row: row.since_ms)
        found["parked"] = {
            "since": time_text(first.since_ms),
            "reason": first.reason,
            "sink": first.dest,
            "partitions": len(parked),
        }
    return found


def _backfill(state: RouteState) -> dict[str, Any] | None:
    position = [
        {"partition": number, "offset": one.backfill_from, "end": max(end, one.backfill_from)}
        for number, (one, end) in enumerate(zip(state.partitions, state.ends, strict=True))
        if one.backfill_from is not None
    ]
    if not position:
        return None
    found = {
        "position": position,
        "distance": sum(each["end"] - each["offset"] for each in position),
    }
    return found | ({"waitsFor": state.waits_for} if state.waits_for else {})


def _conditions(state: RouteState) -> list[dict[str, Any]]:
    """As of an object of Kubernetes: whether it takes part, and whether deliveries succeed."""
    brief, made_ms = state.brief, state.brief.subscription.updated_ms
    halted = _halted(state)
    held = {Word.DISABLED: "disabled", Word.PAUSED: "paused", Word.PARKED: "parked"}
    message, since = "", time_text(made_ms)
    if brief.word in held:
        about = halted[held[brief.word]]
        message = about.get("reason") or f"by {about.get('by', '')}"
        since = about["since"]
    elif brief.word is Word.AWAITING_CONSENT:
        message = "a target has not consented"
    is_ready = brief.word not in held and brief.word is not Word.AWAITING_CONSENT
    ready = _condition("Ready", is_ready, brief.word, message, since)
    tally = brief.standing.tally
    if brief.failing is not None:
        reason, since = brief.failing.reason, time_text(brief.failing.since_ms)
        delivering = _condition("Delivering", False, "DeliveryFailed", reason, since)
    elif tally.success_ms:
        since = time_text(min(tally.success_ms, max(made_ms, 1)))
        delivering = _condition("Delivering", True, "Delivered", "", since)
    else:
        delivering = _condition("Delivering", None, "NothingDelivered", "", time_text(made_ms))
    return [ready, delivering]


def _condition(
    type_: str, status: bool | None, reason: str, message: str, since: str
) -> dict[str, Any]:
    return {
        "type": type_,
        "status": "Unknown" if status is None else str(status),
        "reason": "".join(
            part.capitalize() if part.islower() else part for part in reason.split("-")
        ),
        "message": message,
        "lastTransitionTime": since,
    }


def overview_of(found: Overview, *, whole_server: bool) -> dict[str, Any]:
    """Body of ``/status``.

    Args:
        found: The numbers.
        whole_server: Whether those that all namespaces make together are told too: of others a
            tenant learns nothing, not even how busy they are.
    """
    recent = found.seconds[-RECENT_COUNT:]
    last = found.seconds[-1] if found.seconds and whole_server else None

    def rate(name: str) -> float:
        rates = [getattr(point.rates, name) for point in recent]
        return round(sum(rates) / len(rates), 3) if rates else 0.0

    return {
        "namespace": found.namespace,
        "time": time_text(found.wall_ms),
        "accepted": rate("accepted"),
        "delivered": rate("delivered"),
        **{word.value: found.states[word] for word in Word if word is not Word.READY},
        "waiting": found.waiting,
        "inFlight": found.in_flight,
        "deadLetters": found.kept,
        "kept": {"count": found.kept, "bytes": found.kept_bytes},
        "latency": {
            "p50": None if last is None else _seconds(last.p50_s),
            "p99": None if last is None else _seconds(last.p99_s),
        },
        "backlog": None if not whole_server else 0 if last is None else last.backlog,
        "seconds": [_point(point, whole_server=whole_server) for point in found.seconds],
        "minutes": [_point(point, whole_server=whole_server) for point in found.minutes],
    }


def _point(point: Point, *, whole_server: bool) -> dict[str, Any]:
    rates = point.rates
    return {
        "time": time_text(point.wall_ms),
        "accepted": round(rates.accepted, 3),
        "delivered": round(rates.delivered, 3),
        "deadLettered": round(rates.dead_lettered, 3),
        "dropped": round(rates.dropped, 3),
        "attemptsFailed": round(rates.failed, 3),
        "failing": point.failing,
        "waiting": point.waiting,
        "backlog": point.backlog if whole_server else None,
        "p50": _seconds(point.p50_s) if whole_server else None,
        "p99": _seconds(point.p99_s) if whole_server else None,
    }


def _seconds(found: float | None) -> float | None:
    return None if found is None else round(found, 6)


def _consent(one: TargetConsent) -> dict[str, Any]:
    row = one.row
    found: dict[str, Any] = {
        "sink": one.sink,
        "state": row.state,
        "since": time_text(row.since_ms),
        "asked": time_text(row.asked_ms),
    }
    if row.state == "given":
        found["until"] = time_text(row.until_ms)
        if row.rate_per_min is not None:
            found["ratePerMinute"] = row.rate_per_min
    elif row.state != "private":
        found["reason"] = row.reason or "no answer yet"
        found["next"] = time_text(row.next_ms)
    return found
