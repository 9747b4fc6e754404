"""The last room of the flow: what came of each match, durable.

``DeliveryStore`` holds what waits (retries), what lags and what could not be delivered. The
partition's owner in ``pipeline`` writes it from its flush thread before the journal (module
``journal``), because the cursor must never pass a match whose row is not yet durable.
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
from distributary.core.outcome._quota import QuotaStore
from distributary.core.outcome._reader import DeliveryReader, Standing
from distributary.core.outcome._rows import IN_STORE, Changes, LagRow, ParkedRow, RetryRow, RunRow
from distributary.core.outcome._store import DeliveryStore, Kept

__all__ = [
    "AGE_MAX_S",
    "BYTES_MAX",
    "IN_STORE",
    "ROUTE_BYTES_MAX",
    "Budgets",
    "Changes",
    "DeadLetter",
    "DeliveryReader",
    "DeliveryStore",
    "FailingRoute",
    "Failure",
    "GivenUp",
    "Grant",
    "Kept",
    "KeptLetter",
    "LagRow",
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
