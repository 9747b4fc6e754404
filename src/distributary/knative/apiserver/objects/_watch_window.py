"""The bounded window of newest changes, from which all watches are served.

Each kind has its own window, so a watch of Triggers skips no other kind's changes. Readers see
changes once they are *announced*: at once with few readers, and less often the more there are, so
that one wake-up brings each reader several changes.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects._values import ObjectChange

CHANGES_KEPT_MAX: Final = 20_000
"""Changes in the window: 200 s of 100 changes a second (the API server keeps 75 s and more)."""

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Objects in the window, bytes, before and after each change: JSON, and values of Secrets. In
memory JSON needs up to seven times as much."""

WAKE_S: Final = 0.000_25
"""Interval between announcements per watcher, seconds: a wake-up and its response cost the process
some 50 us, so a thousand watchers use at most a fifth of it, and wait 0.25 s at most."""

WAKE_S_MAX: Final = 1.0
"""Longest interval between announcements, however many watch, seconds."""

_WOKEN_AT_ONCE: Final = 50
"""Watchers woken before yielding to the event loop."""


class KindWindow:
    """The newest changes of one kind, by number. A number is never used again.

    Attributes:
        floor: Version of the newest dropped change.
        first: Number of the oldest kept change.
        announced: Readers see the changes before this number.
        watchers: Number of open watches.
        closed: Whether the server stops.
    """

    def __init__(self) -> None:
        self.floor = 0
        self.first = 0
        self.announced = 0
        self.watchers = 0
        self.closed = False
        self._kept: deque[ObjectChange] = deque()
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._announced_s = 0.0

    @property
    def end(self) -> int:
        """Number of the next change."""
        return self.first + len(self._kept)

    def number_after(self, version: int) -> int:
        """Number of the first change that is newer than *version*, which is not below ``floor``."""
        return self.first + bisect_right(
            self._kept, version, key=lambda change: change.stored.version
        )

    def between(self, first: int, end: int) -> list[ObjectChange]:
        """The changes numbered from *first* to before *end*; all must be kept."""
        return [self._kept[number - self.first] for number in range(first, end)]

    def append(self, change: ObjectChange) -> None:
        """Append the newest change; call ``announce_soon`` after it."""
        self._kept.append(change)

    def drop_first(self) -> ObjectChange:
        """Drop the oldest change and return it."""
        change = self._kept.popleft()
        self.first += 1
        self.floor = change.stored.version
        return change

    def drop_all(self, version: int) -> None:
        """Drop everything up to *version*; a skipped number makes all readers expire."""
        self.first = self.end + 1
        self._kept.clear()
        self.floor = version
        self.announce_soon()

    def announce_soon(self) -> None:
        """Announce the changes now, or when the interval since the last announcement is over."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        due_s = self._announced_s + min(WAKE_S_MAX, self.watchers * WAKE_S)
        if due_s <= loop.time():
            self._announce()
        else:
            self._timer = loop.call_at(due_s, self._announce)

    async def wait(self, timeout_s: float) -> None:
        """Return after the next announcement, or *timeout_s*."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[woken] = None
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            self._waiting.pop(woken, None)

    def close(self) -> None:
        """Wake all readers for the last time."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._announce()

    def _announce(self) -> None:
        self._timer = None
        self._announced_s = asyncio.get_running_loop().time()
        self.announced = self.end
        waiting = list(self._waiting)
        self._waiting.clear()
        _wake(waiting, 0)


class WatchWindow:
    """The windows of all kinds, bounded together.

    Args:
        resources: ``Kind.resource`` of each kind.
        changes_max: See ``CHANGES_KEPT_MAX``.
        bytes_max: See ``KEPT_BYTES_MAX``.

    Attributes:
        version: The newest resource version.
    """

    def __init__(
        self,
        resources: Iterable[str],
        *,
        changes_max: int = CHANGES_KEPT_MAX,
        bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self.version = 0
        self._windows = {resource: KindWindow() for resource in resources}
        self._changes_max = changes_max
        self._bytes_max = bytes_max
        # Window of each kept change, oldest first.
        self._order: deque[KindWindow] = deque()
        self._size_bytes = 0

    def publish(self, changes: Sequence[ObjectChange], version: int) -> None:
        """Add the changes of a commit, in order.

        Args:
            changes: Of known kinds.
            version: The newest resource version after them.
        """
        self.version = version
        changed: dict[KindWindow, None] = {}
        for change in changes:
            window = self._windows[change.stored.key.resource]
            window.append(change)
            self._order.append(window)
            self._size_bytes += change.size_bytes
            changed[window] = None
        while len(self._order) > self._changes_max or self._size_bytes > self._bytes_max:
            self._size_bytes -= self._order.popleft().drop_first().size_bytes
        for window in changed:
            window.announce_soon()

    def restart(self, version: int) -> None:
        """Drop all changes: *version* becomes the oldest that can be watched from."""
        self.version = version
        self._order.clear()
        self._size_bytes = 0
        for window in self._windows.values():
            window.drop_all(version)

    def window_from(self, resource: str, version: int) -> KindWindow:
        """The window of a kind, for a reader that has seen all changes up to *version*.

        Raises:
            StatusError: ``Expired``: some later changes are dropped. ``Timeout``: there is no such
                version yet (worded as by the API server: clients list again).
        """
        window = self._windows[resource]
        if version < window.floor:
            raise expired(version, window)
        if version > self.version:
            raise StatusError(
                "Timeout",
                f"Too large resource version: {version}, current: {self.version}",
                retry_after_s=1,
            )
        return window

    def close(self) -> None:
        """Wake all readers; nothing follows."""
        for window in self._windows.values():
            window.close()


def expired(version: int, window: KindWindow) -> StatusError:
    """``Expired``: changes after *version* are dropped; the client lists and watches again."""
    return StatusError("Expired", f"too old resource version: {version} ({window.floor})")


def _wake(waiting: list[asyncio.Future[None]], first: int) -> None:
    end = first + _WOKEN_AT_ONCE
    for woken in waiting[first:end]:
        if not woken.done():
            woken.set_result(None)
    if end < len(waiting):
        asyncio.get_running_loop().call_soon(_wake, waiting, end)
