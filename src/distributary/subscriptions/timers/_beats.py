"""When timers are due: pure, on the monotonic clock.

A timer is due at whole multiples of its interval after its origin, so it never drifts. While
the program runs the origin stays; a new program finds it again from the wall clock. A due time
that was slept through is passed over: what comes due next is in phase again.
"""

import heapq
import itertools
import math
from typing import Final, NamedTuple

from distributary.subscriptions.store.schedule import TimerRow

LATE_S_MAX: Final = 5.0
"""A timer event that could not be made within this is missed, seconds (and within half an
interval): a slow disk may delay it, a stop or a log that takes nothing ends it."""

_STALE_MAX: Final = 1_000
"""Entries of timers that are gone, beyond as many as there are timers, before they are cleared."""


class Timer:
    """A timer that runs.

    Attributes:
        uid: Of the subscription.
        seq: Number of its newest change.
        interval_s: Between two timer events, seconds.
        phase_ms: Of its row.
        due_s: When its next timer event is due, monotonic.
        number: Of its next timer event, where one is reserved.
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
        # A phase in the future: the wall clock was set back. It begins anew, never too early.
        elapsed_s = max(0.0, elapsed_s)
        self._origin_s = now_s - elapsed_s
        self._turn_to(math.floor(elapsed_s / row.interval_s) + 1)

    def _turn_to(self, beat: int) -> None:
        self._beat = beat
        self.due_s = self._origin_s + beat * self.interval_s

    def pass_on(self, now_s: float) -> tuple[bool, int]:
        """Turn to the first due time after *now_s*.

        Returns:
            Whether a timer event is to be made now, and how many were missed.
        """
        latest = max(self._beat, math.floor((now_s - self._origin_s) / self.interval_s))
        late_s = now_s - (self._origin_s + latest * self.interval_s)
        missed = latest - self._beat
        self._turn_to(latest + 1)
        if late_s > min(LATE_S_MAX, self.interval_s / 2):
            return False, missed + 1
        return True, missed

    def turn_back(self) -> None:
        """The timer event of the time before is due again."""
        self._turn_to(self._beat - 1)


class Due(NamedTuple):
    """What is due.

    Attributes:
        timers: Each makes a timer event now.
        missed: Timer events that are not made any more.
    """

    timers: list[Timer]
    missed: int


class Beats:
    """All timers, in the order in which they are due. Grows with their number alone."""

    def __init__(self) -> None:
        self._timers: dict[str, Timer] = {}
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """How many timers run."""
        return len(self._timers)

    def set(self, row: TimerRow, now_s: float, wall_ms: int) -> None:
        """Start the timer of *row*, or let the one that runs take a change.

        A change that leaves the interval alone keeps the phase. Reserved numbers are let go:
        they belong to the revision for which they were reserved.

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
        """Take at most *count_max* timers that are due; each turns to its next time."""
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
        """Let *timer*, which ``due`` gave, be due at once again."""
        timer.turn_back()
        self._push(timer)

    def next_due_s(self) -> float | None:
        """When the next timer is due, monotonic; None: there is none."""
        while self._heap and not self._stands(self._heap[0][0], self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _stands(self, due_s: float, timer: Timer) -> bool:
        """False for the entry of a timer that was stopped, replaced or turned."""
        return timer.due_s == due_s and self._timers.get(timer.uid) is timer

    def _push(self, timer: Timer) -> None:
        heapq.heappush(self._heap, (timer.due_s, next(self._order), timer))
        if len(self._heap) > 2 * len(self._timers) + _STALE_MAX:
            self._heap = [(each.due_s, next(self._order), each) for each in self._timers.values()]
            heapq.heapify(self._heap)
