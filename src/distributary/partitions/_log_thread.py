"""Reads of the log that may take long: beside the loop, and again while the log is away.

A log on a cluster may be silent for half a minute while a broker's partitions find another leader.
The owner goes on meanwhile with what it has in memory; what needs the log waits.
"""

from collections.abc import Callable

from distributary.core.errors import (
    DistributaryError,
    LogError,
    LogUnavailableError,
    StoreAwayError,
    StoreError,
)
from distributary.partitions._log_away import LogAway
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import Job


class LogThread:
    """Runs reads of the log, one after the other, and repeats those that find it away.

    Args:
        context: Ports of the consumer: ``log_reading``, or ``reading`` where the log is files.
        fail: Called with the reason why the consumer cannot continue.

    Attributes:
        away: Those that wait for the log, look-ups beside this thread among them.
    """

    def __init__(
        self, context: PartitionContext, fail: Callable[[DistributaryError], None]
    ) -> None:
        self._patient = context.log_reading is not None
        self._blocking = context.log_reading or context.reading
        self._fail = fail
        self.away = LogAway(context.timers, context.report, context.warn)
        self._stopped = False

    def run(self, read: Job, then: Callable[[], object]) -> None:
        """Run *read* in the thread, then *then* on the loop.

        A log that is files fails the consumer where it cannot be read: another owner looks at the
        medium anew. One on a cluster is read again until it answers; *read* begins anew each time.
        """
        failed: list[DistributaryError] = []

        def work() -> None:
            try:
                read()
            except LogError as error:
                failed.append(error)

        def done(error: StoreError | None) -> None:
            if self._stopped:
                return
            why = failed[0] if failed else error
            if why is None:
                self.away.answered(read)
                then()
            elif self._patient and isinstance(why, (LogUnavailableError, StoreAwayError)):
                self.away.wait(read, why, lambda: self.run(read, then))
            else:
                self._fail(why)

        if not self._stopped:
            self._blocking.run(work, done)

    def close(self, close: Job) -> None:
        """Run *close* after the read under way, whose result is discarded."""
        self._blocking.run(close, lambda _error: None)

    def stop(self) -> None:
        """Start no more reads, and discard the results of those under way."""
        self._stopped = True
