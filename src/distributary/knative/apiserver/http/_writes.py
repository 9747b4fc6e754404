"""Creating, replacing and patching objects."""

import functools
from collections.abc import Callable, Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.core.clock import Clock
from distributary.knative import kinds as knative
from distributary.knative.apiserver.http._answers import json_answer
from distributary.knative.apiserver.http._negotiation import choose_form
from distributary.knative.apiserver.http._options import (
    WriteOptions,
    invalid_options,
    read_write_options,
)
from distributary.knative.apiserver.http._requests import parse_object, parse_value, read_body
from distributary.knative.apiserver.http._target import Target
from distributary.knative.apiserver.http._view import View
from distributary.knative.apiserver.machinery import (
    Kind,
    Object,
    Shape,
    StatusError,
    apply,
    json_patch,
    merge_patch,
    strategic_merge_patch,
    unknown_metadata,
)
from distributary.knative.apiserver.objects import Objects, Stored, Write, timestamp

Change = Callable[[Object], Object]
"""Makes another object of the newest one; runs where no other write comes between."""

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_OPTIONS_OF: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}

STRICT_FAULTS_MAX: Final = 100
"""Faults that the message of a strict refusal names; it stands in one line of a terminal."""


class Writes:
    """Writes of clients.

    Args:
        objects: Where to.
        clock: For ages in answers, and times of managers.
    """

    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    async def create(self, request: Request, target: Target) -> Response:
        """``POST`` to a collection: 201."""
        options = _options(request)
        form = choose_form(request.headers.get("accept", ""))
        obj, duplicates = await parse_object(request, await read_body(request))
        warnings = _Strictness(target.kind, options.validation)
        warnings.check(obj, duplicates)
        write = _write(options, target)
        stored = await self._objects.create(target.kind, target.namespace, obj, write)
        view = View(target.kind, None, form=form)
        return json_answer(self._show(view, stored), 201, warnings=warnings.found)

    async def replace(self, request: Request, target: Target) -> Response:
        """``PUT`` of an object that is there: 200."""
        options = _options(request)
        form = choose_form(request.headers.get("accept", ""))
        obj, duplicates = await parse_object(request, await read_body(request))
        warnings = _Strictness(target.kind, options.validation)
        warnings.check(obj, duplicates)
        _check_named(obj, target)
        stored = await self._objects.edit(target.key, lambda _: obj, _write(options, target))
        view = View(target.kind, None, form=form)
        return json_answer(self._show(view, stored), warnings=warnings.found)

    async def patch(self, request: Request, target: Target) -> Response:
        """``PATCH``: 200, or 201 where applying made the object."""
        options = _options(request)
        view = View(target.kind, None, form=choose_form(request.headers.get("accept", "")))
        content_type = _patch_type(request, target.kind)
        warnings = _Strictness(target.kind, options.validation)
        if content_type == APPLY_PATCH:
            return await self._apply(request, target, options, warnings, view)
        if options.force is not None:
            why = "Forbidden: may not be specified for non-apply patch"
            raise invalid_options("PatchOptions", "force", "FieldValueForbidden", why)
        body = await read_body(request)
        if content_type == JSON_PATCH:
            operations = await parse_value(request, body)
            change: Change = lambda old: json_patch(old, operations)  # noqa: E731 - one of three
        else:
            patch, duplicates = await parse_object(request, body)
            warnings.check_duplicates(duplicates)
            change = _merging(content_type, target.kind, patch)

        def patched(old: Object) -> Object:
            new = change(old)
            _check_named(new, target)
            warnings.check(new, ())
            return new

        stored = await self._objects.edit(target.key, patched, _write(options, target))
        return json_answer(self._show(view, stored), warnings=warnings.found)

    async def _apply(
        self,
        request: Request,
        target: Target,
        options: WriteOptions,
        warnings: "_Strictness",
        view: View,
    ) -> Response:
        if not options.named:
            why = "Required value: is required for apply patch"
            raise invalid_options("PatchOptions", "fieldManager", "FieldValueRequired", why)
        applied, duplicates = await parse_object(request, await read_body(request))
        warnings.check(applied, duplicates)
        applied = {"apiVersion": target.kind.api_version, "kind": target.kind.kind, **applied}
        now = timestamp(self._clock.wall_ms())

        def change(old: Object | None) -> Object:
            return apply(
                old,
                applied,
                manager=options.manager,
                force=bool(options.force),
                now=now,
                schema=_shape(target.kind),
                subresource=target.subresource,
            )

        write = _write(options, target, applied=True)
        if target.subresource:
            stored = await self._objects.edit(target.key, change, write)
            created = False
        else:
            stored, created = await self._objects.put(target.key, change, write)
        status = 201 if created else 200
        return json_answer(self._show(view, stored), status, warnings=warnings.found)

    def _show(self, view: View, stored: Stored) -> bytes:
        return view.show(stored, self._clock.wall_ms())


class _Strictness:
    """What unknown and repeated members come to: a refusal, warnings, or nothing.

    Attributes:
        found: Warnings for the answer.
    """

    def __init__(self, kind: Kind, validation: str) -> None:
        self.found: list[str] = []
        self._kind = kind
        self._validation = validation

    def check(self, obj: Object, duplicates: Iterable[str]) -> None:
        """Looks at a whole object.

        Raises:
            StatusError: ``BadRequest``: there are such members, and the client is strict.
        """
        if self._validation == "Ignore":
            return
        unknown = [*unknown_metadata(obj), *knative.unknown_fields(self._kind, obj)]
        self._note([f'unknown field "{path}"' for path in dict.fromkeys(unknown)])
        self.check_duplicates(duplicates)
        if self._validation == "Strict" and self.found:
            kind = self._kind
            message = (
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(self.found[:STRICT_FAULTS_MAX])}"
            )
            raise StatusError("BadRequest", message)

    def check_duplicates(self, paths: Iterable[str]) -> None:
        """Notes members that stand twice in a body; ``check`` refuses them where that is asked."""
        if self._validation != "Ignore":
            self._note([f'duplicate field "{path}"' for path in paths])

    def _note(self, texts: list[str]) -> None:
        self.found += texts


def _options(request: Request) -> WriteOptions:
    user_agent = request.headers.get("user-agent", "")
    return read_write_options(request.query_params, user_agent, _OPTIONS_OF[request.method])


def _write(options: WriteOptions, target: Target, *, applied: bool = False) -> Write:
    return Write(
        subresource=target.subresource,
        manager=options.manager,
        dry_run=options.dry_run,
        applied=applied,
    )


def _check_named(obj: Object, target: Target) -> None:
    """Refuses an object without a name: whoever left that out meant to send something else.

    Raises:
        StatusError: ``BadRequest``.
    """
    metadata = obj.get("metadata")
    if not metadata or (isinstance(metadata, dict) and not metadata.get("name")):
        message = f"the name of the object ({target.name} based on URL) was undeterminable"
        raise StatusError("BadRequest", f"{message}: name must be provided")


def _patch_type(request: Request, kind: Kind) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    known = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not kind.group:  # the API server knows merge keys of its own kinds alone
        known.insert(2, STRATEGIC_PATCH)
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
    return lambda old: strategic_merge_patch(old, patch, _shape(kind))


@functools.cache
def _shape(kind: Kind) -> Shape:
    return Shape.of(knative.SCHEMA_OF[kind.resource], knative.SCHEMAS)
