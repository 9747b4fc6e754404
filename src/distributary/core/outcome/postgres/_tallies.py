"""Tallies in PostgreSQL: a row for each route of a partition, in place of a slot of a file."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa

from distributary.core import database
from distributary.core.outcome._slices import slices
from distributary.core.outcome._tally_file import decode_slot, encode_slot
from distributary.core.outcome._upsert import upsert
from distributary.core.outcome.postgres._fence import PartitionFence
from distributary.core.outcome.postgres._tables import STORE, tally
from distributary.core.outcome.tallies import Tally

GONE_KEPT: Final = 3_600
"""Changes after which it is forgotten that a route is gone: an hour of them, at one a second. A
reader that has not looked for so long reads all anew."""
UID_BYTES_MAX: Final = 64
"""Longest uid of a route in the table, bytes: the server's own have 36."""
_row: Final = tally.c


class PostgresTallies:
    """A ``TallyStore`` of a partition; for one thread at a time.

    Args:
        url: ``database_url``; ``prepare_outcomes`` has made the tables.
        fence: Of the owner.
    """

    def __init__(self, url: sa.URL, fence: PartitionFence) -> None:
        # What a crash of the database loses of it is counted no more: as with a file.
        self._writer = database.open_writer(url, STORE, durable=False)
        self._reader = database.open_reader(url, STORE)
        self._fence = fence
        self._mine = _row.partition == fence.partition
        self._tick: int | None = None  # of the newest change; None: not known

    def routes(self) -> list[str]:
        """See ``TallyStore``."""
        query = sa.select(_row.route).where(self._mine, _row.slot.is_not(None))
        with database.reading(self._reader) as connection:
            return list(connection.execute(query).scalars())

    def get(self, route: str) -> Tally | None:
        """See ``TallyStore``."""
        return self._decoded(_row.route == route).get(route)

    def standing(self) -> Mapping[str, Tally]:
        """See ``TallyStore``."""
        return self._decoded(_row.resting.is_(False))

    def _decoded(self, which: sa.ColumnElement[bool]) -> dict[str, Tally]:
        query = sa.select(_row.slot).where(self._mine, which, _row.slot.is_not(None))
        with database.reading(self._reader) as connection:
            slots = connection.execute(query).scalars()
            return dict(found for slot in slots if (found := decode_slot(bytes(slot))) is not None)

    def put(self, tallies: Mapping[str, Tally], gone: Iterable[str] = ()) -> None:
        """See ``TallyStore``.

        Raises:
            FencedError: A later owner has the partition.
            StoreError: They may not be stored; put all of them again.
        """
        encoded = [
            (route, each.at_rest, encode_slot(uid, each))
            for route, each in tallies.items()
            if len(uid := route.encode()) <= UID_BYTES_MAX
        ]
        left = [route for route in gone if route not in tallies]
        with database.writing(self._writer) as connection:
            self._fence.check_in(connection)
            before, self._tick = self._tick, None
            if before is None:  # The owner before may have put some, or a commit without an answer.
                newest = sa.select(sa.func.coalesce(sa.func.max(_row.tick), 0)).where(self._mine)
                before = int(connection.execute(newest).scalar_one())
            tick = before + 1
            rows = [self._values(tick, *row) for row in encoded]
            for some in slices(left):
                forget = tally.update().where(self._mine, _row.route.in_(some))
                connection.execute(forget.values(slot=None, resting=True, tick=tick))
            if left:
                old = sa.and_(_row.slot.is_(None), _row.tick < before - GONE_KEPT)
                connection.execute(tally.delete().where(self._mine, old))
            if rows:
                upsert(connection, tally, rows)
        self._tick = tick

    def _values(self, tick: int, route: str, resting: bool, slot: bytes) -> dict[str, object]:
        return {
            "partition": self._fence.partition,
            "route": route,
            "tick": tick,
            "resting": resting,
            "slot": slot,
        }

    def close(self) -> None:
        """Nothing is held."""


class PostgresTallyReader:
    """A ``TallyReader`` of a partition.

    Args:
        url: ``database_url``.
        partition: Its number.
    """

    def __init__(self, url: sa.URL, partition: int) -> None:
        self._reader = database.open_reader(url, STORE)
        self._mine = _row.partition == partition
        self._lock = threading.Lock()
        self._seen = 0
        self._known: set[str] = set()

    def get(self, route: str) -> Tally | None:
        """See ``TallyReader``.

        Raises:
            StoreError: It cannot be read now.
        """
        query = sa.select(_row.slot).where(self._mine, _row.route == route)
        with database.reading(self._reader) as connection:
            slot = connection.execute(query).scalar()
        found = None if slot is None else decode_slot(bytes(slot))
        return None if found is None else found[1]

    def changes(self) -> dict[str, Tally | None]:
        """See ``TallyReader``.

        Raises:
            StoreError: They cannot be read now.
        """
        with self._lock, database.reading(self._reader) as connection:
            newest = sa.select(sa.func.coalesce(sa.func.max(_row.tick), 0)).where(self._mine)
            tick = int(connection.execute(newest).scalar_one())
            # Older: what is gone may be forgotten. Newer: the database has gone back.
            anew = tick - self._seen >= GONE_KEPT or tick < self._seen
            since = 0 if anew else self._seen
            query = sa.select(_row.route, _row.tick, _row.slot)
            rows = connection.execute(query.where(self._mine, _row.tick > since)).all()
            return self._take(rows, anew=anew)

    def _take(
        self, rows: Iterable[sa.Row[Any, Any, Any]], *, anew: bool
    ) -> dict[str, Tally | None]:
        found: dict[str, Tally | None] = {}
        seen = 0 if anew else self._seen
        for route, tick, slot in rows:
            seen = max(seen, tick)
            read = None if slot is None else decode_slot(bytes(slot))
            if read is not None:
                found[route] = read[1]
            elif route in self._known:
                found[route] = None
        if anew:
            found |= dict.fromkeys(self._known - set(found))
        self._seen = seen
        self._known |= {route for route, each in found.items() if each is not None}
        self._known -= {route for route, each in found.items() if each is None}
        return found
