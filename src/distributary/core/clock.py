"""Ports for time and chance, so that every test can run in virtual time from a seed.

Callers: every room that waits, stamps or draws. Hides: the machine's clocks and generator.
"""

import random
import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that only goes forward, one that people read."""

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes backwards. For waits and durations."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z; may jump. For stamps, never for waits."""


class Random(Protocol):
    """A source of chance that a test can seed."""

    def unit(self) -> float:
        """A number x with ``0.0 <= x < 1.0``."""


class SystemClock:
    """The machine's own clocks."""

    monotonic_s = staticmethod(time.monotonic)
    """Seconds of the machine's monotonic clock. Asked some times an event: a call less each."""

    def wall_ms(self) -> int:
        """Milliseconds of the machine's wall clock."""
        return time.time_ns() // 1_000_000


class SystemRandom:
    """The interpreter's generator; not for secrets."""

    def unit(self) -> float:
        """A number x with ``0.0 <= x < 1.0``."""
        return random.random()  # noqa: S311 - jitter, not cryptography
