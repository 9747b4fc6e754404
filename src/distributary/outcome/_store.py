"""The delivery store: what waits for another attempt, what lags, what could not be delivered.

One owner writes it: the process that holds the partition. In the embedded set-up each
partition has its own SQLite file, so owners never wait for one another; the tables carry the
partition all the same, so that one PostgreSQL database can hold them all.

All changes of one flush go in by one transaction (``apply``) and every one of them is
idempotent, so a flush that was cut off can be made again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.errors import StoreError
from distributary.flow import Leg
from distributary.outcome._engine import open_engine
from distributary.outcome._journal import DoneKey

SCHEMA_VERSION = 1
"""Raised where an older version must not write the file. A column that may be empty needs none."""
IN_STORE = b""
"""``RetryRow.event`` where the bytes stand in the store and are not at hand: up to 1 MiB each, so
they are read when the row is due."""
_meta = sa.MetaData()

_version = sa.Table("delivery_schema", _meta, sa.Column("version", sa.Integer, primary_key=True))

_retry = sa.Table(
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
_lag = sa.Table(
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
_dead_letter = sa.Table(
    "dead_letter",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("checksum", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("error_dest", sa.Text),
    sa.Column("error_code", sa.Integer),
    sa.Column("error_data", sa.Text),
    sa.Column("event", sa.LargeBinary, nullable=False),
    sa.Column("kept_ms", sa.BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed: what a dead letter says about it (decision 16).

    Attributes:
        reason: A short reason for people and logs.
        dest: URI of the destination that failed, without its query (``shown_uri``).
        code: Status of the last answer; None where no answer came (never invented).
        data: Base64 of at most 1,024 bytes of the last answer's body; None where none came.
    """

    reason: str
    dest: str
    code: int | None = None
    data: str | None = None


class RetryRow(NamedTuple):
    """A match that waits for its next attempt, durable.

    Attributes:
        key: The match.
        checksum: Of its record; the row is void where the log holds another record.
        leg: Destination of the next attempt.
        attempt: Number of the next attempt on that leg, from 1.
        not_before_ms: Wall clock of the next attempt, milliseconds.
        failure: What failed last; None for a match that was only moved out of the cursor's way.
        done: True for a finished row that stays until the cursor has passed it.
        event: What is sent instead of the event in the log (a reply that became a dead letter),
            ``event.record.encode`` of it; ``IN_STORE``: what the store holds stays. None: the
            event in the log.
    """

    key: DoneKey
    checksum: int
    leg: Leg
    attempt: int
    not_before_ms: int
    failure: Failure | None
    done: bool
    event: bytes | None = None


class LagRow(NamedTuple):
    """A route that lags: from here on the catch-up reader delivers, not the live one.

    Attributes:
        route: Uid of the route.
        start: The record where this lag began; with the route its name (a route can have an old
            lag that is being finished and a new one).
        start_index: In that record, the first event that is this lag's; those before are the
            live reader's.
        from_offset: The first record that may hold an undelivered match.
        to_offset: The live reader has the route again from here on; None while it lags.
        record: ``flow.encode_route`` of the route as it stood at ``from_offset``.
    """

    route: str
    start: int
    start_index: int
    from_offset: int
    to_offset: int | None
    record: bytes

    def covers(self, offset: int, index: int) -> bool:
        """True where a match of the route at this place is, or was, its own to deliver."""
        if (offset, index) < (self.start, self.start_index):
            return False
        return self.to_offset is None or offset < self.to_offset

    def holds(self, offset: int, index: int) -> bool:
        """True where a match of the route at this place may still have to be delivered by it."""
        return offset >= self.from_offset and self.covers(offset, index)

    @property
    def name(self) -> tuple[str, int]:
        """What names this lag within its partition."""
        return self.route, self.start


