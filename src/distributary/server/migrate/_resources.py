"""Moves the resource store and the counts of deliveries: tables that both forms have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from msgspec import structs
from sqlalchemy.engine import Engine

from distributary.core import database
from distributary.core.database import StoreWriter, sqlite_url
from distributary.core.demand import Demand
from distributary.core.outcome import reservation_metadata
from distributary.datadir import DataDir
from distributary.server.migrate import _moving, _tables
from distributary.server.migrate._source import Source
from distributary.subscriptions.store.moving import TABLES, read_demands, write_details
from distributary.subscriptions.store.store import Store

STORE: Final = "resource store"
_COUNTS: Final = [
    each for each in reservation_metadata.sorted_tables if each.name != "quota_schema"
]
"""Without the version, which who makes them writes."""


def demands(paths: DataDir) -> list[Demand]:
    """What people have asked of the partitions, those that are kept."""
    with _sources(paths) as found, database.reading(found[0][0]) as connection:
        return read_demands(connection)


def counted(paths: DataDir) -> dict[str, int]:
    """How many rows each table has."""
    found: dict[str, int] = {}
    with _sources(paths) as sources:
        for engine, these in sources:
            with database.reading(engine) as connection:
                for table in these:
                    query = sa.select(sa.func.count()).select_from(table)
                    found[table.name] = int(connection.execute(query).scalar_one())
    return found


def move(source: Source, url: sa.URL) -> dict[str, int]:
    """Replace the tables in the database at *url*; returns how many rows each has.

    Raises:
        StoreError: The database failed: nothing of a table has changed, or all.
    """
    Store(url, sealer=source.sealer).close()  # makes the tables
    writer = StoreWriter(url, STORE)
    found: dict[str, int] = {}
    with _sources(source.paths) as sources:
        for engine, these in sources:
            with writer.changing() as connection:
                rewrites = {"slot": _rewriting(source, engine)} if these is _COUNTS else {}
                found |= _tables.replace(engine, connection, these, rewrites)
    return found


def move_chosen(
    url: sa.URL, asked: Iterable[Demand], letters: Mapping[int, _moving.Numbers]
) -> None:
    """Have runs of chosen dead letters choose the same ones; once more does no harm.

    Args:
        url: The database.
        asked: The demands before.
        letters: By partition, the new numbers of kept dead letters.

    Raises:
        StoreError: The database failed: all have changed, or none.
    """
    with StoreWriter(url, STORE).changing() as connection:
        for demand in asked:
            if demand.details.ids:
                ids = _moving.chosen(demand.details.ids, letters)
                write_details(connection, demand.seq, structs.replace(demand.details, ids=ids))


def check(source: Source, url: sa.URL, rows: Mapping[str, int]) -> None:
    """Count once more what was moved.

    Raises:
        MigrationError: It is not what there was.
    """
    reader = database.open_reader(url, STORE)
    with _sources(source.paths) as sources:
        for _, these in sources:
            _tables.check_counts(reader, these, rows)


@contextmanager
def _sources(paths: DataDir) -> Iterator[list[tuple[Engine, Sequence[sa.Table]]]]:
    """Open the files of the directory, each with its tables: resources, then counts if any."""
    found: list[tuple[Engine, Sequence[sa.Table]]]
    found = [(database.open_reader(sqlite_url(paths.state_db), STORE), TABLES)]
    if paths.quota_db.exists():
        found.append(
            (database.open_reader(sqlite_url(paths.quota_db), "reservation store"), _COUNTS)
        )
    try:
        yield found
    finally:
        for engine, _ in found:
            engine.dispose()


def _rewriting(source: Source, counts: Engine) -> _tables.Rewrite:
    """How a reservation of a counted match is rewritten: it names a record."""
    (slot,) = (each for each in _COUNTS if each.name == "slot")
    held: dict[int, list[int]] = {each.partition: [] for each in source.partitions}
    with database.reading(counts) as connection:
        for partition, offset in connection.execute(sa.select(slot.c.partition, slot.c.offset)):
            held[partition].append(offset)
    movings = {each.partition: each.moving(held[each.partition]) for each in source.partitions}

    def rewrite(row: Mapping[str, Any]) -> dict[str, Any]:
        moving = movings[row["partition"]]
        return {
            **row,
            "offset": moving.offset(row["offset"]),
            "checksum": moving.checksum(row["offset"], row["checksum"]),
        }

    return rewrite
