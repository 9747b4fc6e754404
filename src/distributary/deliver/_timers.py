"""Waiting as a port, so that lanes run in virtual time in tests."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A wait that can be called off."""

    def cancel(self) -> None:
        """Make sure that the function is not called; harmless when it has been."""
        ...


class Timers(Protocol):
    """Calls functions later, on the thread that runs the lanes."""

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> TimerHandle:
        """Call *fn* once after *delay_s* seconds (0 or more), never from inside this call."""
        ...


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
