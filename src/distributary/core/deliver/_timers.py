"""Timers as a port, so that tests run queues in virtual time."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Prevent the call; does nothing if it has been made."""


class Timers(Protocol):
    """Delayed calls on the thread of the queues."""

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> TimerHandle:
        """Call *fn* once after *delay_s* seconds (0 or more), never from inside this call."""


class Soon:
    """A coalesced callback: many requests, one delayed call.

    Args:
        timers: Make the call, never from inside ``ask``.
        fn: The callback; it may request another call.
    """

    __slots__ = ("_fn", "_timers", "due")

    def __init__(self, timers: Timers, fn: Callable[[], None]) -> None:
        self._timers = timers
        self._fn = fn
        self.due = False
        """Whether a call is pending."""

    def ask(self, delay_s: float = 0.0) -> None:
        """Call after *delay_s* seconds, unless a call is pending."""
        if not self.due:
            self.due = True
            self._timers.call_later(delay_s, self._call)

    def _call(self) -> None:
        self.due = False
        self._fn()


class LoopTimers:
    """Timers of an event loop; use them only on the loop's thread.

    Args:
        loop: The loop that runs the transports.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> TimerHandle:
        """Call *fn* once on the loop after *delay_s* seconds."""
        return self._loop.call_later(max(0.0, delay_s), fn)
