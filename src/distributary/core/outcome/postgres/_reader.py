"""Reads what the owner of a partition keeps, while it writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.journal_blocks import blocks_of_frames
from distributary.core.journal_frames import HistoryBlock
from distributary.core.outcome._dead_letter_tables import dead_letter
from distributary.core.outcome._reader import DeliveryRowsReader
from distributary.core.outcome.postgres._tables import STORE, outcome_frame


class PostgresDeliveryReader(DeliveryRowsReader):
    """Read-only view of one partition's deliveries, as ``DeliveryReader`` is of a file.

    Args:
        url: ``database_url``; ``prepare_outcomes`` has made the tables.
        partition: Partition number.
    """

    def __init__(self, url: sa.URL, partition: int) -> None:
        super().__init__(partition)
        self._reader = database.open_reader(url, STORE)

    @contextmanager
    def _look(self) -> Iterator[Connection]:
        with database.reading(self._reader) as connection:
            yield connection

    def waiting_rows(self) -> list[HistoryBlock]:
        """Return the rows of the history that its files may not hold yet, in order.

        Raises:
            StoreError: They cannot be read now.
        """
        query = sa.select(outcome_frame.c.frame).where(outcome_frame.c.partition == self._partition)
        query = query.order_by(outcome_frame.c.n, outcome_frame.c.part)
        with self._look() as connection:
            return blocks_of_frames(map(bytes, connection.execute(query).scalars()))


def partitions_with_letters(url: sa.URL) -> list[int]:
    """Returns the partitions that keep dead letters now, ascending.

    Raises:
        StoreError: They cannot be read now.
    """
    # One step down the index for each partition: PostgreSQL would read all rows for DISTINCT.
    found: list[int] = []
    reader = database.open_reader(url, STORE)
    try:
        with database.reading(reader) as connection:
            least = sa.select(sa.func.min(dead_letter.c.partition))
            next_one = connection.execute(least).scalar()
            while next_one is not None:
                found.append(int(next_one))
                further = least.where(dead_letter.c.partition > next_one)
                next_one = connection.execute(further).scalar()
    finally:
        reader.dispose()
    return found
