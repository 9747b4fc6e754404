"""Reads what the owner of a partition keeps, while it writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.outcome._reader import DeliveryRowsReader
from distributary.core.outcome.postgres._tables import STORE


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
