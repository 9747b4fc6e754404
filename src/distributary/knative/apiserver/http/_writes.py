"""Creates, replaces and patches objects."""

from collections.abc import Callable, Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.access import Gate, sender_of
from distributary.core.clock import Clock
from distributary.knative import kinds as knative
from distributary.knative.apiserver.http._answers import json_answer
from distributary.knative.apiserver.http._negotiation import choose_form
from distributary.knative.apiserver.http._options import (
    invalid_options,
    read_write_options,
)
from distributary.knative.apiserver.http._references import permit_of
from distributary.knative.apiserver.http._requests import parse_object, parse_value, read_body
from distributary.knative.apiserver.http._target import RequestTarget
from distributary.knative.apiserver.http._view import ListView
from distributary.knative.apiserver.machinery import Kind, Object, StatusError
from distributary.knative.apiserver.machinery.apply import apply
from distributary.knative.apiserver.machinery.metadata import unknown_metadata
from distributary.knative.apiserver.machinery.names import forbidden, required
from distributary.knative.apiserver.machinery.openapi import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    patch_types,
)
from distributary.knative.apiserver.machinery.patch import json_patch, merge_patch
from distributary.knative.apiserver.machinery.strategic import strategic_merge_patch
from distributary.knative.apiserver.objects import Objects, Stored, Write, timestamp

Change = Callable[[Object], Object]
"""Returns the new content of an object; runs inside the write's transaction."""

_OPTIONS_OF: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}

STRICT_FAULTS_MAX: Final = 100
"""Faults in the message of a strict refusal: a terminal shows it in one line."""


class Writes:
    """Handlers of ``POST``, ``PUT`` and ``PATCH``.

    Args:
        objects: The objects.
        clock: For ages in responses, and times of managers.
        gate: Answers what objects may refer to.
    """

    def __init__(self, objects: Objects, clock: Clock, gate: Gate) -> None:
        self._objects = objects
        self._clock = clock
        self._gate = gate

    async def create(self, request: Request, target: RequestTarget) -> Response:
        """``POST`` to a collection: 201."""
        asked = _Asked(request, target, self._gate)
        obj = await asked.read()
        stored = await self._objects.create(target.kind, target.namespace, obj, asked.write())
        return self._answer(asked, stored, 201)

    async def replace(self, request: Request, target: RequestTarget) -> Response:
        """``PUT`` of an existing object: 200."""
        asked = _Asked(request, target, self._gate)
        obj = await asked.read()
        _check_named(obj, target)
        stored = await self._objects.edit(target.key, lambda _: obj, asked.write())
        return self._answer(asked, stored)

    async def patch(self, request: Request, target: RequestTarget) -> Response:
        """``PATCH``: 200, or 201 if an apply created the object."""
        asked = _Asked(request, target, self._gate)
        content_type = _patch_type(request, target.kind)
        if content_type == APPLY_PATCH:
            return await self._apply(asked, target)
        if asked.options.force is not None:
            cause = forbidden("force", "may not be specified for non-apply patch")
            raise invalid_options("PatchOptions", cause)
        body = await asked.body()
        if content_type == JSON_PATCH:
            operations = await parse_value(request, body)
            change: Change = lambda old: json_patch(old, operations)  # noqa: E731 - one of three
        else:
            patch, duplicates = await parse_object(request, body)
            asked.check_duplicates(duplicates)
            change = _merging(content_type, target.kind, patch)

        def patched(old: Object) -> Object:
            new = change(old)
            _check_named(new, target)
            asked.check(new)
            return new

        return self._answer(asked, await self._objects.edit(target.key, patched, asked.write()))

    async def _apply(self, asked: "_Asked", target: RequestTarget) -> Response:
        options = asked.options
        if not options.named:
            cause = required("fieldManager", "is required for apply patch")
            raise invalid_options("PatchOptions", cause)
        sent = await asked.read()
        applied = {"apiVersion": target.kind.api_version, "kind": target.kind.kind, **sent}
        now = timestamp(self._clock.wall_ms())

        def change(old: Object | None) -> Object:
            return apply(
                old,
                applied,
                manager=options.manager,
                force=bool(options.force),
                now=now,
                schema=knative.shape_of(target.kind),
                subresource=target.subresource,
            )

        write = asked.write(applied=True)
        if target.subresource:
            return self._answer(asked, await self._objects.edit(target.key, change, write))
        stored, created = await self._objects.put(target.key, change, write)
        return self._answer(asked, stored, 201 if created else 200)

    def _answer(self, asked: "_Asked", stored: Stored, status: int = 200) -> Response:
        shown = asked.view.show(stored, self._clock.wall_ms())
        return json_answer(shown, status, warnings=asked.warnings)


