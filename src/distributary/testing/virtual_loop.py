"""An event loop in virtual time: it never waits, its clock moves to whatever is due next.

Called by tests of what uses asyncio's own timers, tasks and timeouts. Everything else is asyncio's,
so that the order of callbacks is that of the real thing. No network: there is nothing to wait for.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from distributary.testing.virtual import VirtualClock

Returned = TypeVar("Returned")

RESOLUTION_S: Final = 1e-6
"""Timers that are due within this are due now: adding up floats may miss a time by less."""


class DeadlockError(Exception):
    """Everything waits, and nothing will ever happen."""


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
