"""Reading: one object, and lists in pages that show one and the same moment.

Source:
    Kubernetes API concepts, "Resource versions" and "Retrieving large results sets in chunks".
"""

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from distributary.knative.apiserver.http._options import ListOptions
from distributary.knative.apiserver.http._view import ListPage, ListView
from distributary.knative.apiserver.machinery import Cause, StatusError
from distributary.knative.apiserver.objects import Objects, Stored

MOMENTS_MAX: Final = 16
"""Lists that are being read in pages and kept as they stood. Their objects are shared with the
store as long as they do not change; an older list that goes on gets 410 and begins anew."""

SLICE: Final = 1_000
"""Objects that are looked at in one turn of the event loop: some milliseconds."""


_PAGE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You must start a new list without the continue parameter."
)


class _Token(msgspec.Struct):
    """What ``continue`` holds; opaque to clients.

    Attributes:
        version: Of the list.
        namespace: Of the last object of the page before.
        name: Of that object.
    """

    version: int
    namespace: str
    name: str


class _Moment(NamedTuple):
    """A list of a kind as it stood."""

    resource: str
    namespace: str | None
    version: int


class Lists:
    """Lists of *objects*, paged."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._moments: OrderedDict[_Moment, Sequence[Stored]] = OrderedDict()

    async def page(self, view: ListView, options: ListOptions) -> ListPage:
        """The part of the list that *options* ask for.

        Raises:
            StatusError: ``Expired``: that moment is gone. ``Timeout``: it has not come yet.
                ``BadRequest``: the token is none of ours.
        """
        if options.token:
            token = _read_token(options.token)
            moment, items = self._moment_of(view, options, token)
            begin = bisect_right(items, (token.namespace, token.name), key=_place)
        else:
            moment, items = self._first(view, options)
            begin = 0
        return await self._cut(view, moment, items, begin, options.limit)

    def check_version(self, wanted: int | None) -> None:
        """Refuses a version that was not given out yet.

        Raises:
            StatusError: ``Timeout``, as the API server says after having waited for it.
        """
        newest = self._objects.version
        if wanted is not None and wanted > newest:
            message = f"Too large resource version: {wanted}, current: {newest}"
            cause = Cause("", "ResourceVersionTooLarge", "Too large resource version")
            raise StatusError("Timeout", message, causes=[cause], retry_after_s=1)

    def _first(self, view: ListView, options: ListOptions) -> tuple[_Moment, Sequence[Stored]]:
        """The list that the first page is of."""
        self.check_version(options.version)
        exact = options.match == "Exact" or (options.limit > 0 and not options.match)
        found = self._list_at(view, (options.version or None) if exact else None)
        if found is None:
            newest = self._objects.version
            message = f"too old resource version: {options.version} ({newest})"
            raise StatusError("Expired", message)
        return found

    def _moment_of(
        self, view: ListView, options: ListOptions, token: _Token
    ) -> tuple[_Moment, Sequence[Stored]]:
        """The list that a further page is of."""
        if options.version:
            message = "specifying resource version is not allowed when using continue"
            raise StatusError("BadRequest", message)
        found = self._list_at(view, token.version)
        if found is None:
            raise StatusError("Expired", _PAGE_EXPIRED)
        return found

    def _list_at(
        self, view: ListView, version: int | None
    ) -> tuple[_Moment, Sequence[Stored]] | None:
        """The list as it stood in *version* (None: now), if that moment is kept."""
        newest = self._objects.version
        moment = _Moment(view.kind.resource, view.namespace, version or newest)
        found = self._moments.get(moment)
        if found is None and moment.version == newest:
            found, _ = self._objects.list(view.kind, view.namespace)
        return None if found is None else (moment, found)

    async def _cut(
        self, view: ListView, moment: _Moment, items: Sequence[Stored], begin: int, limit: int
    ) -> ListPage:
        if begin == 0 and not limit and not view.selects:
            return ListPage(items, moment.version)
        picked: list[Stored] = []
        for at in range(begin, len(items)):
            if at % SLICE == SLICE - 1:  # whatever is picked: looking is what takes the time
                await asyncio.sleep(0)
            if not view.picks(items[at].content):
                continue
            if limit and len(picked) == limit:
                self._keep(moment, items)
                token = _Token(moment.version, *_place(picked[-1]))
                remaining = None if view.selects else len(items) - at
                return ListPage(picked, moment.version, _write_token(token), remaining)
            picked.append(items[at])
        return ListPage(picked, moment.version)

    def _keep(self, moment: _Moment, items: Sequence[Stored]) -> None:
        self._moments[moment] = items
        self._moments.move_to_end(moment)
        if len(self._moments) > MOMENTS_MAX:
            self._moments.popitem(last=False)


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
