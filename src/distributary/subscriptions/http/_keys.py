"""API keys over HTTP, and what the sender of a request may do."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.access import ALL_NAMESPACES, Gate, Grant, Identity, Permission, Verb, sender_of
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource import Faults
from distributary.resource.schema import checked
from distributary.subscriptions.api_keys import ApiKeys, StoredKey
from distributary.subscriptions.http._answers import json_response, time_text
from distributary.subscriptions.http._openapi_keys import QUESTION
from distributary.subscriptions.http._requests import read_json
from distributary.subscriptions.http._resources import Handler, Resource

_PRIVATE: Final = {"cache-control": "no-store"}
_PUBLISHED_BY_DEFAULT: Final = "brokers/default"


def key_resources(keys: ApiKeys) -> dict[str, Resource]:
    """``/keys`` and the paths below it."""

    async def listing(request: Request) -> Response:
        found = await keys.all(_sender(request))
        return _answer([_shown(key) for key in found])

    async def make(request: Request) -> Response:
        made = await keys.make(_sender(request), await read_json(request, "a key"))
        answer = _answer({**_shown(made.key), "key": made.text}, 201)
        answer.headers["location"] = f"/keys/{made.key.record.id}"
        return answer

    async def one(request: Request) -> Response:
        return _answer(_shown(await keys.find(_sender(request), _id(request))))

    async def revoke(request: Request) -> Response:
        return _answer(_shown(await keys.revoke(_sender(request), _id(request))))

    return {
        "/keys": Resource({"GET": listing, "POST": make}),
        "/keys/{id}": Resource({"GET": one, "DELETE": revoke}),
    }


def identity_resources(gate: Gate) -> dict[str, Resource]:
    """``/whoami`` and ``/can``, which *gate* answers."""

    async def can(request: Request) -> Response:
        return _can(request, gate)

    return {"/whoami": _reading(_whoami), "/can": _reading(can)}


def _reading(handler: Handler) -> Resource:
    return Resource({"GET": handler})


async def _whoami(request: Request) -> Response:
    sender = _sender(request)
    told: dict[str, Any] = {
        "name": sender.name,
        "how": sender.how,
        "namespaces": sender.namespaces,
        "grants": [_grant(grant) for grant in sender.grants],
    }
    if sender.subject:
        told["subject"] = sender.subject
    if sender.until_ms is not None:
        told["until"] = time_text(sender.until_ms)
    return _answer(told)


def _can(request: Request, gate: Gate) -> Response:
    sender, permission = _sender(request), _permission(request)
    decision = gate.decide(sender, permission)
    allowed = decision.refusal is None
    told: dict[str, Any] = {"allowed": allowed, "name": sender.name}
    if not sender.may(permission):
        told["missing"] = str(permission)
    elif not allowed:
        told["reason"] = decision.refusal
    elif decision.filtered:
        told["filteredby"] = decision.filtered
    return _answer(told)


def _permission(request: Request) -> Permission:
    """What the request asks about.

    Raises:
        ResourceError: A parameter is unknown, repeated, missing or wrong.
    """
    faults, given = Faults(), request.query_params
    for name in dict.fromkeys(given.keys()):
        if len(given.getlist(name)) > 1:
            faults.add(name, "duplicate", "stands twice")
        elif name not in QUESTION:
            faults.add("query", "unknown", f"unknown parameter; known: {', '.join(QUESTION)}")
        else:
            checked(faults, name, QUESTION[name], given[name])
    for name in ("verb", "resource"):
        if name not in given:
            faults.add(name, "missing", "this parameter is required")
    resource, _, place = given.get("resource", "").partition("/")
    named, _, target = place.partition("/")
    of_all = resource == "metrics"
    namespace = given.get("namespace", named or (ALL_NAMESPACES if of_all else DEFAULT_NAMESPACE))
    if named and namespace != named:
        faults.add("namespace", "conflict", "the resource names another namespace")
    faults.refuse()
    verb = Verb(given["verb"])
    if resource == "metrics":
        verb = Verb.OBSERVE if verb is Verb.READ else verb
    name = f"{resource}/{target}" if target else ""
    if resource == "events":
        name = _PUBLISHED_BY_DEFAULT
    return Permission(verb, namespace, name)


def _sender(request: Request) -> Identity:
    return sender_of(request.scope["headers"])


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _answer(value: object, status: int = 200) -> Response:
    answer = json_response(value, status)
    answer.headers.update(_PRIVATE)
    return answer


def _grant(grant: Grant) -> dict[str, Any]:
    told: dict[str, Any] = {"may": grant.may, "namespaces": grant.namespaces}
    return {**told, "names": grant.names} if grant.names else told


def _shown(key: StoredKey) -> dict[str, Any]:
    """*key* without its hash."""
    record = key.record
    told: dict[str, Any] = {"id": record.id, "name": record.name}
    for grant in record.grants:
        told |= _grant(grant)
    if key.created_ms is None:
        told["configured"] = True
    else:
        told |= {"created": time_text(key.created_ms), "createdby": key.created_by}
    if record.until_ms is not None:
        told["expires"] = time_text(record.until_ms)
    if key.used_ms is not None:
        told["lastused"] = time_text(key.used_ms)
    return told
