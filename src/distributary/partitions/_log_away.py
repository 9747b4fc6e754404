"""What readers of a log that is away have in common: they wait, and people are told once."""

from collections.abc import Callable, Hashable
from typing import Final

from distributary.core.deliver import Timers
from distributary.core.errors import DistributaryError

AGAIN_S: Final = 1.0
"""Pause before a read of a log or store that is away is repeated. The read itself has waited for
the cluster, so nobody is asked more often."""


class LogAway:
    """The readers that wait for the log of a partition.

    Args:
        timers: Ends their pauses.
        report: Takes an info line for people: (event, fields).
        warn: Takes a warning, likewise.
    """

    def __init__(
        self,
        timers: Timers,
        report: Callable[[str, dict[str, object]], None],
        warn: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._timers = timers
        self._report, self._warn = report, warn
        self._waiting: set[Hashable] = set()

    def wait(self, read: Hashable, why: DistributaryError, again: Callable[[], None]) -> None:
        """Call *again* in a moment; *read* failed, for *why*. Tells people, if none waited yet."""
        if not self._waiting:
            self._warn("log-unreadable", {"error": str(why)})
        self._waiting.add(read)
        self._timers.call_later(AGAIN_S, again)

    def answered(self, read: Hashable) -> None:
        """The log has answered *read*. Tells people, if the last one waited that did."""
        if read in self._waiting:
            self._waiting.remove(read)
            if not self._waiting:
                self._report("log-readable", {})
