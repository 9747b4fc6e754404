"""Enforces budgets of backfills: that of the operator, and the quota of each namespace.

Retention keeps the log for backfills, so one dead sink keeps all of it. The oldest matches beyond
the operator's budget are given up; those beyond a namespace's quota become kept dead letters. Both
are off by default: the disk watermark is the last defence.
"""

import functools
from typing import Final

from distributary.core.engine.cuts import Cuts
from distributary.core.engine.machine import Engine
from distributary.core.errors import DistributaryError, StoreError
from distributary.partitions.context import PartitionContext

LOOK_EVERY_S: Final = 10.0
"""How often the budget is checked: at least as often as retention runs."""


class BackfillLimit:
    """Periodically finds the offsets where budgets end.

    Args:
        context: Ports of the consumer.
        engine: Ends matches below them.
    """

    def __init__(self, context: PartitionContext, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._budget = context.backfill_budget
        self._limited = bool(self._budget)  # looks at the quotas of all namespaces
        self._due_s = float("-inf")
        self._looking = False

    def tick(self) -> None:
        """Check the budget if that is due."""
        now_s = self._context.clock.monotonic_s()
        if not self._limited or self._looking or now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_EVERY_S
        self._looking = True
        found: list[Cuts] = []
        age_ms = self._context.ages.now_ms()

        def work() -> None:
            try:
                found.append(self._look(age_ms))
            except DistributaryError as error:
                raise StoreError(str(error)) from error

        self._context.aside.run(work, lambda error: self._looked(found, error))

    def _look(self, now_ms: int) -> Cuts:
        """Returns the lowest offsets within the budgets; at *now_ms* 0 ages do not count."""
        records = self._context.make_records()
        budget = self._budget

        @functools.cache  # namespaces have few different quotas
        def within(bytes_max: int) -> int:
            return records.offset_within(bytes_max // budget.partitions) if bytes_max else 0

        try:
            cut = 0
            if self._budget.bytes_max:
                cut = records.offset_within(self._budget.bytes_max)
            if self._budget.age_max_s and now_ms:
                oldest_ms = now_ms - int(self._budget.age_max_s * 1000)
                cut = max(cut, records.offset_at(oldest_ms))
            named = {
                name: within(quotas.pinned_log_bytes)
                for name, quotas in budget.quotas.named.items()
            }
            return Cuts(cut, within(budget.quotas.others.pinned_log_bytes), named)
        finally:
            records.close()

    def _looked(self, found: list[Cuts], error: StoreError | None) -> None:
        self._looking = False
        if error is not None:
            self._context.warn("lag-budget-not-looked-at", {"error": str(error)})
            return
        self._engine.set_budget(*found)
