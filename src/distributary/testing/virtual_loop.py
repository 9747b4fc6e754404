"""An event loop in virtual time: instead of waiting, it moves its clock to the next timer.

Called by tests of code that uses asyncio's timers, tasks and timeouts. The rest is asyncio's, so
the order of callbacks is the real one. No network.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from distributary.testing.virtual import VirtualClock

Returned = TypeVar("Returned")

RESOLUTION_S: Final = 1e-6
"""Timers due within this are due now: rounding errors are smaller."""


class DeadlockError(Exception):
    """All tasks wait, and nothing can wake them."""


class _NoWait(selectors.SelectSelector):
    """A selector that moves the clock instead of waiting."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("no timer is set and no callback is ready")
        if timeout > 0.0:
            self._clock.move_to(self._clock.monotonic_s() + timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a ``VirtualClock``.

    Args:
        clock: Moves as the loop runs.

    Attributes:
        clock: The same.
        complaints: What was passed to the exception handler.
    """

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        super().__init__(_NoWait(self.clock))
        # Private, but asked for in no other way; without it a timer may need one turn more.
        self._clock_resolution = RESOLUTION_S
        self.complaints: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.complaints.append(context))

    def time(self) -> float:
        """Seconds of the clock."""
        return self.clock.monotonic_s()


def run(main: Coroutine[Any, Any, Returned], loop: VirtualLoop) -> Returned:
    """Run *main* to its end on *loop*, then close it.

    Raises:
        DeadlockError: *main* waits for what never comes.
        AssertionError: Something was passed to the loop's exception handler, or tasks are left.
    """
    try:
        returned = loop.run_until_complete(main)
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks are left: {left}"
        assert not loop.complaints, loop.complaints
        return returned
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.close()
