"""Deletes one object, or all that a selector matches."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.access import sender_of
from distributary.knative.apiserver.http._answers import json_answer
from distributary.knative.apiserver.http._lists import Lists
from distributary.knative.apiserver.http._negotiation import Form
from distributary.knative.apiserver.http._options import invalid_options, read_list_options
from distributary.knative.apiserver.http._requests import parse_object, read_body
from distributary.knative.apiserver.http._target import RequestTarget
from distributary.knative.apiserver.http._view import ListPage, ListView
from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.machinery.names import unsupported
from distributary.knative.apiserver.machinery.status import success_status
from distributary.knative.apiserver.objects import Objects, Stored, Write

Settled = Callable[[Key, float], Awaitable[object]]
"""Waits until a delete has taken effect (``Reconciler.settled``), at most so many seconds."""

SETTLE_S: Final = 10.0
"""Longest wait for a delete to take effect before it is answered, seconds. Usually milliseconds; if
the log is unavailable, the response comes anyway, before clients and proxies time out (30 s)."""

AT_ONCE: Final = 200
"""Objects of one request deleted at a time: they share a transaction, and leave space in the
store's queue for others."""

_POLICIES: Final = ("Orphan", "Background", "Foreground")
_OPTIONS: Final = "DeleteOptions"


class Deletes:
    """Handlers of ``DELETE``.

    Args:
        objects: The objects.
        lists: Lists collections.
        settled: Waits until a delete has taken effect.
    """

    def __init__(self, objects: Objects, lists: Lists, settled: Settled) -> None:
        self._objects = objects
        self._lists = lists
        self._settled = settled

    async def delete(self, request: Request, target: RequestTarget) -> Response:
        """``DELETE`` of an object: a ``Status``, or the object if it waits for finalizers."""
        write = await _read_options(request)
        stored = await self._objects.delete(target.key, write)
        if _stays(stored):
            return json_answer(stored.json)
        if not write.dry_run:
            await self._settled(target.key, SETTLE_S)
        return json_answer(success_status(target.kind, target.name, stored.uid))

    async def delete_all(self, request: Request, target: RequestTarget) -> Response:
        """``DELETE`` of a collection: the list of deleted objects."""
        write = await _read_options(request)
        listed = read_list_options(request.query_params, watched=False)
        view = ListView(
            target.kind,
            target.namespace or None,
            labels=listed.labels,
            fields=listed.fields,
            form=Form(),
        )
        page = await self._lists.page(view, listed, sender_of(request.scope["headers"]))
        gone: list[Stored] = []
        try:
            for at in range(0, len(page.items), AT_ONCE):
                await self._delete_some(page.items[at : at + AT_ONCE], write, gone)
        finally:
            request.state.partly = bool(gone) and not write.dry_run
        return json_answer(view.show_page(ListPage(gone, self._objects.version), 0))

    async def _delete_some(self, items: Sequence[Stored], write: Write, gone: list[Stored]) -> None:
        """Delete exactly *items*, by uid; those that still existed go to the end of *gone*."""
        answers = await asyncio.gather(
            *(
                self._objects.delete(stored.key, replace(write, uid=stored.uid, version=None))
                for stored in items
            ),
            return_exceptions=True,
        )
        deleted = [answer for answer in answers if isinstance(answer, Stored)]
        gone += deleted
        for answer in answers:
            if isinstance(answer, BaseException) and not (
                isinstance(answer, StatusError) and answer.reason in _GONE
            ):
                raise answer
        if not write.dry_run:
            await asyncio.gather(
                *(self._settled(one.key, SETTLE_S) for one in deleted if not _stays(one))
            )


_GONE: Final = ("NotFound", "Conflict")
"""Reasons why a delete is refused whose object was deleted or recreated meanwhile."""


def _stays(stored: Stored) -> bool:
    """Whether finalizers keep the object for now."""
    metadata = stored.content["metadata"]
    return "deletionTimestamp" in metadata and bool(
        metadata.get("finalizers") or stored.content.get("spec", {}).get("finalizers")
    )


async def _read_options(request: Request) -> Write:
    """Read the request's ``DeleteOptions`` and query parameters."""
    body = await read_body(request)
    sent = (await parse_object(request, body))[0] if body else {}
    if sent.get("kind", _OPTIONS) != _OPTIONS:
        raise StatusError("BadRequest", f"the body of a delete must be {_OPTIONS}, or empty")
    query = request.query_params
    dry_run = sent.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    wrong = [one for one in dry_run if one != "All"] if isinstance(dry_run, list) else [dry_run]
    if wrong:
        raise invalid_options(_OPTIONS, unsupported("dryRun", wrong[0], ("All",)))
    policy = sent.get("propagationPolicy") or query.get("propagationPolicy")
    if policy and policy not in _POLICIES:
        raise invalid_options(_OPTIONS, unsupported("propagationPolicy", policy, _POLICIES))
    request.state.dry_run = bool(dry_run)
    uid, version = _preconditions(sent)
    orphan = policy == "Orphan" or sent.get("orphanDependents") is True
    return Write(uid=uid, version=version, dry_run=bool(dry_run), orphan=orphan)


def _preconditions(sent: Mapping[str, Any]) -> tuple[str | None, int | None]:
    conditions = sent.get("preconditions") or {}
    if not isinstance(conditions, dict):
        raise StatusError("BadRequest", "preconditions must be an object")
    uid, version = conditions.get("uid"), conditions.get("resourceVersion")
    if uid is not None and not isinstance(uid, str):
        raise StatusError("BadRequest", "preconditions.uid must be a string")
    if version is None:
        return uid, None
    if not isinstance(version, str) or not version.isdecimal() or len(version) > 18:
        # No object has this version.
        return uid, -1
    return uid, int(version)
