"""Timer queue: when each timer is due, on the monotonic clock. Pure.

A timer is due at whole multiples of its interval after its origin, so it never drifts. The origin
is fixed while the process runs; a new process computes it from the wall clock. Due times that
were missed are skipped: the next one is in phase again.
"""

import heapq
import itertools
import math
from typing import Final, NamedTuple

from distributary.subscriptions.store.schedule import TimerRow

LATE_S_MAX: Final = 5.0
"""Latest creation of a timer event after it was due, seconds (at most half an interval); then it
is missed. A slow disk may delay it, a stop or an unavailable log skips it."""

_STALE_MAX: Final = 1_000
"""Stale heap entries, beyond the number of timers, at which they are cleared."""


class Timer:
    """A running timer.

    Attributes:
        uid: Of the subscription.
        seq: Number of its newest change.
        interval_s: Between two timer events, seconds.
        phase_ms: Of its row.
        due_s: When its next timer event is due, monotonic.
        number: Of its next timer event, if one is reserved.
        numbers_end: After the last reserved one.
    """

    __slots__ = (
        "_beat", "_origin_s", "due_s", "interval_s", "number", "numbers_end", "phase_ms", "seq",
        "uid",
    )  # fmt: skip

    def __init__(self, row: TimerRow, now_s: float, elapsed_s: float) -> None:
        self.uid = row.uid
        self.seq = row.seq
        self.interval_s = row.interval_s
        self.phase_ms = row.phase_ms
        self.number = self.numbers_end = 0
        # A phase in the future: the wall clock was set back. Restart the phase, never fire early.
        elapsed_s = max(0.0, elapsed_s)
        self._origin_s = now_s - elapsed_s
        self._turn_to(math.floor(elapsed_s / row.interval_s) + 1)

    def _turn_to(self, beat: int) -> None:
        self._beat = beat
        self.due_s = self._origin_s + beat * self.interval_s

    def pass_on(self, now_s: float) -> tuple[bool, int]:
        """Advance to the first due time after *now_s*.

        Returns:
            Whether to make a timer event now, and how many were missed.
        """
        latest = max(self._beat, math.floor((now_s - self._origin_s) / self.interval_s))
        late_s = now_s - (self._origin_s + latest * self.interval_s)
        missed = latest - self._beat
        self._turn_to(latest + 1)
        if late_s > min(LATE_S_MAX, self.interval_s / 2):
            return False, missed + 1
        return True, missed

    def turn_back(self) -> None:
        """Go back by one interval: that timer event is due again."""
        self._turn_to(self._beat - 1)


class Due(NamedTuple):
    """Timers that are due.

    Attributes:
        timers: Each makes a timer event now.
        missed: Number of timer events that were skipped.
    """

    timers: list[Timer]
    missed: int


class Beats:
    """All timers, in the order in which they are due. Memory grows with their number alone."""

    def __init__(self) -> None:
        self._timers: dict[str, Timer] = {}
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """Number of running timers."""
        return len(self._timers)

    def set(self, row: TimerRow, now_s: float, wall_ms: int) -> None:
        """Start the timer of *row*, or apply a change to it.

        Keeps the phase unless the interval changes. Drops reserved numbers: they belong to the
        revision for which they were reserved.

        Args:
            row: The timer.
            now_s: Monotonic clock.
            wall_ms: Wall clock at the same moment.
        """
        timer = self._timers.get(row.uid)
        if timer is not None and (timer.interval_s, timer.phase_ms) == row[2:]:
            timer.seq = row.seq
            timer.number = timer.numbers_end = 0
            return
        timer = self._timers[row.uid] = Timer(row, now_s, (wall_ms - row.phase_ms) / 1000)
        self._push(timer)

    def remove(self, uid: str) -> None:
        """Stop the timer of *uid*, if there is one."""
        self._timers.pop(uid, None)

    def due(self, now_s: float, count_max: int) -> Due:
        """Return at most *count_max* timers that are due, and advance each of them."""
        found: list[Timer] = []
        missed_count = 0
        while self._heap and self._heap[0][0] <= now_s and len(found) < count_max:
            due_s, _, timer = heapq.heappop(self._heap)
            if not self._stands(due_s, timer):
                continue
            fires, missed = timer.pass_on(now_s)
            missed_count += missed
            if fires:
                found.append(timer)
            self._push(timer)
        return Due(found, missed_count)

    def again(self, timer: Timer) -> None:
        """Make *timer*, which ``due`` returned, due again at once."""
        timer.turn_back()
        self._push(timer)

    def next_due_s(self) -> float | None:
        """When the next timer is due, monotonic; None: there is none."""
        while self._heap and not self._stands(self._heap[0][0], self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _stands(self, due_s: float, timer: Timer) -> bool:
        """False for the heap entry of a timer that was stopped, replaced or advanced."""
        return timer.due_s == due_s and self._timers.get(timer.uid) is timer

    def _push(self, timer: Timer) -> None:
        heapq.heappush(self._heap, (timer.due_s, next(self._order), timer))
        if len(self._heap) > 2 * len(self._timers) + _STALE_MAX:
            self._heap = [(each.due_s, next(self._order), each) for each in self._timers.values()]
            heapq.heapify(self._heap)
