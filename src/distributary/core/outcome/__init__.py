"""The last room of the flow: what came of each match, durable.

``Ownership`` is what a partition's owner holds: cursor and outcomes, what waits (retries), what
lags and what could not be delivered. With files, a flush writes the ``DeliveryStore`` before the
journal, because the cursor must never pass a match whose row is not yet durable.
``Quota`` counts the deliveries of subscriptions with a ``maxevents``, over all partitions.
``FailingRoute`` tells ``control`` whose deliveries fail.

Hides: file formats, SQL, fsync.
"""

from distributary.core.outcome._counts import Grant, Quota, Slot, SlotWish
from distributary.core.outcome._failing import FailingRoute, read_failing, write_failing
from distributary.core.outcome._letter import (
    AGE_MAX_S,
    BYTES_MAX,
    ROUTE_BYTES_MAX,
    Budgets,
    DeadLetter,
    Failure,
    GivenUp,
)
from distributary.core.outcome._letters import KeptLetter
from distributary.core.outcome._ownership import Batch, Deliveries, FileOwnership, Ownership
from distributary.core.outcome._quota import QuotaStore
from distributary.core.outcome._reader import DeliveryReader, Standing
from distributary.core.outcome._rows import IN_STORE, Changes, LagRow, ParkedRow, RetryRow, RunRow
from distributary.core.outcome._store import DeliveryStore, Kept

__all__ = [
    "AGE_MAX_S",
    "BYTES_MAX",
    "IN_STORE",
    "ROUTE_BYTES_MAX",
    "Batch",
    "Budgets",
    "Changes",
    "DeadLetter",
    "Deliveries",
    "DeliveryReader",
    "DeliveryStore",
    "FailingRoute",
    "Failure",
    "FileOwnership",
    "GivenUp",
    "Grant",
    "Kept",
    "KeptLetter",
    "LagRow",
    "Ownership",
    "ParkedRow",
    "Quota",
    "QuotaStore",
    "RetryRow",
    "RunRow",
    "Slot",
    "SlotWish",
    "Standing",
    "read_failing",
    "write_failing",
]
