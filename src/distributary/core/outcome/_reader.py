"""Reads the delivery store of a partition while its owner writes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.outcome import _dead_letter_tables as t
from distributary.core.outcome._dead_letters import DeadLetters, KeptDeadLetter
from distributary.core.outcome._store import (
    BACKFILL,
    PARKED,
    RETRY,
    RUN,
    SCHEMA_VERSION,
    STORE,
    VERSION,
)
from distributary.core.outcome.dead_letter import Budgets
from distributary.core.outcome.rows import ParkedRow, RunRow
from distributary.core.sqlite import looking


class RouteDeliveries(NamedTuple):
    """The deliveries of a route in one partition.

    Attributes:
        waiting: Retry rows: for the next attempt, for space in a queue, or for a resume.
        backfilling: True while a backfill delivers for it.
        kept: Dead letters.
        kept_bytes: Of their events.
        parked: If it is parked: since when, and why.
    """

    waiting: int
    backfilling: bool
    kept: int
    kept_bytes: int
    parked: ParkedRow | None


NOTHING = RouteDeliveries(0, backfilling=False, kept=0, kept_bytes=0, parked=None)


class DeliveryReader:
    """Read-only view of one partition's delivery store; opened for each read.

    A store that does not exist, or that its owner has not migrated yet, is empty.

    Args:
        path: The SQLite file.
        partition: Partition number.
    """

    def __init__(self, path: Path, partition: int) -> None:
        self._path = path
        self._partition = partition

    @contextmanager
    def _look(self) -> Iterator[Connection | None]:
        if not self._path.exists():
            yield None
            return
        with looking(self._path, STORE) as connection:
            made = sa.inspect(connection).has_table(VERSION.name)
            version = connection.execute(sa.select(VERSION.c.version)).scalar() if made else 0
            yield connection if version == SCHEMA_VERSION else None

    def standing(self, route: str) -> RouteDeliveries:
        """Return the state of *route* in this partition.

        Raises:
            StoreError: It cannot be read now.
        """
        with self._look() as connection:
            return NOTHING if connection is None else self._standing(connection, route)

    def _standing(self, connection: Connection, route: str) -> RouteDeliveries:
        mine = self._partition
        waiting = sa.select(sa.func.count()).where(
            RETRY.c.partition == mine, RETRY.c.route == route, RETRY.c.done.is_(False)
        )
        backfilling = sa.select(sa.func.count()).where(
            BACKFILL.c.partition == mine, BACKFILL.c.route == route, BACKFILL.c.to_offset.is_(None)
        )
        kept = (
            sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(t.body.c.size), 0))
            .select_from(t.dead_letter)
            .join(t.body, t.body.c.id == t.dead_letter.c.body)
            .join(t.route, t.route.c.id == t.dead_letter.c.route)
            .where(t.dead_letter.c.partition == mine, t.route.c.route == route)
        )
        columns: list[Any] = [PARKED.c[name] for name in ParkedRow._fields]
        parked = sa.select(*columns).where(PARKED.c.partition == mine, PARKED.c.route == route)
        found = connection.execute(parked).one_or_none()
        count, size = connection.execute(kept).one()
        return RouteDeliveries(
            int(connection.execute(waiting).scalar_one()),
            bool(connection.execute(backfilling).scalar_one()),
            int(count),
            int(size),
            None if found is None else ParkedRow._make(found),
        )

    def run(self, seq: int) -> RunRow | None:
        """Return the progress of the run of demand *seq*; None: it has not begun.

        Raises:
            StoreError: It cannot be read now.
        """
        columns: list[Any] = [RUN.c[name] for name in RunRow._fields]
        mine = sa.and_(RUN.c.partition == self._partition, RUN.c.seq == seq)
        with self._look() as connection:
            if connection is None:
                return None
            found = connection.execute(sa.select(*columns).where(mine)).one_or_none()
        return None if found is None else RunRow._make(found)

    def dead_letters(
        self, limit: int, after: int = 0, route: str | None = None
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters after number *after*, at most *limit*.

        Raises:
            StoreError: They cannot be read now.
        """
        with self._look() as connection:
            if connection is None:
                return []
            return list(
                DeadLetters(self._partition, Budgets()).read(connection, limit, after, route)
            )
