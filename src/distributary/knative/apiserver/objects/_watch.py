"""A watch: one client's cursor into the window of changes of a kind."""

import asyncio
from typing import Final

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects._values import ObjectChange
from distributary.knative.apiserver.objects._watch_window import WatchWindow, expired

BATCH_MAX: Final = 500
"""Changes returned by one call: with usual objects some 500 KiB."""

BATCH_BYTES_MAX: Final = 256 * 1024
"""JSON of their objects, bytes, if there are several: the lines of a batch are made at once, and
stay in memory while the client does not read."""


class Watch:
    """Iterates over all changes of a kind after a version, in order, each once.

    For one task; needs a few words of memory. Close it when the client leaves.

    Args:
        watch_window: The window of changes.
        resource: ``Kind.resource`` of the watched kind.
        namespace: None: all namespaces.
        from_version: Only changes after this version are returned.

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
        """Version up to which all changes were returned, for bookmarks. Never falls."""
        window = self._window
        if self._next == window.end:
            self._seen = self._ring.version
        elif window.first <= self._next < window.end:
            # One less than the next change of this kind: versions in between are other kinds'.
            self._seen = window.between(self._next, self._next + 1)[0].stored.version - 1
        return self._seen

    async def changes(self, wait_s: float) -> list[ObjectChange]:
        """Return the next changes, in order.

        Args:
            wait_s: Longest wait for the first one, seconds; 0: do not wait.

        Returns:
            At most ``BATCH_MAX`` changes; empty if none came within *wait_s*.

        Raises:
            StatusError: ``Expired``: this reader was too slow, the next changes are dropped.
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
    """The first of *changes*, up to ``BATCH_BYTES_MAX``, at least one."""
    size_bytes = 0
    for count, change in enumerate(changes):
        size_bytes += len(change.stored.json)
        if count and size_bytes > BATCH_BYTES_MAX:
            return changes[:count]
    return changes
