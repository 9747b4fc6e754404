"""Quotas: counts deliveries of counted subscriptions and reserves further ones (``maxevents``).

A match of a counted subscription is sent only while it holds a *reservation*. A reservation is
taken before the first attempt, kept over the retries, counted once the delivery's outcome is on the
medium, and freed when the match fails for good. Counted deliveries plus reservations never exceed
the limit, so no crash can cause more deliveries.

A reservation *rests* while its match waits for a retry. One that does not rest after a crash is in
doubt: its attempt may have succeeded without a record. It stays with its match, and is counted in
the end, whatever the next attempts give.

All partitions share one file (or one database): every owner writes it, each call in one
transaction, and the Subscriptions API reads ``used_up``.
"""

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import database
from distributary.core.clock import Clock, SystemClock
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey
from distributary.core.outcome._upsert import upsert
from distributary.core.outcome.reservations import (
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
)

STORE = "reservation store"
"""Name of the store in messages."""
SCHEMA_VERSION = 1
CLOSED_KEPT_MS = 24 * 3_600_000
"""A deleted subscription is remembered for a day: a partition that is behind may still ask for a
reservation, and a new count would let it deliver more."""
_meta = reservation_metadata = sa.MetaData()

_version = sa.Table(
    "quota_schema",
    _meta,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
)
counted_table = _counted = sa.Table(
    "quota",
    _meta,
    sa.Column("uid", sa.String(64), primary_key=True),
    sa.Column("events_max", sa.BigInteger, nullable=False),
    sa.Column("delivered", sa.BigInteger, nullable=False, default=0),
    sa.Column("taken", sa.BigInteger, nullable=False, default=0),
    sa.Column("closed_ms", sa.BigInteger),
)
_reservation = sa.Table(
    "slot",
    _meta,
    sa.Column("uid", sa.String(64), primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("checksum", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("resting", sa.Boolean, nullable=False),
)
_THIS_RESERVATION = sa.and_(
    *(column == sa.bindparam(f"b_{column.name}") for column in _reservation.primary_key)
)


_HELD = (
    sa.select(sa.func.count())
    .select_from(_reservation)
    .where(_reservation.c.uid == _counted.c.uid)
    .scalar_subquery()
    .correlate(_counted)
)
"""How many reservations a subscription has granted."""


class ReservationRows(ABC):
    """A ``ReservationStore`` in tables, for any thread.

    Args:
        clock: Dates the end of deleted subscriptions.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @property
    @abstractmethod
    def exists(self) -> bool:
        """See ``ReservationStore.exists``."""

    def _counts(self) -> bool:
        """Whether anything was ever counted; may block."""
        return self.exists

    @abstractmethod
    def _writing(self, partition: int, uids: list[str]) -> AbstractContextManager[Connection]:
        """Open a transaction in which nobody else changes the counts of *uids*."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection | None]:
        """Open a connection that reads; None: nothing was ever counted."""

    def exchange(self, partition: int, batch: ReservationBatch) -> list[ReservationAnswer]:
        """See ``ReservationStore.exchange``."""
        if not (batch.requests or self._counts()):
            return []
        with self._writing(partition, _uids_of(batch)) as connection:
            self._close(connection, batch.gone)
            self._remove(connection, partition, batch.freed)
            self._remove(connection, partition, batch.counted, delivered=True)
            if batch.resting:
                values = [_bound(partition, reservation) for reservation in batch.resting]
                connection.execute(
                    _reservation.update().where(_THIS_RESERVATION).values(resting=True), values
                )
            by_uid: dict[str, list[ReservationRequest]] = defaultdict(list)
            for request in batch.requests:
                by_uid[request.reservation.key.route].append(request)
            given: dict[Reservation, ReservationAnswer] = {}
            for uid, requests in sorted(by_uid.items()):  # in the order of the locks
                given |= self._take(connection, partition, uid, requests)
        return [given[request.reservation] for request in batch.requests]

    def _take(
        self, connection: Connection, partition: int, uid: str, requests: list[ReservationRequest]
    ) -> dict[Reservation, ReservationAnswer]:
        events_max = requests[-1].events_max
        row = {"uid": uid, "events_max": events_max, "delivered": 0, "taken": 0}
        upsert(connection, _counted, [row], only=("events_max",))
        counted = connection.execute(sa.select(_counted).where(_counted.c.uid == uid)).one()
        mine = _reservation.c.partition == partition
        found = _reservations(connection, sa.and_(_reservation.c.uid == uid, mine))
        used_up = counted.closed_ms is not None or counted.delivered >= events_max
        left = 0 if used_up else max(0, events_max - counted.delivered - counted.taken)
        wanted = dict.fromkeys(request.reservation for request in requests)
        new = [reservation for reservation in wanted if reservation not in found][:left]
        held = [reservation for reservation in wanted if reservation in found] + new
        if held:
            rows = [_values(partition, reservation) | {"resting": False} for reservation in held]
            upsert(connection, _reservation, rows, only=("resting",))
            _move(connection, [uid], taken=_HELD)
        refused = ReservationAnswer.USED_UP if used_up else ReservationAnswer.WAIT
        return dict.fromkeys(wanted, refused) | dict.fromkeys(held, ReservationAnswer.HELD)

    def _remove(
        self,
        connection: Connection,
        partition: int,
        reservations: list[Reservation],
        *,
        delivered: bool = False,
    ) -> None:
        if not reservations:
            return
        values = [_bound(partition, reservation) for reservation in reservations]
        connection.execute(_reservation.delete().where(_THIS_RESERVATION), values)
        # Only existing ones: a repeated call counts a reservation once.
        more = {"delivered": _counted.c.delivered + _counted.c.taken - _HELD} if delivered else {}
        _move(
            connection, {reservation.key.route for reservation in reservations}, taken=_HELD, **more
        )

    def _close(self, connection: Connection, uids: list[str]) -> None:
        if uids:
            now_ms = self._clock.wall_ms()
            values = [{"b_uid": uid} for uid in uids]
            connection.execute(
                _reservation.delete().where(_reservation.c.uid == sa.bindparam("b_uid")), values
            )
            _move(
                connection, uids, taken=0, closed_ms=sa.func.coalesce(_counted.c.closed_ms, now_ms)
            )
            old = _counted.c.closed_ms < now_ms - CLOSED_KEPT_MS
            connection.execute(_counted.delete().where(old))

    def held(self, partition: int) -> dict[Reservation, bool]:
        """See ``ReservationStore.reservations``."""
        with self._reading() as connection:
            return (
                _reservations(connection, _reservation.c.partition == partition)
                if connection
                else {}
            )

    def used_up(self) -> list[str]:
        """See ``ReservationStore.used_up``."""
        query = (
            sa.select(_counted.c.uid)
            .where(_counted.c.closed_ms.is_(None), _counted.c.delivered >= _counted.c.events_max)
            .order_by(_counted.c.uid)
        )
        with self._reading() as connection:
            return list(connection.execute(query).scalars()) if connection else []

    def delivered(self, uid: str) -> int:
        """See ``ReservationStore.delivered``."""
        query = sa.select(_counted.c.delivered).where(_counted.c.uid == uid)
        with self._reading() as connection:
            return (connection and connection.execute(query).scalar()) or 0


class FileReservations(ReservationRows):
    """A ``ReservationStore`` in an SQLite file. For any thread.

    The file is made at the first write: most systems never need it.

    Args:
        path: The SQLite file.
        clock: Dates the end of deleted subscriptions.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._path = path
        self._engines: tuple[Engine, Engine] | None = None
        self._opening = threading.Lock()

    @property
    def exists(self) -> bool:
        """See ``ReservationStore.exists``."""
        return self._path.exists()

    def _writing(self, _partition: int, _uids: list[str]) -> AbstractContextManager[Connection]:
        return database.writing(self._opened()[0])

    def close(self) -> None:
        """Close the connections."""
        for engine in self._engines or ():
            engine.dispose()

    def _opened(self) -> tuple[Engine, Engine]:
        """Return the engines of writer and reader."""
        with self._opening:
            if self._engines is None:
                url = database.sqlite_url(self._path)
                writer = database.open_writer(url, STORE)
                with database.migrating(writer) as connection:
                    _check_version(connection)
                self._engines = writer, database.open_reader(url, STORE)
            return self._engines

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """Yield a connection; None: nothing was ever counted."""
        if not self.exists:
            yield None
            return
        with database.reading(self._opened()[1]) as connection:
            yield connection


def _uids_of(batch: ReservationBatch) -> list[str]:
    """Return the subscriptions that *batch* is about, in one order: writers lock them so."""
    keys = [reservation.key for some in batch[1:4] for reservation in some]
    keys += [request.reservation.key for request in batch.requests]
    return sorted({*batch.gone, *(key.route for key in keys)})


def _check_version(connection: Connection) -> None:
    _meta.create_all(connection)
    found = connection.execute(sa.select(_version.c.version)).scalar()
    if found is None:
        upsert(connection, _version, [{"one": 1, "version": SCHEMA_VERSION}])
    elif found > SCHEMA_VERSION:
        raise StoreError(
            f"the reservation store has schema {found}, this version knows {SCHEMA_VERSION}:"
            " upgrade distributary, or use another data directory"
        )


def _reservations(connection: Connection, which: sa.ColumnElement[bool]) -> dict[Reservation, bool]:
    """Return reservations, with whether each rests, in the order of the log."""
    query = (
        sa.select(_reservation)
        .where(which)
        .order_by(_reservation.c.offset, _reservation.c.index, _reservation.c.uid)
    )
    return {
        Reservation(DoneKey(row["offset"], row["index"], row["uid"]), row["checksum"]): row[
            "resting"
        ]
        for row in connection.execute(query).mappings()
    }


def _bound(partition: int, reservation: Reservation) -> dict[str, int | str]:
    return {f"b_{name}": value for name, value in _values(partition, reservation).items()}


def _values(partition: int, reservation: Reservation) -> dict[str, int | str]:
    offset, index, uid = reservation.key
    return {
        "uid": uid,
        "partition": partition,
        "offset": offset,
        "index": index,
        "checksum": reservation.checksum,
    }


def _move(connection: Connection, uids: Iterable[str], **values: object) -> None:
    statement = _counted.update().where(_counted.c.uid == sa.bindparam("b_uid")).values(**values)
    connection.execute(statement, [{"b_uid": uid} for uid in uids])
