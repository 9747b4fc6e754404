"""When an epoch has begun, when it ends, and which partitions are ready; from status pages alone.

Called by ``driver`` a few times a second. A partition that is sick (its owner could not begin)
holds nothing up: the others begin, end and are ready without it.
"""

from collections.abc import Callable, Sequence

from distributary.datadir import ConsumerPhase, MappedStatusPage, StatusField, is_sick

QUIET_MS = 150
"""Owners whose oldest attempt is younger can end the epoch without holding anything up."""
DRAIN_S_MIN = 0.5
"""So long the epoch drains at least: what was begun before is answered by then."""
DRAIN_S_MAX = 120.0
"""A rollover that finds no quiet moment within this is put off. One to newer settings is not: the
longest attempt lasts ten minutes, and one sink that hangs would keep up what operators forbid.
Attempts without an answer are made again then, as at a stop."""
PREPARE_S_MAX = 60.0
"""Longest wait for the processes that may own a partition next to have compiled its routes:
100,000 take 5 s. One that has not begins later, and nothing is lost."""


class Epochs:
    """The epochs of one query.

    Args:
        status_pages: Of the partitions.
        epoch_s: Length of an epoch, seconds.
        began: Is told the number of each epoch that begins for good.
        put_off: Is told the number of an epoch whose end is put off.
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
        """Of the newest settings: owners that began with older ones make way."""
        self._epoch = 0
        self._warm = False
        self._began_s = 0.0
        self._preparing_since_s: float | None = None
        self._draining_since_s: float | None = None

    @property
    def epoch(self) -> int:
        """The one that runs; 0: none yet."""
        return self._epoch

    def reset(self) -> None:
        """A query is about to start: nothing is known of any owner."""
        for status_page in self._status_pages:
            for word in (
                StatusField.STOP,
                StatusField.DRAINING,
                StatusField.END_EPOCH,
                StatusField.READY,
                StatusField.EPOCH,
            ):
                status_page[word] = 0
            for word in (
                StatusField.FAILURES,
                StatusField.TAKES,
                StatusField.PREPARE,
                StatusField.PREPARED,
            ):
                status_page[word] = 0
            status_page[StatusField.PHASE] = ConsumerPhase.ABSENT
            # Code is loaded, workers are started, routes compiled: the first epoch does nothing
            # else, so that its end waits for no sink.
            status_page[StatusField.HOLD] = 1
        self._epoch = 0
        self._warm = False
        self._preparing_since_s = self._draining_since_s = None

    def look(self, now_s: float) -> None:
        """Look at the status pages, and do what is due."""
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
        if self._warm:
            for status_page in running:
                if (
                    status_page[StatusField.EPOCH] == self._epoch
                    and not status_page[StatusField.HOLD]
                ):
                    status_page[StatusField.READY] = 1

    @property
    def _ending(self) -> bool:
        """Whether the end of the epoch was asked for: an owner may be busy for a while yet."""
        return self._status_pages[0][StatusField.END_EPOCH] >= self._epoch

    def _begin(self, epoch: int, now_s: float) -> None:
        self._epoch = epoch
        self._began_s = now_s
        self._preparing_since_s = self._draining_since_s = None
        self._set(StatusField.DRAINING, 0)
        if self._status_pages[0][StatusField.HOLD]:
            return
        self._warm = True
        self._began(epoch)

    def _go_on(self, running: Sequence[MappedStatusPage], now_s: float) -> None:
        if not self._warm:
            if self._prepared(running, now_s):
                self._end()
                self._set(StatusField.HOLD, 0)
        elif self._over(running, now_s) and self._prepared(running, now_s):
            self._end_quietly(running, now_s)

    def _over(self, running: Sequence[MappedStatusPage], now_s: float) -> bool:
        """Whether the epoch has lasted long enough, or its settings are no longer the newest."""
        if now_s - self._began_s > self._epoch_s:
            return True
        return self._outdated(running)

    def _outdated(self, running: Sequence[MappedStatusPage]) -> bool:
        return any(
            status_page[StatusField.SETTINGS] < self.settings_number for status_page in running
        )

    def _prepared(self, running: Sequence[MappedStatusPage], now_s: float) -> bool:
        """Whether the processes of the readers know what the next owners need.

        Spark gives any of its workers to the next owner: those of the owners know it already.
        """
        if self._preparing_since_s is None:
            self._preparing_since_s = now_s
            self._set(StatusField.PREPARE, self._epoch)
        elif now_s - self._preparing_since_s > PREPARE_S_MAX:
            return True
        return all(status_page[StatusField.PREPARED] >= self._epoch for status_page in running)

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
            self._preparing_since_s = self._draining_since_s = None
            self._set(StatusField.DRAINING, 0)

    def _end(self) -> None:
        self._preparing_since_s = self._draining_since_s = None
        self._set(StatusField.END_EPOCH, self._epoch)

    def _set(self, word: StatusField, value: int) -> None:
        for status_page in self._status_pages:
            status_page[word] = value
