"""How deliveries stand, for people; and what people ask of them.

Control reads what owners write (their delivery stores, and whose deliveries fail), and writes what
it asks of them into its own store: a *demand*, which each owner meets in its own time.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from distributary.clock import Clock
from distributary.control._demands import Demand
from distributary.control._store import Store
from distributary.control._stored import StoredSubscription
from distributary.outcome import DeliveryReader, FailingRoute, Standing, read_failing


class RouteState(NamedTuple):
    """How the deliveries of a subscription stand.

    Attributes:
        subscription: As it stands now.
        partitions: How it stands in each of them, in their order.
        failing: Its failures since the last delivery, for each partition where there are any.
    """

    subscription: StoredSubscription
    partitions: list[Standing]
    failing: list[FailingRoute]


class Deliveries:
    """Looks at the partitions, and asks their owners.

    Args:
        store: The resources, and the demands.
        clock: For stamps.
        databases: The delivery store of each partition, in their order.
        failing: The file of each that tells whose deliveries fail.
        new_uuid: Draws ids of runs.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        databases: Sequence[Path],
        failing: Sequence[Path],
        *,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._store = store
        self._clock = clock
        self._readers = [DeliveryReader(path, number) for number, path in enumerate(databases)]
        self._failing = failing
        self._new_uuid = new_uuid

    async def state(self, id_: str) -> RouteState:
        """How the deliveries of the subscription with this id stand.

        Raises:
            NotFoundError: There is none.
            StoreError: That cannot be read now.
        """
        return await asyncio.to_thread(self._state, id_)

    def _state(self, id_: str) -> RouteState:
        found = self._store.find(id_)
        return RouteState(
            found,
            [reader.standing(found.uid) for reader in self._readers],
            [row for path in self._failing for row in read_failing(path) if row.route == found.uid],
        )

    async def resume(self, id_: str) -> Demand:
        """Ask for the subscription to be sent to again; nothing changes where it is not parked.

        Raises:
            NotFoundError: There is none of this id.
            RequestError: Too much was asked lately.
            StoreError: Nothing was asked.
        """
        return await asyncio.to_thread(self._resume, id_)

    def _resume(self, id_: str) -> Demand:
        uid = self._store.find(id_).uid
        run = self._new_uuid().hex
        return self._store.demand("resume", uid, run, self._clock.wall_ms())
