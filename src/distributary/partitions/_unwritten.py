"""Holds attempts back while too much of what they brought is not durable, and tells of it."""

from typing import Final, Protocol

from distributary.partitions.context import PartitionContext

UNWRITTEN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Events of dead letters and rows that are not durable yet, beyond which attempts, intake,
backfills and runs wait for the disk: a sink that answers faster than the disk writes would fill
the memory. A flush writes as much in a second. Attempts under way may add what they hold."""
TELL_S: Final = 60.0
"""Interval of lines about attempts that are held back."""
TOLD_S_MIN: Final = 6.0
"""Least seconds of ``TELL_S`` without new attempts that a line tells of: a tenth. What a burst
costs is in the metric alone."""
_SECONDS: Final = "attempts_held_back_seconds_total"
_UNWRITTEN: Final = "unwritten"


class Starts(Protocol):
    """Where attempts start (``Dispatcher``)."""

    def hold(self, why: str) -> None:
        """Start none until ``go_on`` for *why*."""

    def go_on(self, why: str) -> None:
        """Start them again."""


class Unwritten:
    """Counts the bytes that are not durable yet.

    Args:
        context: Clock and meter of the consumer, and where it warns.
        starts: Starts nothing while there are too many.

    Attributes:
        crowded: Whether so much is not durable that nothing more may be taken on.
    """

    def __init__(self, context: PartitionContext, starts: Starts) -> None:
        self._clock = context.clock
        self._meter = context.meter
        self._warn = context.warn
        self._starts = starts
        self._grown_bytes = self._writing_bytes = 0
        self.crowded = False
        self._since_s = 0.0  # of the hold, as far as it is not counted
        self._held_s = 0.0  # since the last look whether there is something to tell
        self._looked_s = context.clock.monotonic_s()
        self._meter.add(_SECONDS, 0)

    def grow(self, size: int) -> None:
        """Count *size* more bytes, which the next flush writes."""
        self._grown_bytes += size
        if not self.crowded and self._grown_bytes + self._writing_bytes >= UNWRITTEN_BYTES_MAX:
            self.crowded = True
            self._since_s = self._clock.monotonic_s()
            self._starts.hold(_UNWRITTEN)

    def write(self) -> None:
        """Take note that a flush takes all of it along."""
        self._writing_bytes, self._grown_bytes = self._grown_bytes, 0

    def written(self) -> None:
        """Take note that what was being written is durable."""
        self._writing_bytes = 0
        if self.crowded and self._grown_bytes < UNWRITTEN_BYTES_MAX:
            self._count(self._clock.monotonic_s())
            self.crowded = False
            self._starts.go_on(_UNWRITTEN)

    def tick(self, now_s: float) -> None:
        """Count the time of a hold, and warn where attempts have been held back for long.

        Args:
            now_s: Monotonic time, seconds; called a few times a second.
        """
        if self.crowded:
            self._count(now_s)
        if now_s - self._looked_s < TELL_S:
            return
        if self._held_s >= TOLD_S_MIN:
            fields: dict[str, object] = {"held_s": round(self._held_s, 1)}
            fields["of_s"] = round(now_s - self._looked_s, 1)
            self._warn("attempts-held-back", fields)
        self._looked_s, self._held_s = now_s, 0.0

    def _count(self, now_s: float) -> None:
        held_s, self._since_s = now_s - self._since_s, now_s
        self._held_s += held_s
        self._meter.add(_SECONDS, held_s)
