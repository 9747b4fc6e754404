"""Adaptive concurrency (AIMD) and rate limit (GCRA) of one sink.

Called by ``_queue`` and ``_paced`` only. Pure arithmetic on times passed in.
"""

from typing import Final

CONCURRENCY_FIRST: Final = 4.0
"""Initial limit of a new sink: it doubles within one round trip when the sink responds, and a
thousand new sinks that hang take at most 4,000 connections."""

CONCURRENCY_MAX: Final = 64
"""Most attempts in flight to one sink: enough for 6,000/s at 10 ms, and few enough for a small
server to respond without queueing."""

BROKER_CONCURRENCY_MAX: Final = 512
"""The same for one place at a broker. Acknowledgements come in batches over one connection, which
should be kept full: with 64, a batch that waits 5 ms would mean 12,800/s at most. 512 events of
1 KB are half a megabyte in flight."""

BURST_S: Final = 0.1
"""Burst of a rate limit, in seconds' worth of attempts, so that coarse timers do not lower the
rate. At 1/s that is none; at 1,000/s 100 attempts."""


class Concurrency:
    """A concurrency limit with slow start and AIMD (additive increase, multiplicative decrease).

    Args:
        limit_max: Most attempts in flight.

    Attributes:
        limit: How many attempts may be in flight, 1 to *limit_max*.
        growing: Whether ``grow`` may raise it.
    """

    __slots__ = ("_decreased_at_s", "_limit_max", "_slow_start", "_value", "growing", "limit")

    def __init__(self, limit_max: int = CONCURRENCY_MAX) -> None:
        self._limit_max = limit_max
        self._value = CONCURRENCY_FIRST
        self._slow_start = True
        self._decreased_at_s = float("-inf")
        self.limit = int(CONCURRENCY_FIRST)
        self.growing = True

    def grow(self) -> None:
        """Raise the limit: an attempt succeeded while tasks waited for a free slot."""
        if self.limit >= self._limit_max:
            return
        self._value += 1.0 if self._slow_start else 1.0 / self._value
        self.limit = int(self._value)
        self.growing = self.limit < self._limit_max

    def shrink(self, started_s: float, now_s: float) -> None:
        """Halve the limit: an attempt found the sink overloaded or silent.

        Attempts that began before the last decrease do not count: they are no evidence about the
        new limit.

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
        self.growing = True

    def restart(self) -> None:
        """Begin again with one, doubling: the sink is back."""
        self._value = 1.0
        self._slow_start = True
        self.limit = 1
        self.growing = True


class Pace:
    """A rate limiter (GCRA): its state is the time at which the next attempt is due.

    In any window of T seconds at most ``rate * (T + burst_s) + 1`` attempts start.

    Args:
        burst_s: Burst, in seconds' worth of attempts; none for the rate that a target allows, which
            counts minutes and answers 429 to what exceeds it.
    """

    __slots__ = ("_burst_s", "_due_s", "_rate_per_s")

    def __init__(self, burst_s: float = BURST_S) -> None:
        self._burst_s = burst_s
        self._due_s = float("-inf")
        self._rate_per_s = 0.0

    @property
    def due_s(self) -> float:
        """When no past attempt counts any more."""
        return self._due_s

    def wait_s(self, rate_per_s: float, now_s: float) -> float:
        """Seconds until the next attempt may start; 0.0: now.

        Args:
            rate_per_s: Allowed attempts a second, above 0. A change applies at once, also to the
                wait after the last attempt.
            now_s: Now.
        """
        if rate_per_s != self._rate_per_s:
            self._rate_per_s = rate_per_s
            self._due_s = min(self._due_s, now_s + 1.0 / rate_per_s)
        return max(0.0, self._due_s - self._burst_s - now_s)

    def count(self, rate_per_s: float, now_s: float) -> float:
        """Count an attempt that starts now; returns when the next one may."""
        self.take(rate_per_s, now_s)
        return self._due_s

    def take(self, rate_per_s: float, now_s: float) -> float:
        """Count one attempt, or return how long to wait.

        Args:
            rate_per_s: Allowed attempts a second, above 0.
            now_s: Now.

        Returns:
            0.0: counted, start now. Else seconds to wait; nothing was counted.
        """
        wait_s = self.wait_s(rate_per_s, now_s)
        if wait_s > 0.0:
            return wait_s
        self._due_s = max(self._due_s, now_s) + 1.0 / rate_per_s
        return 0.0
