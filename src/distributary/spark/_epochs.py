"""Begins and ends epochs (long batches), and marks partitions ready, by their status pages alone.

Called by ``driver`` a few times a second. A sick partition (its owner could not start) does not
delay the others.
"""

from collections.abc import Callable, Sequence

from distributary.datadir import ConsumerPhase, MappedStatusPage, StatusField, is_sick

QUIET_MS = 150
"""Age of the oldest attempt in flight below which an epoch may end without delaying deliveries."""
DRAIN_S_MIN = 0.5
"""Shortest drain: by then most attempts in flight have their response."""
DRAIN_S_MAX = 120.0
"""Longest drain; then the rollover is put off. A rollover to newer settings is not: the longest
attempt lasts ten minutes, and one hanging sink would keep settings in force that the operator
revoked. Attempts without a response are then repeated, as at a stop."""


class Epochs:
    """State machine of the epochs of one query.

    Args:
        status_pages: Of the partitions.
        epoch_s: Length of an epoch, seconds.
        began: Called with the number of each epoch that begins.
        put_off: Called with the number of an epoch whose end is put off.
    """

    def __init__(
        self,
        status_pages: Sequence[MappedStatusPage],
        epoch_s: float,
        *,
        began: Callable[[int], None],
        put_off: Callable[[int], None],
    ) -> None:
        self._status_pages = status_pages
        self._epoch_s = epoch_s
        self._began = began
        self._put_off = put_off
        self.settings_number = 0
        """Number of the newest settings; owners that started with older ones are replaced."""
        self._epoch = 0
        self._began_s = 0.0
        self._draining_since_s: float | None = None

    @property
    def epoch(self) -> int:
        """Number of the running epoch; 0 if there is none yet."""
        return self._epoch

    def reset(self) -> None:
        """Clear the status pages before a query starts."""
        for status_page in self._status_pages:
            for word in (
                StatusField.STOP,
                StatusField.DRAINING,
                StatusField.END_EPOCH,
                StatusField.READY,
                StatusField.EPOCH,
                StatusField.FAILURES,
            ):
                status_page[word] = 0
            status_page[StatusField.PHASE] = ConsumerPhase.ABSENT
        self._epoch = 0
        self._draining_since_s = None

    def look(self, now_s: float) -> None:
        """Read the status pages, and begin or end an epoch if due."""
        running = [
            status_page
            for status_page in self._status_pages
            if status_page[StatusField.PHASE] == ConsumerPhase.RUNNING
        ]
        sick = sum(map(is_sick, self._status_pages))
        epochs = {status_page[StatusField.EPOCH] for status_page in running}
        if running and len(running) + sick == len(self._status_pages) and len(epochs) == 1:
            (epoch,) = epochs
            if epoch != self._epoch:
                self._begin(epoch, now_s)
            elif not self._ending:
                self._go_on(running, now_s)
        if self._epoch:
            for status_page in running:
                if status_page[StatusField.EPOCH] == self._epoch:
                    status_page[StatusField.READY] = 1

    @property
    def _ending(self) -> bool:
        """Whether the end of the epoch was requested; owners may take a while to finish."""
        return self._status_pages[0][StatusField.END_EPOCH] >= self._epoch

    def _begin(self, epoch: int, now_s: float) -> None:
        self._epoch = epoch
        self._began_s = now_s
        self._draining_since_s = None
        self._set(StatusField.DRAINING, 0)
        self._began(epoch)

    def _go_on(self, running: Sequence[MappedStatusPage], now_s: float) -> None:
        if self._over(running, now_s):
            self._end_quietly(running, now_s)

    def _over(self, running: Sequence[MappedStatusPage], now_s: float) -> bool:
        """Whether the epoch has reached its length, or its settings are outdated."""
        if now_s - self._began_s > self._epoch_s:
            return True
        return self._outdated(running)

    def _outdated(self, running: Sequence[MappedStatusPage]) -> bool:
        return any(
            status_page[StatusField.SETTINGS] < self.settings_number for status_page in running
        )

    def _end_quietly(self, running: Sequence[MappedStatusPage], now_s: float) -> None:
        """End the epoch at a quiet moment, for all partitions at once."""
        if self._draining_since_s is None:
            self._draining_since_s = now_s
            self._set(StatusField.DRAINING, 1)
        elif all(
            status_page[StatusField.OLDEST_IN_FLIGHT_MS] <= QUIET_MS for status_page in running
        ):
            if now_s - self._draining_since_s > DRAIN_S_MIN:
                self._end()
        elif now_s - self._draining_since_s > DRAIN_S_MAX:
            if self._outdated(running):
                self._end()
                return
            self._put_off(self._epoch)
            self._began_s = now_s
            self._draining_since_s = None
            self._set(StatusField.DRAINING, 0)

    def _end(self) -> None:
        self._draining_since_s = None
        self._set(StatusField.END_EPOCH, self._epoch)

    def _set(self, word: StatusField, value: int) -> None:
        for status_page in self._status_pages:
            status_page[word] = value
