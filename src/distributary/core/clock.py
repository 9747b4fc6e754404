"""Ports for time and randomness, so that every test can run in virtual time from a seed.

Callers: every package that waits, stamps or draws. Hides: the machine's clocks and generator.
"""

import random
import time
from typing import Final, Protocol

LEAP_S: Final = 60.0
"""How far the wall clock may move beside the monotonic one between two looks: corrections are
smaller."""

TRUST_S: Final = 3_600.0
"""How long nothing ends by its age after a leap of the wall clock: time for it to be set right."""


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


class AgeClock:
    """The wall clock, by which ages are told: not while it may be wrong.

    A clock that is a month ahead for a moment would end whatever has an age.

    Args:
        clock: The clocks.
        from_start: Whether the wall clock counts from the start on; else an hour later, for what a
            machine keeps for so long that it may start anew with a clock that is not set yet.
    """

    def __init__(self, clock: Clock, *, from_start: bool) -> None:
        self._clock = clock
        self._apart_s: float | None = None  # the wall clock less the monotonic one
        self._trusted_from_s = float("-inf") if from_start else clock.monotonic_s() + TRUST_S

    def now_ms(self) -> int:
        """Returns the time, milliseconds; 0 while it may be wrong. Ask every ten seconds or so."""
        wall_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s()
        apart_s = wall_ms / 1000 - now_s
        if self._apart_s is not None and abs(apart_s - self._apart_s) > LEAP_S:
            self._trusted_from_s = now_s + TRUST_S
        self._apart_s = apart_s
        return wall_ms if now_s >= self._trusted_from_s else 0


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
