"""Watches: streaming responses with one JSON line for each change.

Equal views share encoded lines. Each watcher costs a cursor, two tasks and its unwritten lines; one
that reads too slowly falls behind the window of changes, gets 410 and starts again.

Source:
    Kubernetes API concepts, "Efficient detection of changes", "Watch bookmarks", "Streaming lists".
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from distributary.access import Identity
from distributary.core.clock import Clock, Random
from distributary.knative.apiserver.http._answers import as_status
from distributary.knative.apiserver.http._negotiation import JSON
from distributary.knative.apiserver.http._open_lists import OpenLists
from distributary.knative.apiserver.http._options import ListOptions
from distributary.knative.apiserver.http._requests import left
from distributary.knative.apiserver.http._view import ListView, error_line
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.status import status_of
from distributary.knative.apiserver.objects import ObjectChange, Objects, Stored, Watch

WATCH_S: Final = 1800.0
"""Shortest default length of a watch, seconds; drawn up to twice that, so that clients which began
together do not reconnect together (kube-apiserver's value)."""

BOOKMARK_S: Final = 60.0
"""Interval between bookmarks, seconds (kube-apiserver: about a minute)."""

SHARED_MAX: Final = 256
"""Encoded runs of changes cached for further watchers of the same view."""

SHARED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size of that cache, bytes; a hundred of the largest objects would exceed it."""


_log = structlog.get_logger(__name__)


class SharedLines:
    """A cache of encoded lines, shared by all watches with equal views."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._size_bytes = 0

    def of(self, view: ListView, changes: Sequence[ObjectChange], now_ms: int) -> bytes:
        """``ListView.lines``, cached."""
        key = (view.key, changes[0].stored.version, changes[-1].stored.version, len(changes))
        lines = self._runs.get(key)
        if lines is None:
            lines = self._runs[key] = view.lines(changes, now_ms)
            self._size_bytes += len(lines)
            while len(self._runs) > SHARED_MAX or self._size_bytes > SHARED_BYTES_MAX:
                self._size_bytes -= len(self._runs.popitem(last=False)[1])
        return lines


class Watches:
    """All open watches.

    Args:
        objects: The objects to watch.
        open_lists: Bounds the lists that watches begin with.
        clock: For ends, bookmarks and ages.
        random: Spreads the ends.
    """

    def __init__(
        self, objects: Objects, open_lists: OpenLists, clock: Clock, random: Random
    ) -> None:
        self._objects = objects
        self._open_lists = open_lists
        self._clock = clock
        self._random = random
        self._shared = SharedLines()
        self._open: set[Stream] = set()
        self._closed = False

    def begin(self, view: ListView, options: ListOptions, reader: Identity) -> Response:
        """The response that streams *view*'s changes. Errors are sent as a line of it."""
        wait_s = options.timeout_s or WATCH_S * (1 + self._random.unit())
        end_s = self._clock.monotonic_s() + wait_s
        return Stream(self._lines(view, options, reader, end_s), self._open)

    def close(self) -> None:
        """End every watch; new ones end at once."""
        self._closed = True
        for stream in tuple(self._open):
            stream.end()

    async def _lines(
        self, view: ListView, options: ListOptions, reader: Identity, end_s: float
    ) -> AsyncGenerator[bytes, None]:
        try:
            async for lines in self._changes(view, options, reader, end_s):
                yield lines
                del lines  # the next ones may come much later
        except StatusError as error:
            yield error_line(status_of(error, view.kind))
        # The response has begun: report a bug as a line.
        except Exception as error:  # noqa: BLE001 - see above
            _log.exception("watch-crashed", resource=view.kind.resource)
            yield error_line(status_of(as_status(error), view.kind))

    async def _changes(
        self, view: ListView, options: ListOptions, reader: Identity, end_s: float
    ) -> AsyncGenerator[bytes, None]:
        wall_ms, now_s = self._clock.wall_ms, self._clock.monotonic_s
        watch, standing = self._open_watch(view, options)
        try:
            runs = self._open_lists.read(view, watch.version, standing, reader)
            del standing  # let objects be freed while the watch is open
            for some in runs:
                lines = view.added(some, wall_ms())
                del some  # and while its client does not read
                yield lines
                del lines
                await asyncio.sleep(0)  # selectors may match nothing, then nothing awaits
            if options.initial and options.bookmarks:
                yield view.bookmark(watch.version, initial_end=True)
            due_s = now_s() + BOOKMARK_S
            while (left_s := end_s - now_s()) > 0 and not self._closed:
                yield await self._next_lines(view, watch, min(left_s, due_s - now_s()))
                if now_s() >= due_s:
                    due_s = now_s() + BOOKMARK_S
                    if options.bookmarks:
                        yield view.bookmark(watch.version)
            if options.bookmarks:
                yield view.bookmark(watch.version)
        finally:
            watch.close()

    async def _next_lines(self, view: ListView, watch: Watch, wait_s: float) -> bytes:
        """Lines for the next changes, which are released; empty: none came within *wait_s*."""
        changes = await watch.changes(max(0.0, wait_s))
        return self._shared.of(view, changes, self._clock.wall_ms()) if changes else b""

    def _open_watch(self, view: ListView, options: ListOptions) -> tuple[Watch, Sequence[Stored]]:
        """Open the cursor; returns it and the initial objects."""
        version = options.version or 0
        wanted = options.initial if options.initial is not None else version == 0
        if version and not wanted:
            return self._objects.watch(view.kind, view.namespace, version), ()
        if version > self._objects.version:
            # The watch raises the same error as without initial events.
            return self._objects.watch(view.kind, view.namespace, version), ()
        standing, newest = self._objects.list(view.kind, view.namespace)
        watch = self._objects.watch(view.kind, view.namespace, newest)
        return watch, standing if wanted else ()


class Stream(Response):
    """A streaming response: ends with *lines*, when the client disconnects, or by ``end``.

    Args:
        lines: Pieces of the body.
        register: Contains the stream while it is open.
    """

    media_type = JSON

    def __init__(self, lines: AsyncGenerator[bytes, None], register: set["Stream"]) -> None:
        super().__init__(media_type=JSON)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache, private"
        self._lines = lines
        self._register = register
        self._writing: asyncio.Task[None] | None = None

    def end(self) -> None:
        """End the response soon."""
        if self._writing is not None:
            self._writing.cancel()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (ASGI)."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        self._writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(left(receive))
        tasks = (self._writing, leaving)
        self._register.add(self)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            stays = not leaving.done()
        finally:
            self._register.discard(self)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if stays:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        async with contextlib.aclosing(self._lines) as pieces:
            async for piece in pieces:
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                del piece  # as above
