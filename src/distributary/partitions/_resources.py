"""Keeping up with the resources beside the loop: it never waits for the store.

The store is written before a route's record comes into the log. So a reader of the log may meet a
route whose resource was not read yet; that is not one whose resource is deleted (DESIGN rule 5).
``Resources`` tells the two apart, by the number of the change, and says for how long it is worth
waiting for news.
"""

import contextlib
from collections.abc import Callable

from distributary.core.errors import DistributaryError, StoreError
from distributary.core.flow import RouteRecord
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import Job
from distributary.partitions.routes import Question

AWAIT_S = 0.25
"""How long the intake waits for the resources of a change that it has met: a read takes about a
millisecond. Where the store cannot be read, what is known goes on after this, and the route whose
resource nobody knows is backfilled."""
HISTORY_RETRY_S = 1.0
"""Changes that the medium lost are asked for again this late where the store cannot be read."""


class Resources:
    """The newest resources, as far as they were read; and changes that the log has lost.

    Args:
        context: Ports of the owner.
        news: Called when there are any.
        fail: Takes why the owner cannot go on.
    """

    def __init__(
        self,
        context: PartitionContext,
        *,
        news: Callable[[], None],
        fail: Callable[[DistributaryError], None],
    ) -> None:
        self._context = context
        self._targets = context.targets
        self._news = news
        self._fail = fail
        self._reading = False
        self._again = False
        self._blind = False
        self._awaited = 0
        self._awaited_until_s = 0.0
        self._asking = False
        self.waiting = False
        """Whether ``awaited`` need be asked: for nearly every record it need not."""
        self._stopped = False

    def stop(self) -> None:
        """Ask nothing any more, and answer nobody."""
        self._stopped = True

    # -- resources ----------------------------------------------------------------------------

    def look(self) -> None:
        """Read what is new, unless that is under way (then once more)."""
        if self._stopped:
            return
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
                self.look()

        self._context.reading.run(read, done)

    def _tell(self, error: StoreError | None) -> None:
        """What is known stays good enough while the store cannot be read."""
        if error is not None and not self._blind:
            self._context.report("resources-unreadable", {"error": str(error)})
        elif error is None and self._blind:
            self._context.report("resources-readable", {})
        self._blind = error is not None

    def met(self, change: RouteRecord) -> None:
        """The live path has met *change*: its resource is worth a moment's wait."""
        if not self._targets.sees(change.seq):
            self.waiting = True
            self._awaited = max(self._awaited, change.seq)
            self._awaited_until_s = self._context.clock.monotonic_s() + AWAIT_S
            self.look()

    def awaited(self) -> bool:
        """True while the intake should wait: for resources, or for changes that were lost."""
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

    def ask_history(self, question: Question, then: Callable[[list[RouteRecord]], object]) -> None:
        """Call *then* with what *question* finds; until then the intake waits."""
        self._asking = self.waiting = True

        def answered(found: list[RouteRecord]) -> None:
            self._asking = False
            try:
                then(found)
            except DistributaryError as error:
                self._fail(error)
            else:
                self._news()

        self.ask(question, answered)

    def ask(self, question: Question, then: Callable[[list[RouteRecord]], None]) -> None:
        """Call *then* with what *question* finds."""
        found: list[RouteRecord] = []
        failed: list[DistributaryError] = []

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
                then(found)
            elif type(why) is StoreError and error is None:
                # The store cannot be read just now: nobody may go by the hole (DESIGN rule 4).
                self._tell(why)
                timers = self._context.timers
                timers.call_later(HISTORY_RETRY_S, lambda: self.ask(question, then))
            else:
                self._fail(why)

        self._context.aside.run(work, done)
