"""Finds that an application of Spark gets no executors any more. Pure.

Called by ``shared_side``.
"""


class Desertion:
    """Finds that there has been no executor for so long that the master may place none any more.

    One that comes back without what it knew has the executors of this application ended, and tells
    its driver nothing. Another application gets executors as soon as there are slots.

    Args:
        wait_s: How long that is, seconds.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._since_s: float | None = None

    def look(self, alive: set[str], now_s: float) -> bool:
        """Whether there has been none for that time.

        Args:
            alive: The executors.
            now_s: Monotonic clock.
        """
        if alive:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        return self._since_s is not None and now_s - self._since_s > self._wait_s
