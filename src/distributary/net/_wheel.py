"""Deadlines of many connections, or of many attempts, with one timer."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

TICK_S: Final = 0.05
"""Connections are looked at in steps of this length: a deadline is kept to within two steps,
100 ms, and setting one costs a comparison instead of a timer."""

_LOOK_S_MAX: Final = 5.0
"""A connection is looked at this often at least, so that a place in the wheel that an earlier
deadline has made useless is forgotten soon."""

_TICKS_LATE_MAX: Final = 3
"""A turn that covers more ticks than this means that the loop did not run for a while."""

_LOOK_TICKS_MAX: Final = int(_LOOK_S_MAX / TICK_S)


class Watched(Protocol):
    """What the wheel watches.

    Attributes:
        due_s: When ``expire`` is due; may move at any time, ``Wheel.watch`` is called when it
            has moved to before ``slot``.
        slot: The tick at which the wheel looks next; the wheel's own note.
    """

    due_s: float
    slot: int

    def expire(self, now_s: float) -> bool:
        """Take note that ``due_s`` has passed.

        Returns:
            Whether to watch on (with the ``due_s`` that stands then).
        """


class Wheel:
    """Calls ``expire`` of each that it watches once its ``due_s`` has passed.

    Args:
        loop: Runs the ticks.
        monotonic_s: The clock of ``due_s``.
    """

    __slots__ = ("_late", "_loop", "_monotonic_s", "_slots", "_tick", "_timer", "now_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic_s: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._slots: dict[int, dict[Watched, None]] = {}
        self._tick = 0
        self._late = False
        self._timer: asyncio.TimerHandle | None = None
        self.now_s = monotonic_s()  # as of the last tick: good enough for idle times

    def watch(self, watched: Watched) -> None:
        """Look at *watched* when its ``due_s`` has passed, or some seconds from now."""
        if self._timer is None:
            self.now_s = self._monotonic_s()
            self._tick = int(self.now_s / TICK_S)
            self._timer = self._loop.call_later(TICK_S, self._turn)
        tick = min(int(watched.due_s / TICK_S) + 1, self._tick + _LOOK_TICKS_MAX)
        tick = max(tick, self._tick + 1)
        watched.slot = tick
        slot = self._slots.get(tick)
        if slot is None:
            self._slots[tick] = {watched: None}
        else:
            slot[watched] = None

    def forget(self, watched: Watched) -> None:
        """Look at *watched* no more; harmless where it is not watched."""
        slot = self._slots.get(watched.slot)
        if slot is not None:
            slot.pop(watched, None)

    def _turn(self) -> None:
        now_s = self._monotonic_s()
        self.now_s = now_s
        self._timer = self._loop.call_later(TICK_S, self._turn)
        until = int(now_s / TICK_S)
        if until - self._tick > _TICKS_LATE_MAX and not self._late:
            # The loop was held up. What has come in meanwhile has not been read yet: give it
            # one tick before anything is declared late.
            self._late = True
            return
        self._late = False
        due = [
            watched
            for tick in range(self._tick + 1, until + 1)
            for watched in self._slots.pop(tick, ())
            if watched.slot == tick  # else it was watched again for another tick
        ]
        self._tick = until
        for watched in due:
            if watched.due_s > now_s:
                self.watch(watched)
            else:
                # By itself, so that a failing callback harms nobody else.
                self._loop.call_soon(self._expire, watched)
        if not self._slots and not due:
            self._timer.cancel()
            self._timer = None

    def _expire(self, watched: Watched) -> None:
        if watched.due_s > self.now_s or watched.expire(self.now_s):
            self.watch(watched)

    def close(self) -> None:
        """Stop ticking and forget everything."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._slots.clear()
