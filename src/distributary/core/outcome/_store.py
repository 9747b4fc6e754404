"""The delivery store: retry rows, backfill rows, dead letters.

One owner writes it: the process that holds the partition. In the embedded set-up each partition has
its own SQLite file, so owners never wait for one another; the tables have a partition column all
the same, so that one PostgreSQL database can hold them all.

All changes of one flush are one transaction (``apply``) and idempotent, so an interrupted flush can
be repeated.
"""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.database import sqlite
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey
from distributary.core.journal import unfenced
from distributary.core.outcome._dead_letter_tables import dead_letter as letter_table
from distributary.core.outcome._dead_letter_tables import route as route_table
from distributary.core.outcome._dead_letters import DeadLetters
from distributary.core.outcome._delivery_rows import DeliveryRows
from distributary.core.outcome._delivery_tables import RETRY, VERSION
from distributary.core.outcome._kept_outcomes import kept_outcomes
from distributary.core.outcome._letter_events import without_query
from distributary.core.outcome._metadata import metadata
from distributary.core.outcome._run_rows import ADDED as RUN_COLUMNS
from distributary.core.outcome.dead_letter import (
    Budgets,
    DeadLetter,
    Failure,
)
from distributary.core.shown import shown_uri

STORE = "delivery store"
"""Name of the store in messages."""
SCHEMA_VERSION = 4
"""Raised when an older version must not write the file. Version 1 kept a whole event for each dead
letter; before version 3 dead letters had no namespace, and before version 4 runs no counts."""
MOVED_COUNT = 1_000
"""Dead letters of version 1 migrated at once: up to 1 MiB each."""
VACUUM_PAGES = 2_000
"""Free pages returned to the disk by one call: 8 MiB, some 20 ms."""
FREE_PAGES_FEW = 256
"""With fewer free pages than these (1 MiB), or less than a quarter of all, the file keeps them for
later rows."""
_meta = metadata
_Found = TypeVar("_Found")


class DeliveryStore(DeliveryRows):
    """Retries, backfills and dead letters of one partition; blocking, for a separate thread.

    Args:
        url: ``sqlite_url`` of a file.
        partition: Partition number.
        budgets: Limits of the kept dead letters.
        fence: Called in each transaction before it counts; raises if another owner has the
            partition.
    """

    def __init__(
        self,
        url: sa.URL,
        partition: int,
        budgets: Budgets | None = None,
        fence: Callable[[], None] = unfenced,
    ) -> None:
        super().__init__(partition, budgets)
        self._fence = fence
        self._engine = database.open_writer(url, STORE, gives_back=True)
        # The owners of all partitions may open it at once; one of them migrates it.
        with database.migrating(self._engine) as connection:
            VERSION.create(connection, checkfirst=True)
            found = connection.execute(sa.select(VERSION.c.version)).scalar()
            if found is not None and found > SCHEMA_VERSION:
                raise StoreError(
                    f"the delivery store has schema {found}, this version knows {SCHEMA_VERSION}:"
                    " upgrade distributary, or use another data directory"
                )
            _meta.create_all(connection)
            for columns in ([RETRY.c.event], [route_table.c.namespace], RUN_COLUMNS):
                database.add_columns(connection, *columns)
            for index in letter_table.indexes:
                index.create(connection, checkfirst=True)
            if found is None:
                connection.execute(VERSION.insert().values(version=SCHEMA_VERSION))
            elif found < SCHEMA_VERSION:
                if found == 1:
                    _bring_up(connection)
                connection.execute(VERSION.update().values(version=SCHEMA_VERSION))
        self._reader = database.open_reader(url, STORE)
        if found is not None:
            sqlite.let_give_back(self._engine)

    def kept_outcomes(self, cursor: int, done: Collection[DoneKey]) -> list[tuple[DoneKey, int]]:
        """Return matches with a kept dead letter that a restart at *cursor* would make again.

        Args:
            cursor: The committed offset.
            done: Matches with an outcome.

        Returns:
            The matches, with the checksums of their records.
        """
        return self._read(
            lambda connection: kept_outcomes(connection, self._partition, cursor, done)
        )

    def _read(self, work: Callable[[Connection], _Found]) -> _Found:
        with database.reading(self._reader) as connection:
            return work(connection)

    def _write(self, work: Callable[[Connection], _Found]) -> _Found:
        with database.writing(self._engine) as connection:
            found = work(connection)
            self._fence()
            return found

    def _give_back(self) -> bool:
        """Return free pages to the disk; True if there are more."""
        with self._turn:
            return sqlite.give_back(self._engine, VACUUM_PAGES, FREE_PAGES_FEW)

    def close(self) -> None:
        """Close the connections."""
        self._reader.dispose()
        self._engine.dispose()


def _bring_up(connection: Connection) -> None:
    """Migrate all partitions from version 1 to 2: dead letters share events; URIs are redacted."""
    partitions = connection.exec_driver_sql('SELECT DISTINCT "partition" FROM dead_letter')
    for partition in list(partitions.scalars()):
        moved = DeadLetters(partition, Budgets())
        for dead_letters in _dead_letters_of_version_1(connection, partition):
            moved.move(connection, dead_letters)
    connection.exec_driver_sql("DROP TABLE dead_letter")
    waiting = sa.select(RETRY.c.error_dest).where(RETRY.c.error_dest.contains("?")).distinct()
    for dest in connection.execute(waiting).scalars().all():
        same = RETRY.c.error_dest == dest
        connection.execute(RETRY.update().where(same).values(error_dest=shown_uri(dest)))


def _dead_letters_of_version_1(
    connection: Connection, partition: int
) -> Iterator[list[DeadLetter]]:
    """Yield the dead letters of version 1's table, oldest first."""
    mine = 'SELECT * FROM dead_letter WHERE "partition" = :partition'
    order = 'ORDER BY kept_ms, "offset", "index"'
    found = connection.execute(sa.text(f"{mine} {order}"), {"partition": partition}).mappings()
    for rows in found.partitions(MOVED_COUNT):
        yield [
            DeadLetter(
                DoneKey(row["offset"], row["index"], row["route"]),
                row["checksum"],
                Failure(
                    row["reason"],
                    shown_uri(row["error_dest"] or ""),
                    row["error_code"],
                    row["error_data"],
                ),
                without_query(bytes(row["event"])),
                row["kept_ms"],
            )
            for row in rows
        ]
