"""Durable outcomes: the delivery store, the outcome journal, and reservations.

``Ownership`` is a partition's state: committed offset and outcomes, retry rows, backfills and dead
letters. With files, a flush writes the ``DeliveryStore`` before the journal, because the committed
offset must never pass a match whose row is not yet durable. ``ReservationStore`` counts the
deliveries of subscriptions with a ``maxevents``, over all partitions. ``FailingRoute`` reports
failing deliveries to ``knative``.

Hides: file formats, SQL, fsync.
"""

from distributary.core.outcome._failing import (
    FailingReports,
    FailingRoutesFile,
    read_failing,
    write_failing,
)
from distributary.core.outcome._file_reservations import FileReservations, reservation_metadata
from distributary.core.outcome._ownership import Batch, Deliveries, FileOwnership, Ownership
from distributary.core.outcome._reader import DeliveryReader, DeliveryRowsReader, RouteDeliveries
from distributary.core.outcome._store import DeliveryStore
from distributary.core.outcome._tally_file import TallyFile, TallyFileReader
from distributary.core.outcome.dead_letter import (
    AGE_MAX_S,
    BYTES_MAX,
    CLOCK_MS_MIN,
    EVERY_LETTER,
    NO_NAMES,
    ROUTE_BYTES_MAX,
    Budgets,
    DeadLetter,
    Failure,
    GivenUp,
    KeptDeadLetter,
    KeptDeadLetters,
    LetterChoice,
    letters_of,
    selected,
)
from distributary.core.outcome.reservations import (
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
    ReservationStore,
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
from distributary.core.outcome.tallies import (
    FAILURES_MIN,
    Tally,
    TallyReader,
    TallyStore,
    sum_of,
)
