"""A watcher of tallies in memory, for applications without a partition."""

from collections.abc import Mapping

import structlog

from distributary.core.clock import Clock
from distributary.core.meter import LATENCY_BOUNDS_S
from distributary.core.outcome import TallyReader
from distributary.subscriptions.status import ServerNumbers, Standings, Watcher
from distributary.subscriptions.store.store import Store


def watcher_of(
    store: Store,
    clock: Clock,
    *readers: TallyReader,
    accepted: Mapping[str, float] | None = None,
) -> Watcher:
    """A watcher of *readers*, which looks when its ``turn`` is called."""
    counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
    numbers = ServerNumbers(accepted or {}, 0, LATENCY_BOUNDS_S, counts)
    log = structlog.get_logger("watcher")
    return Watcher(Standings(readers, clock), store, clock, log, server=lambda: numbers)
