"""Paged lists: all pages of a list show the same resource version.

Source:
    Kubernetes API concepts, "Resource versions" and "Retrieving large results sets in chunks".
"""

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from distributary.access import Identity
from distributary.knative.apiserver.http._moments import Moment, Moments
from distributary.knative.apiserver.http._options import ListOptions
from distributary.knative.apiserver.http._view import ListPage, ListView
from distributary.knative.apiserver.machinery import Cause, StatusError
from distributary.knative.apiserver.objects import Objects, Stored

SLICE: Final = 1_000
"""Objects matched before yielding to the event loop: some milliseconds."""


_PAGE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You must start a new list without the continue parameter."
)


class _Token(msgspec.Struct):
    """Content of a ``continue`` token; opaque to clients.

    Attributes:
        version: Of the list.
        namespace: Of the last object of the previous page.
        name: Of that object.
    """

    version: int
    namespace: str
    name: str


class Lists:
    """Lists of *objects*, paged."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._moments = Moments()
        objects.on_change(self._moments.note)

    async def page(self, view: ListView, options: ListOptions, reader: Identity) -> ListPage:
        """The page of the list that *options* select, for *reader*.

        Raises:
            StatusError: ``Expired``: that version is no longer kept. ``Timeout``: there is no such
                version yet. ``BadRequest``: the token is invalid.
        """
        if options.token:
            token = _read_token(options.token)
            moment, items = self._moment_of(view, options, token, reader)
            begin = bisect_right(items, (token.namespace, token.name), key=_place)
        else:
            moment, items = self._first(view, options, reader)
            begin = 0
        page = await _cut(view, moment.version, items, begin, options.limit)
        if page.token:
            self._moments.keep(moment, reader, items)
        return page

    def check_version(self, wanted: int | None) -> None:
        """Refuse a version newer than the newest.

        Raises:
            StatusError: ``Timeout``, as from the API server after waiting for that version.
        """
        newest = self._objects.version
        if wanted is not None and wanted > newest:
            message = f"Too large resource version: {wanted}, current: {newest}"
            cause = Cause("", "ResourceVersionTooLarge", "Too large resource version")
            raise StatusError("Timeout", message, causes=[cause], retry_after_s=1)

    def _first(
        self, view: ListView, options: ListOptions, reader: Identity
    ) -> tuple[Moment, Sequence[Stored]]:
        """The snapshot for a first page."""
        self.check_version(options.version)
        exact = options.match == "Exact" or (options.limit > 0 and not options.match)
        found = self._list_at(view, (options.version or None) if exact else None, reader)
        if found is None:
            newest = self._objects.version
            message = f"too old resource version: {options.version} ({newest})"
            raise StatusError("Expired", message)
        return found

    def _moment_of(
        self, view: ListView, options: ListOptions, token: _Token, reader: Identity
    ) -> tuple[Moment, Sequence[Stored]]:
        """The snapshot for a further page."""
        if options.version:
            message = "specifying resource version is not allowed when using continue"
            raise StatusError("BadRequest", message)
        found = self._list_at(view, token.version, reader)
        if found is None:
            raise StatusError("Expired", _PAGE_EXPIRED)
        return found

    def _list_at(
        self, view: ListView, version: int | None, reader: Identity
    ) -> tuple[Moment, Sequence[Stored]] | None:
        """The snapshot of *version* (None: now), if it is kept for *reader*."""
        newest = self._objects.version
        moment = Moment(reader.name, view.kind.resource, view.namespace, version or newest)
        found = self._moments.find(moment)
        if found is None and moment.version == newest:
            found, _ = self._objects.list(view.kind, view.namespace)
        return None if found is None else (moment, found)


async def _cut(
    view: ListView, version: int, items: Sequence[Stored], begin: int, limit: int
) -> ListPage:
    """The page of *items*, a list in *version*, that begins at *begin*."""
    if begin == 0 and not limit and not view.selects:
        return ListPage(items, version)
    picked: list[Stored] = []
    for at in range(begin, len(items)):
        if at % SLICE == SLICE - 1:  # whether picked or not: matching takes the time
            await asyncio.sleep(0)
        if not view.picks(items[at].content):
            continue
        if limit and len(picked) == limit:
            token = _Token(version, *_place(picked[-1]))
            remaining = None if view.selects else len(items) - at
            return ListPage(picked, version, _write_token(token), remaining)
        picked.append(items[at])
    return ListPage(picked, version)


def _place(stored: Stored) -> tuple[str, str]:
    return stored.key.namespace, stored.key.name


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise StatusError("BadRequest", "continue key is not valid") from error
