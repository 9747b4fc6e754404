"""Exchanges reservations for the engine around each flush, in a thread.

Reservations of failed matches are freed before the flush writes, all other requests follow once it
is durable: a crash between leaks a reservation at most, and never exceeds the limit. While the
store cannot be written, counted routes wait and all others continue.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from distributary.core.engine.reservations import Reservations
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey
from distributary.core.outcome import Reservation, ReservationAnswer, ReservationBatch, RetryRow
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import Job

RETRY_S = 1.0
"""Retry delay after a failure of the store."""
NOTHING = ReservationBatch([], [], [], [], [])


class ReservationClient:
    """Requests and frees the reservations of one partition.

    Args:
        context: Ports of the consumer.
        answered: Called with each batch and its answers.
    """

    def __init__(
        self,
        context: PartitionContext,
        answered: Callable[[ReservationBatch, list[ReservationAnswer]], None],
    ) -> None:
        self._context = context
        self._store = context.reservations
        self._answered = answered
        self._reservations: Reservations | None = None
        self._busy = False
        self._failing = False
        self._stopped = False

    def load(self, reservations: Reservations, rows: Mapping[DoneKey, RetryRow]) -> None:
        """Load the previous owner's reservations; grants nothing before that."""
        self._reservations = reservations
        found: dict[Reservation, bool] = {}

        def read() -> None:
            found.update(self._store.held(self._context.partition))

        def done() -> None:
            reservations.loaded(found, rows)
            self._answered(NOTHING, [])

        if self._store.exists:
            self._run(read, done)

    @property
    def waiting(self) -> bool:
        """Whether requests wait for the next flush."""
        return not self._busy and self._reservations is not None and self._reservations.waiting

    @property
    def idle(self) -> bool:
        """Whether all requests are stored, or storing has failed."""
        return self._failing or not (self._busy or self.waiting)

    def take(self) -> ReservationBatch:
        """Take the requests that go with a flush."""
        return self._reservations.take_batch() if self.waiting and self._reservations else NOTHING

    def before(self, batch: ReservationBatch) -> None:
        """Free reservations before the flush writes; blocks. ``after`` repeats it harmlessly."""
        if batch.freed and not self._failing:
            with suppress(StoreError):
                self._store.exchange(self._context.partition, NOTHING._replace(freed=batch.freed))

    def after(self, batch: ReservationBatch) -> None:
        """Send *batch* after the flush is durable."""
        answers: list[ReservationAnswer] = []

        def exchange() -> None:
            answers[:] = self._store.exchange(self._context.partition, batch)

        if any(batch):
            self._run(exchange, lambda: self._answered(batch, answers))

    def stop(self) -> None:
        """Stop retrying."""
        self._stopped = True

    def _run(self, work: Job, done: Job) -> None:
        """Run *work* until it succeeds, then *done*."""
        self._busy = True

        def over(error: StoreError | None) -> None:
            if error is None:
                self._busy = False
                self._note(failing=False)
                done()
                return
            self._note(failing=True, error=str(error))
            if not self._stopped:
                self._context.timers.call_later(RETRY_S, lambda: self._run(work, done))

        self._context.aside.run(work, over)

    def _note(self, *, failing: bool, **fields: object) -> None:
        if failing is not self._failing:
            self._failing = failing
            if failing:
                self._context.warn("counts-unavailable", fields)
            else:
                self._context.report("counts-again", fields)