class DeadLetter(NamedTuple):
    """An event that could not be delivered and has no dead letter sink that took it.

    Attributes:
        key: The match.
        checksum: Of its record.
        failure: Why.
        event: ``event.record.encode`` of the one event, with its error attributes: kept whole,
            since the log may delete its own copy.
        kept_ms: Wall clock when it was kept, milliseconds.
    """

    key: DoneKey
    checksum: int
    failure: Failure
    event: bytes
    kept_ms: int


@dataclass(slots=True)
class Changes:
    """What one flush changes; later entries for the same match replace earlier ones."""

    rows: dict[DoneKey, RetryRow] = field(default_factory=dict)
    forget: list[DoneKey] = field(default_factory=list)
    lags: dict[tuple[str, int], LagRow | None] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)

    def __bool__(self) -> bool:
        """True where there is something to write."""
        return bool(self.rows or self.forget or self.lags or self.dead_letters)


class DeliveryStore:
    """Retries, lags and dead letters of one partition; blocking, for a thread of its own.

    Args:
        url: SQLAlchemy URL.
        partition: The partition that this owner holds.
    """

    def __init__(self, url: str, partition: int) -> None:
        self._engine = open_engine(url)
        self._partition = partition
        with self._guard(), self._engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # The owners of all partitions come here at once, and one of them may bring it up.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            _meta.create_all(connection)
            _add_event_column(connection)
            found = connection.execute(sa.select(_version.c.version)).scalar()
            if found is None:
                connection.execute(_version.insert().values(version=SCHEMA_VERSION))
        if found is not None and found > SCHEMA_VERSION:
            raise StoreError(
                f"the delivery store has schema {found}, this version knows {SCHEMA_VERSION}:"
                " upgrade distributary, or use another data directory"
            )

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            # Statements and parameters stay out of the message: rows hold whole events.
            cause = getattr(error, "orig", None) or type(error).__name__
            raise StoreError(f"the delivery store failed: {cause}") from error

    def rows(self) -> list[RetryRow]:
        """Every retry row, done ones included, in the order of the next attempt.

        ``event`` is None or ``IN_STORE``; ``row_event`` has the bytes.
        """
        columns = [column for column in _retry.c if column is not _retry.c.event]
        query = (
            sa.select(*columns, _retry.c.event.is_not(None).label("has_event"))
            .where(_retry.c.partition == self._partition)
            .order_by(_retry.c.not_before_ms, _retry.c.offset, _retry.c.index)
        )
        with self._guard(), self._engine.connect() as connection:
            return [_row_of(found) for found in connection.execute(query).mappings()]

    def row_event(self, key: DoneKey) -> bytes | None:
        """The bytes of ``RetryRow.event`` that stand here; None: there are none."""
        query = sa.select(_retry.c.event).where(
            _retry.c.partition == self._partition,
            _retry.c.offset == key.offset,
            _retry.c.index == key.index,
            _retry.c.route == key.route,
        )
        with self._guard(), self._engine.connect() as connection:
            found = connection.execute(query).scalar()
        return None if found is None else bytes(found)

    def lags(self) -> list[LagRow]:
        """Every lag row."""
        query = sa.select(_lag).where(_lag.c.partition == self._partition)
        with self._guard(), self._engine.connect() as connection:
            return [
                LagRow(
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
        """The oldest dead letters kept here, at most *limit*."""
        query = (
            sa.select(_dead_letter)
            .where(_dead_letter.c.partition == self._partition)
            .order_by(_dead_letter.c.kept_ms, _dead_letter.c.offset, _dead_letter.c.index)
            .limit(limit)
        )
        with self._guard(), self._engine.connect() as connection:
            return [
                DeadLetter(
                    DoneKey(found["offset"], found["index"], found["route"]),
                    found["checksum"],
                    Failure(
                        found["reason"],
                        found["error_dest"] or "",
                        found["error_code"],
                        found["error_data"],
                    ),
                    bytes(found["event"]),
                    found["kept_ms"],
                )
                for found in connection.execute(query).mappings()
            ]

    def apply(self, changes: Changes) -> None:
        """Make *changes* durable, all or none; idempotent.

        Raises:
            StoreError: Nothing was changed.
        """
        with self._guard(), self._engine.begin() as connection:
            self._put_rows(connection, changes)
            self._put_lags(connection, changes)
            self._put_dead_letters(connection, changes)
            if changes.forget:
                connection.execute(
                    _retry.delete().where(
                        _retry.c.partition == self._partition,
                        _retry.c.offset == sa.bindparam("b_offset"),
                        _retry.c.index == sa.bindparam("b_index"),
                        _retry.c.route == sa.bindparam("b_route"),
                    ),
                    [
                        {"b_offset": key.offset, "b_index": key.index, "b_route": key.route}
                        for key in changes.forget
                    ],
                )

    def _put_rows(self, connection: Connection, changes: Changes) -> None:
        rows = [self._values(row) for row in changes.rows.values() if row.event != IN_STORE]
        if rows:
            upsert(connection, _retry, rows)
        kept = [self._values(row) for row in changes.rows.values() if row.event == IN_STORE]
        if kept:
            for values in kept:
                del values["event"]
            names = tuple(c.name for c in _retry.c if not c.primary_key and c.name != "event")
            upsert(connection, _retry, kept, only=names)

    def _values(self, row: RetryRow) -> dict[str, Any]:
        failure = row.failure
        return {
            "partition": self._partition,
            "offset": row.key.offset,
            "index": row.key.index,
            "route": row.key.route,
            "checksum": row.checksum,
            "leg": int(row.leg),
            "attempt": row.attempt,
            "not_before_ms": row.not_before_ms,
            "reason": failure.reason if failure else None,
            "error_dest": failure.dest if failure else None,
            "error_code": failure.code if failure else None,
            "error_data": failure.data if failure else None,
            "done": row.done,
            "event": row.event,
        }

    def _put_lags(self, connection: Connection, changes: Changes) -> None:
        put = [lag._asdict() for lag in changes.lags.values() if lag is not None]
        if put:
            upsert(connection, _lag, [{"partition": self._partition, **lag} for lag in put])
        gone = [name for name, lag in changes.lags.items() if lag is None]
        if gone:
            connection.execute(
                _lag.delete().where(
                    _lag.c.partition == self._partition,
                    _lag.c.route == sa.bindparam("b_route"),
                    _lag.c.start == sa.bindparam("b_start"),
                ),
                [{"b_route": route, "b_start": start} for route, start in gone],
            )

    def _put_dead_letters(self, connection: Connection, changes: Changes) -> None:
        if not changes.dead_letters:
            return
        letters = [
            {
                "partition": self._partition,
                "offset": letter.key.offset,
                "index": letter.key.index,
                "route": letter.key.route,
                "checksum": letter.checksum,
                "reason": letter.failure.reason,
                "error_dest": letter.failure.dest,
                "error_code": letter.failure.code,
                "error_data": letter.failure.data,
                "event": letter.event,
                "kept_ms": letter.kept_ms,
            }
            for letter in changes.dead_letters
        ]
        upsert(connection, _dead_letter, letters)

    def close(self) -> None:
        """Close the connections."""
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
        Leg(found["leg"]),
        found["attempt"],
        found["not_before_ms"],
        failure,
        found["done"],
        IN_STORE if found["has_event"] else None,
    )


def _add_event_column(connection: Connection) -> None:
    """Bring a table that an earlier version made up to date."""
    names = {column["name"] for column in sa.inspect(connection).get_columns("retry")}
    if "event" not in names:
        kind = _retry.c.event.type.compile(connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE retry ADD COLUMN event {kind}"))


def upsert(
    connection: Connection,
    table: sa.Table,
    rows: list[dict[str, Any]],
    *,
    only: tuple[str, ...] | None = None,
) -> None:
    """Insert *rows*, or replace those that are there by primary key, in both dialects.

    Args:
        connection: In a transaction.
        table: Where.
        rows: What; every one with the same columns.
        only: Columns that are replaced in rows that are there; None: all.
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
