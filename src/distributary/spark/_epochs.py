"""Begins and ends epochs (long batches), and marks partitions ready, by their status pages alone.

Called by ``driver`` a few times a second. The end of an epoch ends no session: its owners go on
with the next one. A sick partition (its owner could not start) does not delay the others.
"""

from collections.abc import Callable, Sequence

from distributary.datadir import Phase, StatusField, StatusPage, is_sick


class Epochs:
    """State machine of the epochs of one query.

    Args:
        status_pages: Of the partitions.
        epoch_s: Length of an epoch, seconds.
        began: Called with the number of each epoch that begins.
    """

    def __init__(
        self,
        status_pages: Sequence[StatusPage],
        epoch_s: float,
        *,
        began: Callable[[int], None],
    ) -> None:
        self._status_pages = status_pages
        self._epoch_s = epoch_s
        self._began = began
        self._epoch = 0
        self._began_s = 0.0

    @property
    def epoch(self) -> int:
        """Number of the running epoch; 0 if there is none yet."""
        return self._epoch

    def reset(self) -> None:
        """Clear the status pages before a query starts."""
        for status_page in self._status_pages:
            for word in (
                StatusField.STOP,
                StatusField.END_EPOCH,
                StatusField.READY,
                StatusField.EPOCH,
                StatusField.FAILURES,
            ):
                status_page[word] = 0
            status_page[StatusField.PHASE] = Phase.ABSENT
        self._epoch = 0

    def look(self, now_s: float) -> None:
        """Read the status pages, and begin or end an epoch if due."""
        running = [
            status_page
            for status_page in self._status_pages
            if status_page[StatusField.PHASE] == Phase.RUNNING
            # An owner without a task, which delivers until its successor asks, is of no epoch.
            and status_page[StatusField.EPOCH]
        ]
        sick = sum(map(is_sick, self._status_pages))
        epochs = {status_page[StatusField.EPOCH] for status_page in running}
        if running and len(running) + sick == len(self._status_pages) and len(epochs) == 1:
            (epoch,) = epochs
            if epoch != self._epoch:
                self._begin(epoch, now_s)
            elif now_s - self._began_s > self._epoch_s:
                self._set(StatusField.END_EPOCH, epoch)
        if self._epoch:
            for status_page in running:
                if status_page[StatusField.EPOCH] == self._epoch:
                    status_page[StatusField.READY] = 1

    def _begin(self, epoch: int, now_s: float) -> None:
        self._epoch = epoch
        self._began_s = now_s
        self._began(epoch)

    def _set(self, word: StatusField, value: int) -> None:
        for status_page in self._status_pages:
            status_page[word] = value
