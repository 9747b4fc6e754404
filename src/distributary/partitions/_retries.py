"""Retry runs: what waits for its time at a route is due now, in one step.

The step is durable in the flush that ends the run. A route may have 10,000 rows, some 30 ms of the
loop's time: runs take turns, and wait for flushes, as those that send do.
"""

from collections.abc import Callable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.demand import Demand
from distributary.core.engine.machine import Engine
from distributary.core.engine.state import PartitionState
from distributary.core.outcome import RunRow
from distributary.partitions._run import Run
from distributary.partitions.context import PartitionContext

RETRY: Final = "retry"
"""The kind of their demands."""


class Retries:
    """Takes retry runs; a ``RunKind``.

    Args:
        context: Ports of the consumer.
        state: Holds the waiting rows.
        engine: Attempts rows.
    """

    def __init__(self, context: PartitionContext, state: PartitionState, engine: Engine) -> None:
        self._store = context.ownership.store
        self._clock: Clock = context.clock
        self._rows = state.rows
        self._engine = engine

    def begin(self, demand: Demand) -> RunRow:
        return self._store.begin_run_as(RunRow(demand.seq, 0, 0, 0, 0, done=False))

    def take(self, run: Run, _count: int, then: Callable[[RunRow | None], None]) -> None:
        route = run.demand.route
        if run.demand.details.dry:
            count = len(self._rows.waiting([route]))
        else:
            self._engine.at(self._clock.monotonic_s(), self._clock.wall_ms())
            count = self._engine.retry_now(route)
        row = run.row._replace(handled=count, selected=count, looked=count, total=count)
        then(row._replace(done=True))


def alike(run: Run, other: Run) -> bool:
    """Whether both are retry runs of one route, so that what ends one ends the other."""
    one, another = run.demand, other.demand
    return one.kind == another.kind == RETRY and (one.route, one.details.dry) == (
        another.route,
        another.details.dry,
    )
