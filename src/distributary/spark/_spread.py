"""Keeps the executors of a standalone cluster from lying all on one worker.

Spark's master places an executor that replaces a lost one on a worker that is there, and leaves it
when the lost worker is back. A cluster of two workers then has both executors on one: the loss of
that one takes all partitions, and with them every warm process that could own them next.

Called by ``shared_side``. Pure, but for ``worker_of``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

FIRST_S: Final = 10.0
"""Pause before an executor is moved; each further one is twice as long, since there may be no other
worker: the driver is not told. Each try costs the start of an executor, and a partition that moves
for it pauses for a moment."""
AGAIN_S: Final = 3600.0
"""Longest pause."""
TRIES_MAX: Final = 6
"""Tries within ten minutes, unless executors were on several workers before: then one of them may
be back at any time."""
_LOG_PAGE: Final = "/logPage"
"""Path of the pages on which Spark's workers show the output of their executors."""


class Spread:
    """Finds executors that lie all on one worker."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._tries = 0
        self._seen_apart = False

    def look(self, workers: Mapping[str, str], owners: Iterable[str], now_s: float) -> str | None:
        """Returns the executor to replace: Spark's master places another one where most is free.

        Args:
            workers: Spark's id of each executor -> its worker; empty: unknown.
            owners: The executor of each partition's owner.
            now_s: Monotonic clock.
        """
        places = set(workers.values())
        if len(places) != 1 or len(workers) < 2 or "" in places:
            self._since_s = None
            if len(places) > 1:
                self._tries, self._seen_apart = 0, True
            return None
        if self._since_s is None:
            self._since_s = now_s
        if self._tries >= TRIES_MAX and not self._seen_apart:
            return None
        if now_s - self._since_s < min(FIRST_S * 2**self._tries, AGAIN_S):
            return None
        self._since_s = now_s
        self._tries += 1
        count = Counter(owners)
        return min(workers, key=lambda executor: (count[executor], -int(executor), executor))


def worker_of(summary: Any) -> str:
    """Returns the worker of an executor; empty: unknown, as where there are none.

    Args:
        summary: Spark's ``ExecutorSummary``, in the JVM.
    """
    found = summary.executorLogs().get("stdout")
    url = urlsplit(str(found.get())) if found.isDefined() else None
    return url.netloc if url is not None and url.path.startswith(_LOG_PAGE) else ""
