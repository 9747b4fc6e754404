"""A timer wheel: deadlines of many connections or attempts, with one timer."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

TICK_S: Final = 0.05
"""Step of the wheel: a deadline is precise to two steps, 100 ms, and setting one costs a comparison
instead of a timer."""

_LOOK_S_MAX: Final = 5.0
"""Longest time between two checks of an entry, which bounds the lifetime of outdated entries."""

_TICKS_LATE_MAX: Final = 3
"""A turn that covers more steps than this means that the loop was blocked."""

_EARLY_S: Final = 0.001
"""How much too early the timers of an event loop may be: a step must be over at its turn."""

_LOOK_TICKS_MAX: Final = int(_LOOK_S_MAX / TICK_S)


class Watched(Protocol):
    """An entry of the wheel.

    Attributes:
        due_s: When ``expire`` is due; may change at any time. Call ``Wheel.watch`` where it moves
            before ``slot``.
        slot: The step of the next check; set by the wheel.
    """

    due_s: float
    slot: int

    def expire(self, now_s: float) -> bool:
        """Handle the deadline; called once ``due_s`` has passed.

        Returns:
            Whether to continue watching, with the current ``due_s``.
        """


class Wheel:
    """Calls ``expire`` of each entry once its ``due_s`` has passed.

    Sleeps until the first step that has entries: a wheel of idle connections turns every 5 s.

    Args:
        loop: Runs the steps.
        monotonic_s: The clock of ``due_s``.
    """

    __slots__ = ("_armed", "_late", "_loop", "_monotonic_s", "_slots", "_tick", "_timer", "now_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic_s: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._slots: dict[int, dict[Watched, None]] = {}
        self._tick = 0
        self._late = False
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0  # the step of the timer
        self.now_s = monotonic_s()  # at most ``_LOOK_S_MAX`` old: good enough for idle times

    def watch(self, watched: Watched) -> None:
        """Add *watched*; it is checked when its ``due_s`` has passed, or earlier."""
        if self._timer is None:
            self.now_s = self._monotonic_s()
            self._tick = int(self.now_s / TICK_S)
        tick = min(int(watched.due_s / TICK_S) + 1, self._tick + _LOOK_TICKS_MAX)
        tick = max(tick, self._tick + 1)
        watched.slot = tick
        slot = self._slots.get(tick)
        if slot is None:
            self._slots[tick] = {watched: None}
            self._arm(tick)
        else:
            slot[watched] = None

    def _arm(self, tick: int) -> None:
        """Turn when the step *tick* is over, at the latest."""
        if self._timer is not None:
            if self._armed <= tick:
                return
            self._timer.cancel()
        self._armed = tick
        delay_s = max(0.0, tick * TICK_S - self._monotonic_s()) + _EARLY_S
        self._timer = self._loop.call_later(delay_s, self._turn)

    def forget(self, watched: Watched) -> None:
        """Remove *watched*; harmless where it is absent."""
        slot = self._slots.get(watched.slot)
        if slot is not None:
            slot.pop(watched, None)

    def _turn(self) -> None:
        now_s = self._monotonic_s()
        self.now_s = now_s
        self._timer = None
        until = int(now_s / TICK_S)
        if until - self._armed >= _TICKS_LATE_MAX and not self._late:
            # The loop was blocked, and has not yet read what arrived meanwhile: wait one step
            # before anything counts as late.
            self._late = True
            self._arm(until + 1)
            return
        self._late = False
        due = self._take_until(until)
        for watched in due:
            if watched.due_s > now_s:
                self.watch(watched)
            else:
                # Each in its own callback, so that a failure affects no other.
                self._loop.call_soon(self._expire, watched)
        if self._slots:
            self._arm(min(self._slots))

    def _take_until(self, until: int) -> list[Watched]:
        """Remove the entries of all steps up to *until*, and return them."""
        steps = [tick for tick in self._slots if tick <= until]
        self._tick = until
        return [
            watched
            for tick in sorted(steps)
            for watched in self._slots.pop(tick)
            if watched.slot == tick  # else it was watched again for another tick
        ]

    def _expire(self, watched: Watched) -> None:
        if watched.due_s > self.now_s or watched.expire(self.now_s):
            self.watch(watched)

    def close(self) -> None:
        """Stop the timer and remove all entries."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._slots.clear()
