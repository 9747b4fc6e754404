"""Routes that fail, as the owner of a partition tells the control process of."""

import msgspec
import sqlalchemy as sa

from distributary.core import database
from distributary.core.outcome._upsert import upsert
from distributary.core.outcome.postgres._fence import PartitionFence
from distributary.core.outcome.postgres._tables import STORE, failing
from distributary.core.outcome.rows import FailingRoute


class PostgresFailing:
    """A ``FailingReports`` of a partition.

    Args:
        url: ``database_url``; ``prepare_outcomes`` has made the tables.
        partition: Its number.
        fence: Of the owner; None: who only reads.
    """

    def __init__(self, url: sa.URL, partition: int, fence: PartitionFence | None = None) -> None:
        # Told again at the next change where a crash of the database loses it.
        self._writer = database.open_writer(url, STORE, durable=False)
        self._reader = database.open_reader(url, STORE)
        self._partition = partition
        self._fence = fence

    def read(self) -> list[FailingRoute]:
        """See ``FailingReports``.

        Raises:
            StoreError: It cannot be read now.
        """
        query = sa.select(failing.c.routes).where(failing.c.partition == self._partition)
        with database.reading(self._reader) as connection:
            found = connection.execute(query).scalar()
        return [] if found is None else msgspec.json.decode(found, type=list[FailingRoute])

    def write(self, routes: list[FailingRoute]) -> None:
        """See ``FailingReports``.

        Raises:
            FencedError: A later owner has the partition.
        """
        assert self._fence is not None
        row = {"partition": self._partition, "routes": msgspec.json.encode(routes)}
        with database.writing(self._writer) as connection:
            self._fence.check_in(connection)
            upsert(connection, failing, [row])