class _Asked:
    """One write request, and its field validation.

    Unknown and duplicate members lead to a refusal, warnings, or nothing.

    Attributes:
        options: Of the request.
        view: Representation of the object in the response.
        warnings: For the response.
    """

    def __init__(self, request: Request, target: RequestTarget, gate: Gate) -> None:
        agent = request.headers.get("user-agent", "")
        kind_of_options = _OPTIONS_OF[request.method]
        self.options = read_write_options(request.query_params, agent, kind_of_options)
        request.state.dry_run = self.options.dry_run
        form = choose_form(request.headers.get("accept", ""))
        self.view = ListView(target.kind, None, form=form)
        self.warnings: list[str] = []
        self._request = request
        self._body_bytes = 0
        self._target = target
        self._permit = permit_of(sender_of(request.scope["headers"]), gate)

    async def read(self) -> Object:
        """Read and check the object in the body."""
        obj, duplicates = await parse_object(self._request, await self.body())
        self.check(obj, duplicates)
        return obj

    async def body(self) -> bytes:
        """Read the body."""
        body = await read_body(self._request)
        self._body_bytes = len(body)
        return body

    def write(self, *, applied: bool = False) -> Write:
        """Options for the object store."""
        return Write(
            subresource=self._target.subresource,
            manager=self.options.manager,
            dry_run=self.options.dry_run,
            applied=applied,
            permit=self._permit,
            body_bytes=self._body_bytes,
        )

    def check(self, obj: Object, duplicates: Iterable[str] = ()) -> None:
        """Check the members of a whole object.

        Raises:
            StatusError: ``BadRequest``: unknown or duplicate members under ``Strict``.
        """
        if self.options.validation == "Ignore":
            return
        kind = self._target.kind
        unknown = [*unknown_metadata(obj), *knative.unknown_fields(kind, obj)]
        self.warnings += [f'unknown field "{path}"' for path in dict.fromkeys(unknown)]
        self.check_duplicates(duplicates)
        if self.options.validation == "Strict" and self.warnings:
            message = (
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(self.warnings[:STRICT_FAULTS_MAX])}"
            )
            raise StatusError("BadRequest", message)

    def check_duplicates(self, paths: Iterable[str]) -> None:
        """Record duplicate members of a body; ``check`` refuses them under ``Strict``."""
        if self.options.validation != "Ignore":
            self.warnings += [f'duplicate field "{path}"' for path in paths]


def _check_named(obj: Object, target: RequestTarget) -> None:
    """Refuse an object without a name: probably not what the client meant to send.

    Raises:
        StatusError: ``BadRequest``.
    """
    metadata = obj.get("metadata")
    if not metadata or (isinstance(metadata, dict) and not metadata.get("name")):
        message = f"the name of the object ({target.name} based on URL) was undeterminable"
        raise StatusError("BadRequest", f"{message}: name must be provided")


def _patch_type(request: Request, kind: Kind) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    known = patch_types(kind)
    if media_type not in known:
        raise StatusError(
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(known),
        )
    return media_type


def _merging(content_type: str, kind: Kind, patch: Object) -> Change:
    if content_type == MERGE_PATCH:
        return lambda old: merge_patch(old, patch)
    return lambda old: strategic_merge_patch(old, patch, knative.shape_of(kind))
