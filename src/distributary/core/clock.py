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


class Random(Protocol):
    """A random generator that a test can seed."""

    def unit(self) -> float:
        """Return a number x with ``0.0 <= x < 1.0``."""


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
