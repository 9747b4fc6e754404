"""Route changes kept in the store, to replace route records that a partition's log lost."""

import sqlalchemy as sa

from distributary.core import database
from distributary.core.errors import StoreTrimmedError
from distributary.core.flow import RouteRecord, decode_route
from distributary.routes import tables as _tables

_r = _tables.route_change
_g = _tables.generation


class RouteChanges:
    """Reads the changes in the store at *url*. For one thread.

    Methods raise ``StoreError`` if the store cannot be read now.

    Raises:
        StoreError: There is no store yet.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine = database.open_reader(url, _tables.STORE)

    def last_seq(self) -> int:
        """Number of the newest change appended to every partition; 0: none."""
        query = sa.select(sa.func.max(_r.c.seq)).where(_r.c.appended.is_(True))
        with database.reading(self._engine) as connection:
            return connection.execute(query).scalar() or 0

    def newest_seq(self) -> int:
        """Number of the newest change, whether or not its record was appended yet; 0: none."""
        with database.reading(self._engine) as connection:
            return connection.execute(sa.select(_g.c.seq)).scalar() or 0

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """The changes with ``after_seq < seq < before_seq``, in order.

        Raises:
            StoreTrimmedError: The store has trimmed changes that old.
        """
        if before_seq <= after_seq + 1:
            return []
        query = (
            sa.select(_r.c.record_json)
            .where(_r.c.seq > after_seq, _r.c.seq < before_seq)
            .order_by(_r.c.seq)
        )
        with database.reading(self._engine) as connection:
            trimmed = connection.execute(sa.select(_g.c.trimmed_through)).scalar() or 0
            if trimmed > after_seq:
                raise StoreTrimmedError(
                    f"route changes after {after_seq} are missing in the log, and the store keeps"
                    f" only those after {trimmed}"
                )
            rows = connection.execute(query).scalars().all()
        return [decode_route(row.encode()) for row in rows]

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
