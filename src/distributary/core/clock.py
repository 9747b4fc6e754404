"""Ports for time and randomness, so that every test can run in virtual time from a seed.

Callers: every package that waits, stamps or draws. Hides: the machine's clocks and generator.
"""

import random
import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock and a wall clock."""

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start; never goes backwards. For waits and durations."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z; may jump. For stamps, never for waits."""


def until_next_s(period_s: float, now_s: float) -> float:
    """Returns the seconds until the next multiple of *period_s* on the clock that says *now_s*.

    Loops that wait so, with periods that divide one another, wake their process together: most of
    what an idle server costs is waking up. A multiple that is very near counts as now.
    """
    wait_s = period_s - now_s % period_s
    return wait_s if wait_s > period_s / 10 else wait_s + period_s


class Random(Protocol):
    """A random generator that a test can seed."""

    def unit(self) -> float:
        """Return a number x with ``0.0 <= x < 1.0``."""


def boot_s() -> float:
    """Seconds since the machine started, those that it slept included; the same in each process.

    Nobody sets this clock, and it does not stand while the machine is suspended: by it a process
    knows that others may have taken it for dead.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SystemClock:
    """The machine's own clocks."""

    monotonic_s = staticmethod(time.monotonic)
    """Seconds of the monotonic clock. Read several times an event: an alias saves a call each."""

    def wall_ms(self) -> int:
        """Return milliseconds of the machine's wall clock."""
        return time.time_ns() // 1_000_000


class SystemRandom:
    """The interpreter's generator; not for secrets."""

    def unit(self) -> float:
        """Return a number x with ``0.0 <= x < 1.0``."""
        return random.random()  # noqa: S311 - jitter, not cryptography
