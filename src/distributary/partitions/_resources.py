"""Refreshes resources from the store in a thread, so that the event loop never waits for it.

The store is written before a route's record is appended to the log. A reader of the log may thus
meet a route whose resource it has not read yet, which differs from a deleted one (DESIGN rule 5,
revisions). ``Resources`` distinguishes them by the number of the change, and bounds the wait.
"""

import contextlib
from collections.abc import Callable
from typing import TypeVar

from distributary.core.errors import (
    DistributaryError,
    LogUnavailableError,
    StoreAwayError,
    StoreError,
)
from distributary.core.flow import RouteRecord
from distributary.partitions._log_away import AGAIN_S, LogAway
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import Job, Records

AWAIT_S = 0.25
"""Longest wait of the intake for the resource of a change: a read takes about a millisecond. Where
the store cannot be read, known routes continue after this, and the unknown one is backfilled."""

Found = TypeVar("Found")


class Resources:
    """Reads new resources, and restores route changes that the log has lost.

    Args:
        context: Ports of the consumer.
        log_away: Those that wait for the log.
        news: Called after resources have changed.
        fail: Called with the reason why the consumer cannot continue.
    """

    def __init__(
        self,
        context: PartitionContext,
        log_away: LogAway,
        *,
        news: Callable[[], None],
        fail: Callable[[DistributaryError], None],
    ) -> None:
        self._context = context
        self._targets = context.targets
        self._log_away = log_away
        self._news = news
        self._fail = fail
        self._reading = False
        self._again = False
        self._blind = False
        self._awaited = 0
        self._awaited_until_s = 0.0
        self._asking = False
        self.waiting = False
        """Whether ``awaited`` must be called: for nearly every record it need not be."""
        self._stopped = False

    def stop(self) -> None:
        """Start no more reads; discard results of those under way."""
        self._stopped = True

    # -- resources ----------------------------------------------------------------------------

    def look(self) -> None:
        """Read changes if there may be any; during a read, request one more."""
        if not self._stopped and (self._blind or self._targets.may_have_news()):
            self._read()

    def _read(self) -> None:
        if self._reading:
            self._again = True
            return
        self._reading = True
        self._again = False
        take: list[Job | None] = []

        def read() -> None:
            take.append(self._targets.read())

        def done(error: StoreError | None) -> None:
            self._reading = False
            if self._stopped:
                return
            self._tell(error)
            if take and take[0] is not None:
                take[0]()
                self._news()
            if self._again and error is None:
                self._read()

        self._context.reading.run(read, done)

    def _tell(self, error: StoreError | None) -> None:
        """Report once that the store is unreadable, or readable again; known resources stay."""
        if error is not None and not self._blind:
            self._context.warn("resources-unreadable", {"error": str(error)})
        elif error is None and self._blind:
            self._context.report("resources-readable", {})
        self._blind = error is not None

    def met(self, change: RouteRecord) -> None:
        """Make the intake wait a moment for the resource of *change*, if it is unknown."""
        if not self._targets.sees(change.seq):
            self.waiting = True
            self._awaited = max(self._awaited, change.seq)
            self._awaited_until_s = self._context.clock.monotonic_s() + AWAIT_S
            if not self._stopped:
                self._read()

    def awaited(self) -> bool:
        """Whether the intake should wait, for resources or for lost changes."""
        if self._asking:
            return True
        if self._awaited:
            late = self._context.clock.monotonic_s() >= self._awaited_until_s
            if not late and not self._targets.sees(self._awaited):
                return True
            self._awaited = 0
        self.waiting = False
        return False

    # -- changes that the log has lost --------------------------------------------------------

    def ask_history(
        self, question: Callable[[Records], list[Found]], then: Callable[[list[Found]], object]
    ) -> None:
        """As ``ask``, while the intake waits."""
        self._asking = self.waiting = True

        def answered(found: list[Found]) -> None:
            self._asking = False
            try:
                then(found)
            except DistributaryError as error:
                self._fail(error)
            else:
                self._news()

        self.ask(question, answered)

    def ask(
        self, question: Callable[[Records], list[Found]], then: Callable[[list[Found]], None]
    ) -> None:
        """Run *question* in a thread; then call *then* with its result.

        Repeats it while the store cannot be read, or a log on a cluster.
        """
        found: list[Found] = []
        failed: list[DistributaryError] = []

        def again() -> None:
            self.ask(question, then)

        def work() -> None:
            try:
                # Through a reader of its own: those of the loop serve the loop.
                with contextlib.closing(self._context.make_records()) as records:
                    found.extend(question(records))
            except DistributaryError as error:
                failed.append(error)

        def done(error: StoreError | None) -> None:
            if self._stopped:
                return
            why = failed[0] if failed else error
            if why is None:
                self._log_away.answered(question)
                then(found)
            elif self._passes(why) and error is None:
                # It cannot be read just now: nobody may go by the hole (DESIGN rule 4).
                if isinstance(why, StoreError):
                    self._tell(why)
                    self._context.timers.call_later(AGAIN_S, again)
                else:
                    self._log_away.wait(question, why, again)
            else:
                self._fail(why)

        (self._context.log_reading or self._context.aside).run(work, done)

    def _passes(self, why: DistributaryError) -> bool:
        """Whether the same may succeed in a moment."""
        if self._context.log_reading is not None and isinstance(why, LogUnavailableError):
            return True
        return type(why) in {StoreError, StoreAwayError}
