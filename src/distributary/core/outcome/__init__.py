"""Durable outcomes: the delivery store, the outcome journal, and quotas.

``Ownership`` is a partition's state: committed offset and outcomes, retry rows, backfills and dead
letters. With files, a flush writes the ``DeliveryStore`` before the journal, because the committed
offset must never pass a match whose row is not yet durable. ``Quota`` counts the deliveries of
subscriptions with a ``maxevents``, over all partitions. ``FailingRoute`` reports failing deliveries
to ``knative``.

Hides: file formats, SQL, fsync.
"""

from distributary.core.outcome._dead_letters import KeptDeadLetter
from distributary.core.outcome._failing import read_failing, write_failing
from distributary.core.outcome._ownership import Batch, Deliveries, FileOwnership, Ownership
from distributary.core.outcome._quota import QuotaStore
from distributary.core.outcome._reader import DeliveryReader, RouteDeliveries
from distributary.core.outcome._store import DeliveryStore, KeptDeadLetters
from distributary.core.outcome.counts import Grant, Quota, QuotaBatch, QuotaRequest, Reservation
from distributary.core.outcome.dead_letter import (
    AGE_MAX_S,
    BYTES_MAX,
    ROUTE_BYTES_MAX,
    Budgets,
    DeadLetter,
    Failure,
    GivenUp,
)
from distributary.core.outcome.rows import (
    IN_STORE,
    BackfillRow,
    Changes,
    FailingRoute,
    ParkedRow,
    RetryRow,
    RunRow,
)
