"""What reads and changes one kind of rows of the store beside ``Store``."""

import sqlalchemy as sa

from distributary.core import database
from distributary.core.database import StoreWriter
from distributary.routes import tables as _tables


class StoreRows:
    """Rows in the store at *url*, which a ``Store`` has created. Blocking.

    Methods raise ``StoreError`` where the store cannot be read or written now; nothing was changed
    then.

    Args:
        url: Of the store.
        leader: See ``StoreWriter``.

    Raises:
        StoreError: There is no store.
    """

    def __init__(self, url: sa.URL, *, leader: int | None = None) -> None:
        self._reader = database.open_reader(url, _tables.STORE)
        self._writer = StoreWriter(url, _tables.STORE, leader=leader)

    def close(self) -> None:
        """Close the connections."""
        self._reader.dispose()
        self._writer.close()
