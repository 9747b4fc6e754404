"""Virtual time: a manually advanced clock, and timers that fire as it moves.

Called by tests and simulations. Deterministic: timers that are due at the same time fire in the
order in which they were set.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Final

STEPS_MAX: Final = 1_000_000
"""Timers that one ``run_until_idle`` fires before it declares that the program never rests."""


class VirtualClock:
    """A clock that moves only manually.

    Args:
        wall_ms: What the wall clock shows at the start, milliseconds since 1970.
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_s = 0.0
        self._wall_start_ms = wall_ms

    def monotonic_s(self) -> float:
        """Seconds since this clock was made."""
        return self._monotonic_s

    def wall_ms(self) -> int:
        """The wall clock, which moves with the monotonic one unless ``jump`` moves it."""
        return self._wall_start_ms + round(self._monotonic_s * 1000)

    def move_to(self, monotonic_s: float) -> None:
        """Move both clocks forward to that monotonic time."""
        assert monotonic_s >= self._monotonic_s
        self._monotonic_s = monotonic_s

    def jump(self, wall_ms: int) -> None:
        """Set the wall clock by that many milliseconds, forward or back, as people do."""
        self._wall_start_ms += wall_ms


class VirtualTimer:
    """A timer that waits in ``VirtualTimers``."""

    __slots__ = ("due_s", "fn")

    def __init__(self, due_s: float, fn: Callable[[], None]) -> None:
        self.due_s = due_s
        self.fn: Callable[[], None] | None = fn

    def cancel(self) -> None:
        """Make sure that the function is not called."""
        self.fn = None


class VirtualTimers:
    """Timers on a ``VirtualClock``; satisfies ``deliver.Timers``.

    Args:
        clock: The clock that ``advance`` moves.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, int, VirtualTimer]] = []
        self._order = itertools.count()

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> VirtualTimer:
        """Call *fn* when the clock has moved by *delay_s* seconds."""
        assert delay_s >= 0.0
        timer = VirtualTimer(self._clock.monotonic_s() + delay_s, fn)
        heapq.heappush(self._waiting, (timer.due_s, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock by *seconds*, firing what falls due on the way, each at its time."""
        until_s = self._clock.monotonic_s() + seconds
        while self._fire_next(until_s):
            pass
        # One of them may have waited beyond that time itself.
        self._clock.move_to(max(until_s, self._clock.monotonic_s()))

    def now_s(self) -> float:
        """The monotonic time."""
        return self._clock.monotonic_s()

    def run_until_idle(self, until_s: float = float("inf")) -> None:
        """Fire timers until none is left, or none before the monotonic time *until_s*.

        Raises:
            AssertionError: The timers keep setting each other for ever.
        """
        for _ in range(STEPS_MAX):
            if not self._fire_next(until_s):
                return
        raise AssertionError(f"still busy after {STEPS_MAX} timers")

    def _fire_next(self, until_s: float) -> bool:
        """Fire the first timer that is due by *until_s*; False: there is none."""
        while self._waiting and self._waiting[0][0] <= until_s:
            due_s, _, timer = heapq.heappop(self._waiting)
            fn, timer.fn = timer.fn, None
            if fn is not None:
                self._clock.move_to(max(due_s, self._clock.monotonic_s()))
                fn()
                return True
        return False


class SeededRandom:
    """Chance from a seed; satisfies ``clock.Random``.

    Args:
        seed: The same seed gives the same numbers.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable chance for tests

    def unit(self) -> float:
        """A number x with ``0.0 <= x < 1.0``."""
        return self._random.random()
