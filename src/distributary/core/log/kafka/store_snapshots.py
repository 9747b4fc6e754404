"""Route snapshots and cuts in the store that nodes share: two tables beside the resources.

Not imported with the package: receivers, which need no snapshots, load no SQL for it.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.database import StorePlace, StoreWriter, open_reader, reading
from distributary.core.log.kafka.snapshots import Cut

_STORE: Final = "resource store"
"""Name of the store in messages."""

_metadata: Final = sa.MetaData()
_snapshot: Final = sa.Table(
    "route_snapshot",
    _metadata,
    # Number of the last change in the snapshot.
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("routes", sa.LargeBinary, nullable=False),
)
_cut: Final = sa.Table(
    "log_cut",
    _metadata,
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("begins", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
)


class StoreSnapshots:
    """``Snapshots`` in the resource store. Safe from any thread; close it.

    Args:
        place: The store; with the generation of the leader where this process leads.
        leads: Whether this process makes the tables and changes them: the leader alone.
    """

    def __init__(self, place: StorePlace, *, leads: bool = False) -> None:
        """See the class.

        Raises:
            FencedError: Another process leads.
            StoreError: The store cannot be opened.
        """
        self._writer = StoreWriter(place.url, _STORE, leader=place.leader) if leads else None
        if self._writer is not None:
            with self._writer.making() as connection:
                _metadata.create_all(connection)
        self._reader = open_reader(place.url, _STORE)

    def close(self) -> None:
        """Close the connections."""
        if self._writer is not None:
            self._writer.close()
        self._reader.dispose()

    def cut(self, partition: int) -> Cut | None:
        """See ``Snapshots``."""
        with reading(self._reader) as connection:
            query = sa.select(_cut.c.begins, _cut.c.seq).where(_cut.c.partition == partition)
            row = connection.execute(query).one_or_none()
        return None if row is None else Cut(row.begins, row.seq)

    def get(self, seq: int) -> bytes | None:
        """See ``Snapshots``."""
        with reading(self._reader) as connection:
            query = sa.select(_snapshot.c.routes).where(_snapshot.c.seq == seq)
            found = connection.execute(query).scalar()
        return None if found is None else bytes(found)

    def put(self, partition: int, cut: Cut, snapshot: bytes) -> None:
        """See ``Snapshots``."""
        with self._leading().changing() as connection:
            known = sa.select(_snapshot.c.seq).where(_snapshot.c.seq == cut.seq)
            if connection.execute(known).scalar() is None:  # the same for every partition
                row = {"seq": cut.seq, "routes": snapshot}
                connection.execute(sa.insert(_snapshot).values(row))
            _begin(connection, partition, cut)

    def put_back(self, partition: int, cut: Cut | None) -> None:
        """See ``Snapshots``."""
        with self._leading().changing() as connection:
            _begin(connection, partition, cut)

    def prune(self) -> None:
        """See ``Snapshots``."""
        needed = sa.select(_cut.c.seq)
        with self._leading().changing() as connection:
            connection.execute(sa.delete(_snapshot).where(_snapshot.c.seq.not_in(needed)))

    def _leading(self) -> StoreWriter:
        assert self._writer is not None, "the leader alone cuts partitions"
        return self._writer


def _begin(connection: Connection, partition: int, cut: Cut | None) -> None:
    connection.execute(sa.delete(_cut).where(_cut.c.partition == partition))
    if cut is not None:
        row = {"partition": partition, "begins": cut.offset, "seq": cut.seq}
        connection.execute(sa.insert(_cut).values(row))
