"""Where control finds how deliveries stand: the files that owners of partitions write."""

from distributary.core.clock import Clock
from distributary.datadir import Places
from distributary.subscriptions.service import Deliveries
from distributary.subscriptions.store.store import Store


def look_at(places: Places, partitions: int, store: Store, clock: Clock) -> Deliveries:
    """How the deliveries of all partitions stand."""
    numbers = range(partitions)
    return Deliveries(
        store,
        clock,
        [places.delivery_db(number) for number in numbers],
        [places.failing(number) for number in numbers],
    )
