"""Asks the store of counts for the engine, beside the loop."""

from collections.abc import Callable

from distributary.core.engine.reservations import Claim, ClaimOf, QuotaBatch, Reservations
from distributary.core.errors import DistributaryError, StoreError
from distributary.core.outcome import Grant, Reservation
from distributary.partitions.context import PartitionContext

RETRY_S = 1.0
"""After a failure of the store it is tried again this late."""


class QuotaClient:
    """Asks for the reservations of one partition.

    Args:
        context: Ports of the owner.
        reservations: Says what is to be asked.
        answered: The engine's input: what was asked, and the answers.
    """

    def __init__(
        self,
        context: PartitionContext,
        reservations: Reservations,
        answered: Callable[[QuotaBatch, list[Grant]], None],
    ) -> None:
        self._partition = context.partition
        self._store = context.quota
        self._blocking = context.aside
        self._timers = context.timers
        self._report = context.report
        self._reservations = reservations
        self._answered = answered
        self._claim_of: ClaimOf | None = None
        self._idle: list[Callable[[], None]] = []
        self._armed = False
        self._failing = False
        self._stopped = False

    def load(self, claim_of: ClaimOf) -> None:
        """Begin with what the last owner left; nobody gets an answer before that is read.

        Args:
            claim_of: Who claims a reservation. Those that nobody claims were delivered (a failure
                frees its own before it is durable): they count, or more would be delivered than
                may be.
        """
        if self._store.exists:
            self._claim_of = claim_of
            self._reservations.load()

    def stop(self) -> None:
        """Answer nobody any more."""
        self._stopped = True

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call *then* once all pending changes are written, or writing has failed."""
        self._idle.append(then)
        if not self._armed:
            self._look_on()

    def ask(self) -> None:
        """Ask soon: whoever else asks in this turn of the loop goes along."""
        if not self._armed:
            self._armed = True
            self._timers.call_later(0.0, self._run)

    def _run(self) -> None:
        if self._claim_of is None:
            self._ask_store()
        elif not self._stopped:
            self._load(self._claim_of)
        else:
            self._armed = False
            self._call_idle()

    def _load(self, claim_of: ClaimOf) -> None:
        found: dict[Reservation, bool] = {}

        def work() -> None:
            reservations = self._store.reservations(self._partition)
            over = {
                reservation for reservation in reservations if claim_of(reservation) is Claim.NONE
            }
            if over:
                self._store.count(self._partition, over)
            found.update(
                (reservation, reservations[reservation])
                for reservation in reservations
                if reservation not in over
            )

        def done(error: StoreError | None) -> None:
            if error is not None:
                self._fail(error)
                return
            self._claim_of = None
            self._reservations.loaded(found, claim_of)
            self._go_on()

        self._blocking.run(work, done)

    def _ask_store(self) -> None:
        batch = self._reservations.take_batch()
        answers: list[Grant] = []

        def work() -> None:
            if batch.gone and self._store.exists:
                self._store.forget(*batch.gone)
            if batch.counted:
                self._store.count(self._partition, batch.counted)
            if batch.asking or batch.given_up or batch.idled:
                requests = [request for _, request in batch.asking]
                answers[:] = self._store.take(
                    self._partition, requests, free=batch.given_up, resting=batch.idled
                )

        def done(error: StoreError | None) -> None:
            if error is not None:
                self._reservations.put_back(batch)
                self._fail(error)
                return
            self._answered(batch, answers)
            self._go_on()

        self._blocking.run(work, done)

    def _go_on(self) -> None:
        if self._failing:
            self._failing = False
            self._report("counts-again", {})
        self._armed = False
        self._look_on()

    def _look_on(self) -> None:
        """Ask again where there is something to say, or be idle."""
        if self._reservations.waiting:
            self.ask()
        else:
            self._call_idle()

    def _call_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for then in waiting:
            then()

    def _fail(self, error: DistributaryError) -> None:
        """Nobody is sent without a reservation; those that need none go on."""
        if not self._failing:
            self._failing = True
            self._report("counts-unavailable", {"error": str(error)})
        if self._stopped:
            self._armed = False
            self._call_idle()  # What was not told leaves deliveries in doubt, as after a crash.
        else:
            self._timers.call_later(RETRY_S, self._run)
