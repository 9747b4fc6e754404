"""A cursor into the window of changes, for one client that watches a kind."""

import asyncio
from typing import Final

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects._values import ObjectChange
from distributary.knative.apiserver.objects._watch_window import WatchWindow, expired

BATCH_MAX: Final = 500
"""Changes that one call gives: with usual objects some 500 KiB."""

BATCH_BYTES_MAX: Final = 256 * 1024
"""JSON of their objects, where there are several: a client that does not read keeps its batch in
memory, and what was encoded of it."""


class Watch:
    """All changes of a kind after a version, in order, each once. Costs a few words of memory.

    For one task. Close it when the client leaves.

    Args:
        watch_window: The window of changes.
        resource: ``Kind.resource`` of what is watched.
        namespace: None: all of them.
        from_version: Changes after this one are given.

    Raises:
        StatusError: As ``WatchWindow.window_from``.
    """

    __slots__ = ("_namespace", "_next", "_open", "_ring", "_seen", "_window")

    def __init__(
        self, watch_window: WatchWindow, resource: str, namespace: str | None, from_version: int
    ) -> None:
        self._ring = watch_window
        self._window = watch_window.window_from(resource, from_version)
        self._namespace = namespace
        self._next = self._window.number_after(from_version)
        self._seen = from_version
        self._open = True
        self._window.watchers += 1

    @property
    def version(self) -> int:
        """Everything up to this version was given: for bookmarks. Never falls."""
        window = self._window
        if self._next == window.end:
            self._seen = self._ring.version
        elif window.first <= self._next < window.end:
            # A version of another kind's change lies between two of ours, or none does.
            self._seen = window.between(self._next, self._next + 1)[0].stored.version - 1
        return self._seen

    async def changes(self, wait_s: float) -> list[ObjectChange]:
        """What follows, in order.

        Args:
            wait_s: How long to wait for the first one, seconds; 0: not at all.

        Returns:
            At least one change and at most ``BATCH_MAX``; none after *wait_s*.

        Raises:
            StatusError: ``Expired``: this reader was too slow, what follows is not kept any more.
                ``ServiceUnavailable``: the server stops.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while True:
            found = self._take()
            left_s = end_s - loop.time()
            if found or left_s <= 0:
                return found
            if self._next >= self._window.announced:
                await self._window.wait(left_s)

    def close(self) -> None:
        """Stop watching."""
        if self._open:
            self._open = False
            self._window.watchers -= 1

    def _take(self) -> list[ObjectChange]:
        window = self._window
        if self._next < window.first:
            raise expired(self._seen, window)
        if window.closed:
            raise StatusError("ServiceUnavailable", "the server is stopping", retry_after_s=1)
        end = min(window.announced, self._next + BATCH_MAX)
        if end <= self._next:
            return []
        found = _bounded(window.between(self._next, end))
        self._next += len(found)
        self._seen = found[-1].stored.version
        if self._namespace is None:
            return found
        return [each for each in found if each.stored.key.namespace == self._namespace]


def _bounded(changes: list[ObjectChange]) -> list[ObjectChange]:
    """The first of *changes*, at least one."""
    size_bytes = 0
    for count, change in enumerate(changes):
        size_bytes += len(change.stored.json)
        if count and size_bytes > BATCH_BYTES_MAX:
            return changes[:count]
    return changes
