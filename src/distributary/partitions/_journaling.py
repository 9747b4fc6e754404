"""Runs the small flushes of a partition on its loop while the disk is quick (decision 5).

To hand a flush to a thread and back costs four turns of the interpreter's lock and two wake-ups:
more than the write and its sync on a quick disk. When the disk becomes slow, the thread waits for
it instead of the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver import Timers
from distributary.core.errors import StoreError
from distributary.partitions.ports import Blocking

SLOW_S: Final = 0.01
"""A flush that took longer is slow: a usual one takes a fiftieth of it."""
SLOW_MAX: Final = 3
"""After this many slow ones in a row the thread takes over; one hiccup is no trend."""
HOPELESS_S: Final = 0.1
"""After one flush this long the thread takes over at once."""
AGAIN_COUNT: Final = 32
"""After this many quick flushes of the thread in a row the loop flushes again."""


def error_of(work: Callable[[], None]) -> StoreError | None:
    """Run *work*; returns its error, also that of a bug, which must hang nothing."""
    try:
        work()
    except StoreError as raised:
        return raised
    except Exception as raised:  # noqa: BLE001 - see above
        return StoreError(f"a flush failed: {raised!r}")
    return None


@dataclass(slots=True)
class LoopWhileQuick:
    """A ``Blocking`` for jobs of one write and one sync, one at a time.

    Attributes:
        timers: Of the loop.
        thread: Takes the jobs while the disk is slow.
        clock: Measures them.
    """

    timers: Timers
    thread: Blocking
    clock: Clock
    quick: bool = True
    _streak: int = 0

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run *work*, here or in the thread; then call *done* on the loop, never at once."""
        took: list[float] = []

        def timed() -> None:
            began_s = self.clock.monotonic_s()
            try:
                work()
            finally:
                took.append(self.clock.monotonic_s() - began_s)

        def finished(error: StoreError | None) -> None:
            self._judge(took[0])
            done(error)

        if self.quick:
            error = error_of(timed)
            self.timers.call_later(0.0, lambda: finished(error))
        else:
            self.thread.run(timed, finished)

    def _judge(self, took_s: float) -> None:
        """Choose who flushes next."""
        if (took_s <= SLOW_S) == self.quick:
            self._streak = 0
            return
        self._streak += 1
        enough = SLOW_MAX if self.quick else AGAIN_COUNT
        if self._streak >= enough or (self.quick and took_s > HOPELESS_S):
            self.quick = not self.quick
            self._streak = 0
