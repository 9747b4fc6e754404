"""The delivery store: retry rows, backfill rows, dead letters.

One owner writes it: the process that holds the partition. In the embedded set-up each partition has
its own SQLite file, so owners never wait for one another; the tables have a partition column all
the same, so that one PostgreSQL database can hold them all.

All changes of one flush are one transaction (``apply``) and idempotent, so an interrupted flush can
be repeated.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import sqlite
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Stage
from distributary.core.journal import unfenced
from distributary.core.outcome._dead_letters import DeadLetters, KeptDeadLetter, without_query
from distributary.core.outcome._metadata import metadata
from distributary.core.outcome.dead_letter import Budgets, DeadLetter, Failure, GivenUp
from distributary.core.outcome.rows import (
    IN_STORE,
    BackfillRow,
    Changes,
    ParkedRow,
    RetryRow,
    RunRow,
)
from distributary.core.shown import shown_uri

STORE = "delivery store"
"""Name of the store in messages."""
SCHEMA_VERSION = 2
"""Raised when an older version must not write the file; a new nullable column needs no raise.
Version 1 kept a whole event for each dead letter."""
MOVED_COUNT = 1_000
"""Dead letters of version 1 migrated at once: up to 1 MiB each."""
VACUUM_PAGES = 2_000
"""Free pages returned to the disk by one call: 8 MiB, some 20 ms."""
FREE_PAGES_FEW = 256
"""With fewer free pages than these (1 MiB), or less than a quarter of all, the file keeps them for
later rows."""
RUNS_KEPT = 10_000
"""Finished runs that are remembered: as many as the resource store remembers demands."""
TURNS_MAX = 20
"""Slices of house-keeping in one call; the next call does the rest."""
_meta = metadata

VERSION = sa.Table("delivery_schema", _meta, sa.Column("version", sa.Integer, primary_key=True))

RETRY = sa.Table(
    "retry",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("checksum", sa.BigInteger, nullable=False),
    sa.Column("leg", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("not_before_ms", sa.BigInteger, nullable=False),
    sa.Column("error_dest", sa.Text),
    sa.Column("error_code", sa.Integer),
    sa.Column("error_data", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("done", sa.Boolean, nullable=False),
    sa.Column("event", sa.LargeBinary),
)
BACKFILL = sa.Table(
    "lag",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("start_index", sa.Integer, nullable=False),
    sa.Column("from_offset", sa.BigInteger, nullable=False),
    sa.Column("to_offset", sa.BigInteger),
    sa.Column("record", sa.LargeBinary, nullable=False),
)

RUN = sa.Table(
    "run",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("through", sa.BigInteger, nullable=False),
    sa.Column("handled", sa.BigInteger, nullable=False),
    sa.Column("passed", sa.BigInteger, nullable=False),
    sa.Column("done", sa.Boolean, nullable=False),
)
PARKED = sa.Table(
    "parked",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("demand_seq", sa.BigInteger, nullable=False),
    sa.Column("since_ms", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("dest", sa.Text, nullable=False),
)


class KeptDeadLetters(NamedTuple):
    """The result of ``keep_house``.

    Attributes:
        routes: Those that may have dead letters.
        given_up: Dead letters that were too old.
        more: True if there is more to do at once.
    """

    routes: list[str]
    given_up: list[GivenUp]
    more: bool


class DeliveryStore:
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
        self._fence = fence
        self._engine = sqlite.open_writer(url, STORE, gives_back=True)
        self._partition = partition
        self._dead_letters = DeadLetters(partition, budgets or Budgets())
        self._turn = threading.Lock()  # Of flushes and house-keeping: they count dead letters.
        # The owners of all partitions may open it at once; one of them migrates it.
        with sqlite.writing(self._engine) as connection:
            VERSION.create(connection, checkfirst=True)
            found = connection.execute(sa.select(VERSION.c.version)).scalar()
            if found is not None and found > SCHEMA_VERSION:
                raise StoreError(
                    f"the delivery store has schema {found}, this version knows {SCHEMA_VERSION}:"
                    " upgrade distributary, or use another data directory"
                )
            _meta.create_all(connection)
            _add_event_column(connection)
            if found is None:
                connection.execute(VERSION.insert().values(version=SCHEMA_VERSION))
            elif found < SCHEMA_VERSION:
                _bring_up(connection)
        self._reader = sqlite.open_reader(url, STORE)
        if found is not None:
            sqlite.let_give_back(self._engine)

    def rows(self) -> list[RetryRow]:
        """Return every retry row, done ones included, in the order of the next attempt.

        ``event`` is None or ``IN_STORE``; ``row_event`` has the bytes.
        """
        columns = [column for column in RETRY.c if column is not RETRY.c.event]
        query = (
            sa.select(*columns, RETRY.c.event.is_not(None).label("has_event"))
            .where(RETRY.c.partition == self._partition)
            .order_by(RETRY.c.not_before_ms, RETRY.c.offset, RETRY.c.index)
        )
        with sqlite.reading(self._reader) as connection:
            return [_row_of(found) for found in connection.execute(query).mappings()]

    def row_event(self, key: DoneKey) -> bytes | None:
        """Return the stored bytes of ``RetryRow.event``; None: there are none."""
        query = sa.select(RETRY.c.event).where(
            RETRY.c.partition == self._partition,
            RETRY.c.offset == key.offset,
            RETRY.c.index == key.index,
            RETRY.c.route == key.route,
        )
        with sqlite.reading(self._reader) as connection:
            found = connection.execute(query).scalar()
        return None if found is None else bytes(found)

    def backfills(self) -> list[BackfillRow]:
        """Return every backfill row."""
        query = sa.select(BACKFILL).where(BACKFILL.c.partition == self._partition)
        with sqlite.reading(self._reader) as connection:
            return [
                BackfillRow(
                    found["route"],
                    found["start"],
                    found["start_index"],
                    found["from_offset"],
                    found["to_offset"],
                    bytes(found["record"]),
                )
                for found in connection.execute(query).mappings()
            ]

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """Return the oldest kept dead letters, at most *limit*."""
        return [kept.dead_letter for kept in self.kept_dead_letters(limit)]

    def kept_dead_letters(
        self, limit: int, after: int = 0, route: str | None = None
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters after number *after*, at most *limit*.

        Args:
            limit: Most dead letters; each has its event, of up to 1 MiB.
            after: ``KeptDeadLetter.id`` of the last known one; 0: from the first.
            route: Only of this route; None: of all.
        """
        with sqlite.reading(self._reader) as connection:
            return list(self._dead_letters.read(connection, limit, after, route))

    def apply(self, changes: Changes) -> list[GivenUp]:
        """Make *changes* durable, all or none; idempotent.

        Returns:
            What was given up for the dead letters among them.

        Raises:
            StoreError: Nothing was changed.
        """
        with self._writing() as connection:
            self._put_rows(connection, changes)
            self._put_backfills(connection, changes)
            self._put_parked(connection, changes)
            self._put_runs(connection, list(changes.runs.values()))
            self._dead_letters.take(connection, changes.taken)
            given_up: list[GivenUp] = []
            if changes.dead_letters:
                given_up = self._dead_letters.put(connection, changes.dead_letters)
            if changes.forget:
                connection.execute(
                    RETRY.delete().where(
                        RETRY.c.partition == self._partition,
                        RETRY.c.offset == sa.bindparam("b_offset"),
                        RETRY.c.index == sa.bindparam("b_index"),
                        RETRY.c.route == sa.bindparam("b_route"),
                    ),
                    [
                        {"b_offset": key.offset, "b_index": key.index, "b_route": key.route}
                        for key in changes.forget
                    ],
                )
        return given_up

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Open a transaction for the holder of ``_turn``."""
        with self._turn:
            try:
                with sqlite.writing(self._engine) as connection:
                    yield connection
                    self._fence()
            except BaseException:
                self._dead_letters.forget_counts()
                raise

    def keep_house(self, gone: Collection[str], now_ms: int) -> KeptDeadLetters:
        """Give up dead letters that are too old, delete those of routes in *gone*, free disk space.

        Does a part of it, in short transactions: flushes run in between. Idempotent.

        Raises:
            StoreError: A part of it was not done.
        """
        given_up: list[GivenUp] = []
        left = list(gone)
        more = True
        turns = 0
        while more and turns < TURNS_MAX:
            turns += 1
            with self._writing() as connection:
                old = self._dead_letters.expire(connection, now_ms)
                while left and not self._dead_letters.drop_route(connection, left[-1]):
                    left.pop()  # Nothing of it is left: only a read, no slice.
            given_up += old
            more = bool(old or left)
        if not more:
            more = self._give_back()
        with sqlite.reading(self._reader) as connection:
            return KeptDeadLetters(self._dead_letters.routes(connection), given_up, more)

    def _give_back(self) -> bool:
        """Return free pages to the disk; True if there are more."""
        with self._turn:
            return sqlite.give_back(self._engine, VACUUM_PAGES, FREE_PAGES_FEW)

    def begin_run(self, seq: int) -> RunRow:
        """Return the progress of demand *seq*; a new run covers the present dead letters."""
        with self._writing() as connection:
            mine = sa.and_(RUN.c.partition == self._partition, RUN.c.seq == seq)
            columns: list[Any] = [RUN.c[name] for name in RunRow._fields]
            found = connection.execute(sa.select(*columns).where(mine)).one_or_none()
            if found is not None:
                return RunRow._make(found)
            newest = self._dead_letters.newest(connection)
            row = RunRow(seq, 0, newest, 0, 0, done=False)
            self._put_runs(connection, [row])
            old = sa.and_(RUN.c.partition == self._partition, RUN.c.seq < seq - RUNS_KEPT)
            connection.execute(RUN.delete().where(old, RUN.c.done.is_(True)))
            return row

    def purge(self, row: RunRow, route: str | None) -> RunRow:
        """Delete a slice of the dead letters of a run; return its progress."""
        with self._writing() as connection:
            deleted = self._dead_letters.delete_through(connection, row.through, route)
            row = row._replace(handled=row.handled + deleted, done=not deleted)
            self._put_runs(connection, [row])
            return row

    def _put_runs(self, connection: Connection, rows: list[RunRow]) -> None:
        if rows:
            values = [{"partition": self._partition, **row._asdict()} for row in rows]
            upsert(connection, RUN, values)

    def parked(self) -> list[ParkedRow]:
        """Return every parked route."""
        columns = [PARKED.c[name] for name in ParkedRow._fields]
        query = sa.select(*columns).where(PARKED.c.partition == self._partition)
        with sqlite.reading(self._reader) as connection:
            return [ParkedRow._make(found) for found in connection.execute(query)]

    def _put_parked(self, connection: Connection, changes: Changes) -> None:
        put = [row._asdict() for row in changes.parked.values() if row is not None]
        if put:
            upsert(connection, PARKED, [{"partition": self._partition, **row} for row in put])
        gone = [route for route, row in changes.parked.items() if row is None]
        if gone:
            mine = sa.and_(PARKED.c.partition == self._partition, PARKED.c.route.in_(gone))
            connection.execute(PARKED.delete().where(mine))

    def _put_rows(self, connection: Connection, changes: Changes) -> None:
        rows = [self._values(row) for row in changes.rows.values() if row.event != IN_STORE]
        if rows:
            upsert(connection, RETRY, rows)
        kept = [self._values(row) for row in changes.rows.values() if row.event == IN_STORE]
        if kept:
            for values in kept:
                del values["event"]
            names = tuple(c.name for c in RETRY.c if not c.primary_key and c.name != "event")
            upsert(connection, RETRY, kept, only=names)

    def _values(self, row: RetryRow) -> dict[str, Any]:
        failure = row.failure
        return {
            "partition": self._partition,
            "offset": row.key.offset,
            "index": row.key.index,
            "route": row.key.route,
            "checksum": row.checksum,
            "leg": int(row.stage),
            "attempt": row.attempt,
            "not_before_ms": row.not_before_ms,
            "reason": failure.reason if failure else None,
            "error_dest": failure.dest if failure else None,
            "error_code": failure.code if failure else None,
            "error_data": failure.data if failure else None,
            "done": row.done,
            "event": row.event,
        }

    def _put_backfills(self, connection: Connection, changes: Changes) -> None:
        put = [
            backfill._asdict() for backfill in changes.backfills.values() if backfill is not None
        ]
        if put:
            upsert(
                connection,
                BACKFILL,
                [{"partition": self._partition, **backfill} for backfill in put],
            )
        gone = [name for name, backfill in changes.backfills.items() if backfill is None]
        if gone:
            connection.execute(
                BACKFILL.delete().where(
                    BACKFILL.c.partition == self._partition,
                    BACKFILL.c.route == sa.bindparam("b_route"),
                    BACKFILL.c.start == sa.bindparam("b_start"),
                ),
                [{"b_route": route, "b_start": start} for route, start in gone],
            )

    def close(self) -> None:
        """Close the connections."""
        self._reader.dispose()
        self._engine.dispose()


def _row_of(found: sa.RowMapping) -> RetryRow:
    failure = None
    if found["reason"] is not None:
        failure = Failure(
            found["reason"], found["error_dest"] or "", found["error_code"], found["error_data"]
        )
    return RetryRow(
        DoneKey(found["offset"], found["index"], found["route"]),
        found["checksum"],
        Stage(found["leg"]),
        found["attempt"],
        found["not_before_ms"],
        failure,
        found["done"],
        IN_STORE if found["has_event"] else None,
    )


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
    connection.execute(VERSION.update().values(version=SCHEMA_VERSION))


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


def _add_event_column(connection: Connection) -> None:
    """Add the column that a table of an earlier version lacks."""
    names = {column["name"] for column in sa.inspect(connection).get_columns("retry")}
    if "event" not in names:
        kind = RETRY.c.event.type.compile(connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE retry ADD COLUMN event {kind}"))


def upsert(
    connection: Connection,
    table: sa.Table,
    rows: list[dict[str, Any]],
    *,
    only: tuple[str, ...] | None = None,
) -> None:
    """Insert *rows*, or replace existing ones by primary key, in both dialects.

    Args:
        connection: In a transaction.
        table: Target.
        rows: All with the same columns.
        only: Columns to replace in existing rows; None: all.
    """
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - only when it is used
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]  # noqa: PLC0415
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    names = only or tuple(c.name for c in table.columns if c.name not in keys)
    changed = {name: statement.excluded[name] for name in names}
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=changed),
        rows,
    )
