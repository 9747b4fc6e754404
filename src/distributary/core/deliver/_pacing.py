"""How many attempts of one sink run at once, and how many start a second.

Called by ``_queue`` and ``_paced`` alone. Hides the two control laws; pure arithmetic on times that
it is given.
"""

from typing import Final

CONCURRENCY_FIRST: Final = 4.0
"""Where a new sink starts: it doubles within one round trip when it answers, and a thousand new
sinks that hang hold no more than 4,000 connections."""

CONCURRENCY_MAX: Final = 64
"""Most attempts in flight to one sink: enough for 6,000/s at 10 ms, and what a small server
still answers without queueing."""

BROKER_CONCURRENCY_MAX: Final = 512
"""The same for one place at a broker. Its answers come in batches over one connection, made to be
kept full: with 64 a batch that waits 5 ms would mean 12,800/s at most. Half a megabyte of events of
1 KB in flight."""

BURST_S: Final = 0.1
"""A rate limit may be run ahead of by this many seconds' worth, so that the coarseness of
timers does not lower the rate. At 1/s that is nothing; at 1,000/s 100 attempts."""


class Concurrency:
    """Additive increase, multiplicative decrease, with a slow start, as TCP does it.

    Args:
        limit_max: Most attempts in flight.

    Attributes:
        limit: How many attempts may be in flight, 1 to *limit_max*.
    """

    __slots__ = ("_decreased_at_s", "_limit_max", "_slow_start", "_value", "limit")

    def __init__(self, limit_max: int = CONCURRENCY_MAX) -> None:
        self._limit_max = limit_max
        self._value = CONCURRENCY_FIRST
        self._slow_start = True
        self._decreased_at_s = float("-inf")
        self.limit = int(CONCURRENCY_FIRST)

    def grow(self) -> None:
        """An attempt succeeded while others waited for a place."""
        if self.limit >= self._limit_max:
            return
        self._value += 1.0 if self._slow_start else 1.0 / self._value
        self.limit = int(self._value)

    def shrink(self, started_s: float, now_s: float) -> None:
        """An attempt found the sink overloaded or silent.

        Of the attempts that were in flight together only the first one counts: what began
        before the last decrease tells nothing about the new limit.

        Args:
            started_s: When the attempt began.
            now_s: Now, on the same clock.
        """
        if started_s < self._decreased_at_s:
            return
        self._decreased_at_s = now_s
        self._slow_start = False
        self._value = max(1.0, self._value / 2)
        self.limit = int(self._value)

    def restart(self) -> None:
        """The sink is back: begin with one and double."""
        self._value = 1.0
        self._slow_start = True
        self.limit = 1


class Pace:
    """A rate limit as one number: the time at which the next attempt is due (GCRA).

    In any window of T seconds at most ``rate * (T + BURST_S) + 1`` attempts start.
    """

    __slots__ = ("_due_s", "_rate_per_s")

    def __init__(self) -> None:
        self._due_s = float("-inf")
        self._rate_per_s = 0.0

    @property
    def due_s(self) -> float:
        """When the pace knows of no attempt any more."""
        return self._due_s

    def wait_s(self, rate_per_s: float, now_s: float) -> float:
        """Seconds until the next attempt may start; 0.0: now.

        Args:
            rate_per_s: Attempts a second that are allowed, above 0. A change counts at once: the
                last attempt keeps nobody longer than the new rate says.
            now_s: Now.
        """
        if rate_per_s != self._rate_per_s:
            self._rate_per_s = rate_per_s
            self._due_s = min(self._due_s, now_s + 1.0 / rate_per_s)
        return max(0.0, self._due_s - BURST_S - now_s)

    def take(self, rate_per_s: float, now_s: float) -> float:
        """Take the place of one attempt, or learn how long to wait.

        Args:
            rate_per_s: Attempts a second that are allowed, above 0.
            now_s: Now.

        Returns:
            0.0: taken, start now. Else seconds to wait; nothing was taken.
        """
        wait_s = self.wait_s(rate_per_s, now_s)
        if wait_s > 0.0:
            return wait_s
        self._due_s = max(self._due_s, now_s) + 1.0 / rate_per_s
        return 0.0
