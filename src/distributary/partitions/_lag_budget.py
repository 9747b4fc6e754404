"""How far a route may lag, where the operator sets a limit: the oldest matches are given up.

The log is kept for whoever lags, so one dead sink keeps all of it. A limit is off by default: the
disk watermark is the last defence. The log is one, so what one route keeps is kept for all, and a
budget of one route is that of all of them.
"""

from typing import Final

from distributary.core.engine.machine import Engine
from distributary.core.engine.sending import BEYOND_BUDGET
from distributary.core.errors import DistributaryError, StoreError
from distributary.core.outcome import GivenUp
from distributary.partitions.surroundings import Surroundings

LOOK_EVERY_S: Final = 10.0
"""How often it is looked where the budget ends: retention looks that often, or less."""


class LagLimit:
    """Ends what lies beyond the budget.

    Args:
        around: Ports of the owner.
        engine: Drops matches.
    """

    def __init__(self, around: Surroundings, engine: Engine) -> None:
        self._around = around
        self._engine = engine
        self._budget = around.lag_budget
        self._due_s = float("-inf")
        self._looking = False
        around.meter.add(f'given_up_total{{reason="{BEYOND_BUDGET}"}}', 0)

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
        self._engine.set_budget(*found)

    def _tell(self) -> None:
        for route, count in self._engine.take_given_up().items():
            self._around.meter.add(f'given_up_total{{reason="{BEYOND_BUDGET}"}}', count)
            told = GivenUp(route, count, BEYOND_BUDGET)
            fields: dict[str, object] = {"route": told.route, "count": told.count}
            self._around.warn("matches-given-up", fields | {"reason": told.reason})
