"""What the owner of a partition keeps in PostgreSQL, where any machine may own it next.

Each has a back end in files beside it: ``PostgresOwnership`` (``FileOwnership``),
``PostgresReservations`` (``FileReservations``), ``PostgresTallies`` (``TallyFile``),
``PostgresFailing`` (``FailingFile``) and ``PostgresDeliveryReader`` (``DeliveryReader``).
``prepare_outcomes`` makes the tables.

Every write of an owner is fenced: its transaction compares the generation of the owner
(``PartitionFence``), and one that has been replaced writes nothing.
"""

from distributary.core.outcome.postgres._failing import PostgresFailing
from distributary.core.outcome.postgres._fence import PartitionFence, usurp_partition
from distributary.core.outcome.postgres._ownership import PostgresOwnership, read_outcomes
from distributary.core.outcome.postgres._reader import (
    PostgresDeliveryReader,
    partitions_with_letters,
)
from distributary.core.outcome.postgres._reservations import PostgresReservations
from distributary.core.outcome.postgres._tables import prepare_outcomes
from distributary.core.outcome.postgres._tallies import PostgresTallies, PostgresTallyReader

__all__ = [
    "PartitionFence",
    "PostgresDeliveryReader",
    "PostgresFailing",
    "PostgresOwnership",
    "PostgresReservations",
    "PostgresTallies",
    "PostgresTallyReader",
    "partitions_with_letters",
    "prepare_outcomes",
    "read_outcomes",
    "usurp_partition",
]
