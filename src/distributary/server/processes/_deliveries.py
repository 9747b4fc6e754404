"""Where control finds how deliveries stand: the files that owners of partitions write."""

from distributary.core.clock import Clock
from distributary.datadir import DataDir
from distributary.subscriptions.service import Deliveries
from distributary.subscriptions.store.store import Store


def look_at(paths: DataDir, partitions: int, store: Store, clock: Clock) -> Deliveries:
    """How the deliveries of all partitions stand."""
    numbers = range(partitions)
    return Deliveries(
        store,
        clock,
        [paths.delivery_db(number) for number in numbers],
        [paths.failing(number) for number in numbers],
    )
