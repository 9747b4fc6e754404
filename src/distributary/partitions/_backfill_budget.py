"""Enforces the operator's backfill budget: gives up the oldest matches beyond it.

Retention keeps the log for backfills, so one dead sink keeps all of it. Off by default: the disk
watermark is the last defence.
"""

from typing import Final

from distributary.core.engine.machine import Engine
from distributary.core.errors import DistributaryError, StoreError
from distributary.partitions.context import PartitionContext

LOOK_EVERY_S: Final = 10.0
"""How often the budget is checked: at least as often as retention runs."""


class BackfillLimit:
    """Periodically finds the offset where the budget ends.

    Args:
        context: Ports of the consumer.
        engine: Gives up matches below it.
    """

    def __init__(self, context: PartitionContext, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._budget = context.backfill_budget
        self._due_s = float("-inf")
        self._looking = False

    def tick(self) -> None:
        """Check the budget if that is due."""
        now_s = self._context.clock.monotonic_s()
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

        self._context.aside.run(work, lambda error: self._looked(found, error))

    def _look(self) -> int:
        """Returns the lowest offset within the budget."""
        records = self._context.make_records()
        try:
            cut = 0
            if self._budget.bytes_max:
                cut = records.offset_within(self._budget.bytes_max)
            if self._budget.age_max_s:
                oldest_ms = self._context.clock.wall_ms() - int(self._budget.age_max_s * 1000)
                cut = max(cut, records.offset_at(oldest_ms))
            return cut
        finally:
            records.close()

    def _looked(self, found: list[int], error: StoreError | None) -> None:
        self._looking = False
        if error is not None:
            self._context.report("lag-budget-not-looked-at", {"error": str(error)})
            return
        self._engine.set_budget(*found)
