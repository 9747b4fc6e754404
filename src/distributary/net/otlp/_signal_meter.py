"""What became of the items of one signal, counted across two threads."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from distributary.core.meter import Meter

Tell = Callable[[str, dict[str, object]], None]
"""Writes one log line: (event, fields)."""

TOLD_S_MIN: Final = 60.0
"""Shortest time between two lines about a collector that takes nothing, seconds."""


class SignalMeter:
    """Counts items from their offer to their end, and bounds how many are held.

    ``offer`` is called by one thread at a time, ``ended`` by that of the SDK: each writes numbers
    of its own.

    Args:
        signal: ``traces``, ``metrics`` or ``logs``.
        held_max: Most items held; more are given up.
        tell: Writes a line when the collector takes nothing, and when it does again.
    """

    def __init__(self, signal: str, held_max: int, tell: Tell) -> None:
        self.signal = signal
        self._held_max = held_max
        self._tell = tell
        self._offered = self._crowded = 0
        self._sent = self._failed = 0
        self._failing = False
        self._told_s = float("-inf")
        self._counted = (0, 0, 0)
        self._counting = threading.Lock()

    def offer(self) -> bool:
        """Count one more item; False: too many are held, it is given up."""
        if self._offered - self._sent - self._failed >= self._held_max:
            self._crowded += 1
            return False
        self._offered += 1
        return True

    def ended(self, count: int, *, sent: bool) -> None:
        """Count *count* items that the collector took, or that are given up."""
        if sent:
            self._sent += count
        else:
            self._failed += count
        if sent is not self._failing:
            return
        now_s = time.monotonic()
        if not sent and now_s - self._told_s < TOLD_S_MIN:
            return
        self._failing = not sent
        self._told_s = now_s
        event = "telemetry-taken-again" if sent else "telemetry-not-taken"
        self._tell(event, {"signal": self.signal, "given_up": self._failed + self._crowded})

    def count_into(self, meter: "Meter") -> None:
        """Add what has happened since the last call to the counters of *meter*."""
        with self._counting:
            now = self._sent, self._crowded, self._failed
            sent, crowded, failed = (a - b for a, b in zip(now, self._counted, strict=True))
            self._counted = now
        label = f'signal="{self.signal}"'
        meter.add(f"telemetry_sent_total{{{label}}}", sent)
        meter.add(f'telemetry_dropped_total{{{label},reason="queue-full"}}', crowded)
        meter.add(f'telemetry_dropped_total{{{label},reason="not-taken"}}', failed)
