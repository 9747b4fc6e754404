"""How many deliveries of a counted subscription were made, and which may still be (``maxevents``).

A match of a counted subscription is sent only while it holds a *reservation*. A reservation is
taken before the first attempt, kept over the retries, counted when the delivery's outcome is on the
medium, and free again when the match fails for good. What is counted and what is taken never exceed
the limit together, so more deliveries than that cannot be made, whatever crashes in between.

A reservation *rests* while its match waits for a retry. One that does not rest after a crash is in
doubt: an attempt was perhaps answered, and nobody has written it down. It stays with its match,
and counts in the end, whatever the next attempts come to.

All partitions share one file (or one database): every owner writes it, each call in one
transaction, and control asks ``used_up``.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import sqlite
from distributary.core.clock import Clock, SystemClock
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey
from distributary.core.outcome._store import upsert
from distributary.core.outcome.counts import Grant, QuotaRequest, Reservation

STORE = "count store"
"""What messages call it."""
SCHEMA_VERSION = 1
CLOSED_KEPT_MS = 24 * 3_600_000
"""A deleted subscription is remembered for a day: a partition that is behind may still ask for
it, and a count that began anew would let it deliver more."""
_meta = sa.MetaData()

_version = sa.Table(
    "quota_schema",
    _meta,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
)
_quota = sa.Table(
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


class QuotaStore:
    """A ``Quota`` in an SQLite file. For any thread.

    The file is made when it is first written: most systems never need it.

    Args:
        path: The SQLite file.
        clock: Says when a subscription was forgotten.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._engines: tuple[Engine, Engine] | None = None
        self._opening = threading.Lock()

    @property
    def exists(self) -> bool:
        """See ``Quota.exists``."""
        return self._path.exists()

    def take(
        self,
        partition: int,
        requests: Sequence[QuotaRequest],
        *,
        free: Iterable[Reservation] = (),
        resting: Iterable[Reservation] = (),
    ) -> list[Grant]:
        """See ``Quota.take``."""
        with self._begin() as connection:
            self._give_up(connection, partition, free)
            self._set_resting(connection, partition, resting, resting=True)
            held: set[Reservation] = set()
            used_up: set[str] = set()
            for uid, asking in _by_uid(requests).items():
                mine, all_made = self._take_for(connection, partition, uid, asking)
                held |= mine
                if all_made:
                    used_up.add(uid)
        return [_grant(request.reservation, held, used_up) for request in requests]

    def _take_for(
        self, connection: Connection, partition: int, uid: str, asking: list[QuotaRequest]
    ) -> tuple[set[Reservation], bool]:
        events_max = asking[-1].events_max
        row = {"uid": uid, "events_max": events_max, "delivered": 0, "taken": 0}
        upsert(connection, _quota, [row], only=("events_max",))
        quota = connection.execute(sa.select(_quota).where(_quota.c.uid == uid)).one()
        offsets = [request.reservation.key.offset for request in asking]
        found = connection.execute(
            sa.select(_reservation).where(
                _reservation.c.uid == uid,
                _reservation.c.partition == partition,
                _reservation.c.offset.between(min(offsets), max(offsets)),
            )
        )
        there = {_reservation_of(row) for row in found.mappings()}
        used_up = quota.closed_ms is not None or quota.delivered >= events_max
        left = 0 if used_up else max(0, events_max - quota.delivered - quota.taken)
        wanted = dict.fromkeys(request.reservation for request in asking)
        again = [reservation for reservation in wanted if reservation in there]
        self._set_resting(connection, partition, again, resting=False)
        new = [reservation for reservation in wanted if reservation not in there][:left]
        if new:
            connection.execute(
                _reservation.insert(),
                [_values(partition, reservation) | {"resting": False} for reservation in new],
            )
            _move(connection, uid, taken=len(new))
        return there | set(new), used_up

    def free(self, partition: int, reservations: Iterable[Reservation]) -> None:
        """See ``Quota.free``."""
        with self._begin() as connection:
            self._give_up(connection, partition, reservations)

    def count(self, partition: int, reservations: Iterable[Reservation]) -> None:
        """See ``Quota.count``."""
        with self._begin() as connection:
            for uid, count in self._remove(connection, partition, reservations).items():
                _move(connection, uid, taken=-count, delivered=count)

    def _give_up(
        self, connection: Connection, partition: int, reservations: Iterable[Reservation]
    ) -> None:
        for uid, count in self._remove(connection, partition, reservations).items():
            _move(connection, uid, taken=-count)

    def _set_resting(
        self,
        connection: Connection,
        partition: int,
        reservations: Iterable[Reservation],
        *,
        resting: bool,
    ) -> None:
        values = [_bound(partition, reservation) for reservation in reservations]
        if values:
            statement = _reservation.update().where(_THIS_RESERVATION).values(resting=resting)
            connection.execute(statement, values)

    def _remove(
        self, connection: Connection, partition: int, reservations: Iterable[Reservation]
    ) -> dict[str, int]:
        """How many of *reservations* were there, by subscription."""
        by_uid: dict[str, list[Reservation]] = defaultdict(list)
        for reservation in reservations:
            by_uid[reservation.key.route].append(reservation)
        removed: dict[str, int] = {}
        for uid, mine in by_uid.items():
            values = [_bound(partition, reservation) for reservation in mine]
            removed[uid] = connection.execute(
                _reservation.delete().where(_THIS_RESERVATION), values
            ).rowcount
        return removed

    def reservations(self, partition: int) -> dict[Reservation, bool]:
        """See ``Quota.reservations``."""
        if not self.exists:
            return {}
        query = sa.select(_reservation).where(_reservation.c.partition == partition)
        query = query.order_by(_reservation.c.offset, _reservation.c.index, _reservation.c.uid)
        with self._connect() as connection:
            found = connection.execute(query).mappings()
            return {_reservation_of(row): row["resting"] for row in found}

    def used_up(self) -> list[str]:
        """See ``Quota.used_up``."""
        query = (
            sa.select(_quota.c.uid)
            .where(_quota.c.closed_ms.is_(None), _quota.c.delivered >= _quota.c.events_max)
            .order_by(_quota.c.uid)
        )
        if not self.exists:
            return []
        with self._connect() as connection:
            return list(connection.execute(query).scalars())

    def delivered(self, uid: str) -> int:
        """See ``Quota.delivered``."""
        if not self.exists:
            return 0
        query = sa.select(_quota.c.delivered).where(_quota.c.uid == uid)
        with self._connect() as connection:
            return connection.execute(query).scalar() or 0

    def forget(self, *uids: str) -> None:
        """See ``Quota.forget``."""
        if not self.exists or not uids:
            return
        now_ms = self._clock.wall_ms()
        with self._begin() as connection:
            for uid in uids:
                connection.execute(
                    _quota.update()
                    .where(_quota.c.uid == uid, _quota.c.closed_ms.is_(None))
                    .values(closed_ms=now_ms, taken=0)
                )
                connection.execute(_reservation.delete().where(_reservation.c.uid == uid))
            old = _quota.c.closed_ms < now_ms - CLOSED_KEPT_MS
            connection.execute(_quota.delete().where(old))

    def close(self) -> None:
        """Close the connections."""
        for engine in self._engines or ():
            engine.dispose()

    def _opened(self) -> tuple[Engine, Engine]:
        """Who writes and who reads."""
        with self._opening:
            if self._engines is None:
                self._engines = self._open()
            return self._engines

    def _open(self) -> tuple[Engine, Engine]:
        url = sqlite.sqlite_url(self._path)
        writer = sqlite.open_writer(url, STORE)
        with sqlite.writing(writer) as connection:
            _meta.create_all(connection)
            found = connection.execute(sa.select(_version.c.version)).scalar()
            if found is None:
                upsert(connection, _version, [{"one": 1, "version": SCHEMA_VERSION}])
        if found is not None and found > SCHEMA_VERSION:
            raise StoreError(
                f"the count store has schema {found}, this version knows {SCHEMA_VERSION}:"
                " upgrade distributary, or use another data directory"
            )
        return writer, sqlite.open_reader(url, STORE)

    def _begin(self) -> AbstractContextManager[Connection]:
        return sqlite.writing(self._opened()[0])

    def _connect(self) -> AbstractContextManager[Connection]:
        return sqlite.reading(self._opened()[1])


def _grant(reservation: Reservation, held: set[Reservation], used_up: set[str]) -> Grant:
    if reservation in held:
        return Grant.HELD
    return Grant.USED_UP if reservation.key.route in used_up else Grant.WAIT


def _by_uid(requests: Sequence[QuotaRequest]) -> dict[str, list[QuotaRequest]]:
    found: dict[str, list[QuotaRequest]] = defaultdict(list)
    for request in requests:
        found[request.reservation.key.route].append(request)
    return found


def _reservation_of(row: sa.RowMapping) -> Reservation:
    return Reservation(DoneKey(row["offset"], row["index"], row["uid"]), row["checksum"])


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


def _move(connection: Connection, uid: str, *, taken: int = 0, delivered: int = 0) -> None:
    connection.execute(
        _quota.update()
        .where(_quota.c.uid == uid)
        .values(taken=_quota.c.taken + taken, delivered=_quota.c.delivered + delivered)
    )
