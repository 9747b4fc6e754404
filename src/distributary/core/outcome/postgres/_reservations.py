"""Counts of deliveries in PostgreSQL, changed by the owners of all partitions at once."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.clock import Clock
from distributary.core.outcome._file_reservations import STORE, ReservationRows, counted_table
from distributary.core.outcome.postgres._fence import PartitionFence


class PostgresReservations(ReservationRows):
    """A ``ReservationStore`` in PostgreSQL. For any thread; connects when it is constructed.

    Args:
        url: ``database_url``; ``prepare_outcomes`` has made the tables.
        fence: Of the owner that exchanges; None: who only reads, or may change any partition's.
        clock: Dates the end of deleted subscriptions.

    Raises:
        StoreError: The database failed.
    """

    def __init__(
        self, url: sa.URL, fence: PartitionFence | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(clock)
        self._fence = fence
        self._writer = database.open_writer(url, STORE)
        self._reader = database.open_reader(url, STORE)
        self._exists = False
        self._counts()

    @property
    def exists(self) -> bool:
        """See ``ReservationStore.exists``; as of the last call that asked the database."""
        return self._exists

    def _counts(self) -> bool:
        if not self._exists:
            with self._reading() as connection:
                found = connection.execute(sa.select(counted_table.c.uid).limit(1))
                self._exists = found.scalar() is not None
        return self._exists

    @contextmanager
    def _writing(self, _partition: int, uids: list[str]) -> Iterator[Connection]:
        with database.writing(self._writer) as connection:
            if self._fence is not None:
                self._fence.check_in(connection)
            # Locked before anything is counted: a count in a statement that waits for another
            # owner would be from before that owner's change.
            known = sa.select(counted_table.c.uid).where(counted_table.c.uid.in_(uids))
            connection.execute(known.order_by(counted_table.c.uid).with_for_update())
            yield connection
        self._exists = True

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with database.reading(self._reader) as connection:
            yield connection

    def close(self) -> None:
        """Nothing is held."""
