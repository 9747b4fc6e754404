"""Waiting as a port, so that queues run in virtual time in tests."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A wait that can be called off."""

    def cancel(self) -> None:
        """Make sure that the function is not called; harmless when it has been."""


class Timers(Protocol):
    """Calls functions later, on the thread that runs the queues."""

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> TimerHandle:
        """Call *fn* once after *delay_s* seconds (0 or more), never from inside this call."""


class Soon:
    """A call that is made once, however often it is asked for until then.

    Args:
        timers: Make it, never from inside ``ask``.
        fn: What is called. It may ask again.
    """

    __slots__ = ("_fn", "_timers", "due")

    def __init__(self, timers: Timers, fn: Callable[[], None]) -> None:
        self._timers = timers
        self._fn = fn
        self.due = False
        """Whether it is asked for and not made yet."""

    def ask(self, delay_s: float = 0.0) -> None:
        """Make the call after *delay_s* seconds, unless it is due already."""
        if not self.due:
            self.due = True
            self._timers.call_later(delay_s, self._call)

    def _call(self) -> None:
        self.due = False
        self._fn()


class LoopTimers:
    """Timers of an event loop. Use them on the loop's own thread alone.

    Args:
        loop: The loop that runs the transports.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> TimerHandle:
        """Call *fn* once on the loop after *delay_s* seconds."""
        return self._loop.call_later(max(0.0, delay_s), fn)
