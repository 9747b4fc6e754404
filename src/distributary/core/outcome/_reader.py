"""Reads the delivery store of a partition while its owner writes it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.database.sqlite import looking
from distributary.core.outcome import _dead_letter_tables as t
from distributary.core.outcome._delivery_tables import BACKFILL, PARKED, RETRY, VERSION
from distributary.core.outcome._letter_choice import choose_letters
from distributary.core.outcome._run_rows import read_runs
from distributary.core.outcome._store import SCHEMA_VERSION, STORE
from distributary.core.outcome.dead_letter import KeptDeadLetter, LetterChoice
from distributary.core.outcome.rows import ParkedRow, RunRow


class RouteDeliveries(NamedTuple):
    """The deliveries of a route in one partition.

    Attributes:
        waiting: Retry rows: for the next attempt, for space in a queue, or for a resume.
        backfilling: True while a backfill delivers for it.
        backfill_from: The first record that this may still deliver; None: there is none.
        kept: Dead letters.
        kept_bytes: Of their events.
        parked: If it is parked: since when, and why.
    """

    waiting: int
    backfilling: bool
    kept: int
    kept_bytes: int
    parked: ParkedRow | None
    backfill_from: int | None = None


NOTHING = RouteDeliveries(0, backfilling=False, kept=0, kept_bytes=0, parked=None)


class DeliveryRowsReader(ABC):
    """Read-only view of one partition's deliveries, in a database of either kind.

    Args:
        partition: Partition number.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition

    @abstractmethod
    def _look(self) -> AbstractContextManager[Connection | None]:
        """Open a connection that reads; None: there is no store yet."""

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
        backfilling = sa.select(sa.func.min(BACKFILL.c.from_offset)).where(
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
        first = connection.execute(backfilling).scalar_one()
        count, size = connection.execute(kept).one()
        return RouteDeliveries(
            int(connection.execute(waiting).scalar_one()),
            first is not None,
            int(count),
            int(size),
            None if found is None else ParkedRow._make(found),
            first,
        )

    def awaiting(self, offset: int, index: int) -> frozenset[str]:
        """Return the routes for which the event at *offset* and *index* still waits.

        Each other route that it matched has its outcome, once the committed offset has passed.

        Raises:
            StoreError: They cannot be read now.
        """
        rows = sa.select(RETRY.c.route).where(
            RETRY.c.partition == self._partition,
            RETRY.c.offset == offset,
            RETRY.c.index == index,
            RETRY.c.done.is_(False),
        )
        backfilled = sa.select(BACKFILL.c.route).where(
            BACKFILL.c.partition == self._partition,
            BACKFILL.c.from_offset <= offset,
            sa.or_(BACKFILL.c.to_offset.is_(None), BACKFILL.c.to_offset > offset),
        )
        with self._look() as connection:
            if connection is None:
                return frozenset()
            return frozenset(connection.execute(sa.union(rows, backfilled)).scalars())

    def kept(self, namespace: str) -> tuple[int, int]:
        """Return the number of dead letters of *namespace*, and the bytes of their events.

        Raises:
            StoreError: They cannot be read now.
        """
        count = (
            sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(t.body.c.size), 0))
            .select_from(t.dead_letter)
            .join(t.body, t.body.c.id == t.dead_letter.c.body)
            .join(t.route, t.route.c.id == t.dead_letter.c.route)
            .where(t.dead_letter.c.partition == self._partition, t.route.c.namespace == namespace)
        )
        with self._look() as connection:
            if connection is None:
                return 0, 0
            found, size = connection.execute(count).one()
        return int(found), int(size)

    def runs(self, seqs: Sequence[int]) -> dict[int, RunRow]:
        """Return the progress of the runs of these demands, of those that have begun.

        Raises:
            StoreError: It cannot be read now.
        """
        with self._look() as connection:
            return {} if connection is None else read_runs(connection, self._partition, list(seqs))

    def dead_letters(
        self, choice: LetterChoice, limit: int, after: int, bytes_max: int
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters of *choice*; see ``DeliveryStore.chosen_letters``.

        Raises:
            StoreError: They cannot be read now.
        """
        with self._look() as connection:
            if connection is None:
                return []
            return choose_letters(
                connection,
                self._partition,
                choice,
                limit=limit,
                after=after,
                bytes_max=bytes_max,
            )


class DeliveryReader(DeliveryRowsReader):
    """Read-only view of one partition's delivery store; opened for each read.

    A store that does not exist, or that its owner has not migrated yet, is empty.

    Args:
        path: The SQLite file.
        partition: Partition number.
    """

    def __init__(self, path: Path, partition: int) -> None:
        super().__init__(partition)
        self._path = path

    @contextmanager
    def _look(self) -> Iterator[Connection | None]:
        if not self._path.exists():
            yield None
            return
        with looking(self._path, STORE) as connection:
            made = sa.inspect(connection).has_table(VERSION.name)
            version = connection.execute(sa.select(VERSION.c.version)).scalar() if made else 0
            yield connection if version == SCHEMA_VERSION else None
