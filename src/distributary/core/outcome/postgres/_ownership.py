"""An ``Ownership`` in PostgreSQL: a flush is one transaction; see ``NumberedOwnership``."""

from collections.abc import Callable
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import database
from distributary.core.clock import Clock, SystemClock
from distributary.core.journal import JournalState, state_of_frames
from distributary.core.outcome._delivery_rows import DeliveryRows
from distributary.core.outcome._numbered import NumberedOwnership
from distributary.core.outcome._patience import AWAY_S_MAX, Patience
from distributary.core.outcome.dead_letter import Budgets, GivenUp
from distributary.core.outcome.postgres._fence import PartitionFence
from distributary.core.outcome.postgres._tables import STORE, outcome_frame, partition_owner
from distributary.core.outcome.rows import Changes

_frame: Final = outcome_frame.c
_Found = TypeVar("_Found")

_NUMBERED: Final = sa.text(
    """
    WITH owner AS (
        UPDATE partition_owner SET n = n + 1
        WHERE partition = :partition AND generation = :generation AND token = :token AND n = :n
        RETURNING n
    )
    INSERT INTO outcome_frame (partition, n, part, frame)
    SELECT :partition, n, 0, :frame FROM owner RETURNING n
    """
).bindparams(sa.bindparam("frame", type_=sa.LargeBinary))
"""Count the flush, and write its frame, in one statement: the most frequent one of all. By itself
it is a whole flush of outcomes."""


def _frames_of(partition: int) -> sa.Select[bytes]:
    query = sa.select(_frame.frame).where(_frame.partition == partition)
    return query.order_by(_frame.n, _frame.part)


class PostgresDeliveries(DeliveryRows):
    """A ``Deliveries``, and ``NumberedFlushes``, in the tables that all partitions share.

    Args:
        url: ``database_url``.
        fence: Of the owner.
        budgets: Limits of the kept dead letters.
        patience: Waits for the database.
        touch: Told "cursor" before the commit of a flush, for tests.
    """

    def __init__(
        self,
        url: sa.URL,
        fence: PartitionFence,
        budgets: Budgets | None,
        patience: Patience,
        touch: Callable[[str], None],
    ) -> None:
        super().__init__(fence.partition, budgets)
        self._writer = database.open_writer(url, STORE)
        self._reader = database.open_reader(url, STORE)
        self._fence = fence
        self._patience = patience
        self._touch = touch

    def _read(self, work: Callable[[Connection], _Found]) -> _Found:
        def once() -> _Found:
            with database.reading(self._reader) as connection:
                return work(connection)

        return self._patience.run(once)

    def _write(self, work: Callable[[Connection], _Found]) -> _Found:
        def once() -> _Found:
            with database.writing(self._writer) as connection:
                self._fence.check_in(connection)
                return work(connection)

        return self._patience.run(once, self._dead_letters.forget_counts)

    def open(self) -> int:
        """See ``NumberedFlushes``."""
        with database.writing(self._writer) as connection:
            return self._fence.raise_in(connection)

    def frames(self) -> list[bytes]:
        """See ``NumberedFlushes``."""
        with database.reading(self._reader) as connection:
            return [bytes(row[0]) for row in connection.execute(_frames_of(self._partition))]

    def last(self) -> int:
        """See ``NumberedFlushes``."""
        query = sa.select(partition_owner.c.n).where(self._fence.mine)
        with database.reading(self._reader) as connection:
            found = connection.execute(query).scalar()
        if found is None:
            raise self._fence.lost()
        return int(found)

    def write(
        self,
        number: int,
        parts: list[bytes],
        changes: Changes,
        given_up: list[GivenUp],
        *,
        replaces: bool,
    ) -> bool:
        """See ``NumberedFlushes``."""
        mine = {"partition": self._partition, "n": number, "frame": parts[0]}
        values = mine | {"generation": self._fence.generation, "token": self._fence.token}
        if len(parts) == 1 and not changes and not replaces:
            self._touch("cursor")
            with database.stating(self._writer) as connection:
                return connection.execute(_NUMBERED, values).scalar() is not None
        with self._turn:
            try:
                with database.writing(self._writer) as connection:
                    if connection.execute(_NUMBERED, values).scalar() is None:
                        return False
                    if replaces:
                        kept = sa.and_(_frame.partition == self._partition, _frame.n <= number)
                        connection.execute(outcome_frame.delete().where(kept))
                    if len(parts) > 1:
                        further = [
                            mine | {"n": number + 1, "part": part, "frame": frame}
                            for part, frame in enumerate(parts[1:], 1)
                        ]
                        connection.execute(outcome_frame.insert(), further)
                    if changes:
                        given_up[:] = self.put(connection, changes)
                    self._touch("cursor")
            except BaseException:
                self._dead_letters.forget_counts()
                raise
        return True


class PostgresOwnership(NumberedOwnership):
    """The durable state of a partition in PostgreSQL, from construction until ``close``.

    Construct it once the lease is held, which fences all owners before.

    Args:
        url: ``database_url``; ``prepare_outcomes`` has made the tables.
        fence: Of the lease.
        budgets: Limits of the kept dead letters.
        clock: Measures waits.
        rows_from: No new row of the history has a lower number.
        away_s_max: Longest wait for the database.
        touch: Told each place that a flush has come to, for tests: "rows" before anything is
            changed, "cursor" before the commit, "end" after it.

    Raises:
        FencedError: A later owner has the partition.
        StoreError: The database failed, or what it keeps is damaged.
    """

    def __init__(
        self,
        url: sa.URL,
        fence: PartitionFence,
        budgets: Budgets | None = None,
        *,
        clock: Clock | None = None,
        rows_from: int = 0,
        away_s_max: float = AWAY_S_MAX,
        touch: Callable[[str], None] = lambda _place: None,
    ) -> None:
        patience = Patience(clock or SystemClock(), away_s_max)
        rows = PostgresDeliveries(url, fence, budgets, patience, touch)
        super().__init__(rows, rows, patience, rows_from=rows_from, touch=touch)
        self.keep_within: Callable[[Budgets], None] = rows.keep_within


def read_outcomes(reader: Engine, partition: int) -> JournalState:
    """Return what the owner of *partition* has recorded, for other processes.

    Args:
        reader: Of ``database.open_reader``.
        partition: Its number.

    Raises:
        StoreError: It cannot be read now, or is damaged.
    """
    with database.reading(reader) as connection:
        found = connection.execute(_frames_of(partition))
        return state_of_frames(bytes(row[0]) for row in found)[0]
