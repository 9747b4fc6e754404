"""How far a route may lag, where the operator sets a limit: the oldest matches are given up.

The log is kept for whoever lags, so one dead sink keeps all of it. A limit is off by default: the
disk watermark is the last defence. The log is one, so what one route keeps is kept for all, and a
budget of one route is that of all of them.
"""

from collections import Counter
from typing import Final

from distributary.core.engine._settle import Settle
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import DistributaryError, StoreError
from distributary.core.flow import Task
from distributary.core.outcome import GivenUp

LOOK_EVERY_S: Final = 10.0
"""How often it is looked where the budget ends: retention looks that often, or less."""
REASON: Final = "retention"


class LagLimit:
    """Ends what lies beyond the budget.

    Args:
        around: Ports of the owner.
        settle: Drops matches.
    """

    def __init__(self, around: Surroundings, settle: Settle) -> None:
        self._around = around
        self._settle = settle
        self._budget = around.lag_budget
        self._counts: Counter[str] = Counter()
        self._due_s = float("-inf")
        self._looking = False
        self.cut = 0
        """Matches of lags and rows below this record are given up."""
        around.meter.add(f'given_up_total{{reason="{REASON}"}}', 0)

    def give_up(self, task: Task) -> None:
        """*task*, which a lag brought, lies beyond the budget."""
        self._counts[task.route] += 1
        self._settle.drop(task, REASON)

    def tick(self) -> None:
        """Tell what was given up, and look where the budget ends now."""
        self._tell()
        now_s = self._around.clock.monotonic_s()
        if not self._budget or self._looking or now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_EVERY_S
        self._looking = True
        found: list[int] = []

        def work() -> None:
            try:
                found.append(self._look())
            except DistributaryError as error:
                raise StoreError(str(error)) from error

        self._around.aside.run(work, lambda error: self._looked(found, error))

    def _look(self) -> int:
        """The first record that a lag may still need."""
        records = self._around.make_records()
        try:
            cut = 0
            if self._budget.bytes_max:
                cut = records.offset_within(self._budget.bytes_max)
            if self._budget.age_max_s:
                oldest_ms = self._around.clock.wall_ms() - int(self._budget.age_max_s * 1000)
                cut = max(cut, records.offset_at(oldest_ms))
            return cut
        finally:
            records.close()

    def _looked(self, found: list[int], error: StoreError | None) -> None:
        self._looking = False
        if error is not None:
            self._around.report("lag-budget-not-looked-at", {"error": str(error)})
            return
        self.cut = max(self.cut, *found)
        for row in self._settle.waiting.idle_below(self.cut):
            self._counts[row.key.route] += 1
            self._settle.drop_row(row, REASON)

    def _tell(self) -> None:
        counts, self._counts = self._counts, Counter()
        for route, count in counts.items():
            self._around.meter.add(f'given_up_total{{reason="{REASON}"}}', count)
            told = GivenUp(route, count, REASON)
            fields: dict[str, object] = {"route": told.route, "count": told.count}
            self._around.warn("matches-given-up", fields | {"reason": told.reason})
