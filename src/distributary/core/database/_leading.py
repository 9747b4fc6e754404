"""Changes of a store that one process leads, one after the other.

SQLite's lock and that of the data directory see to it by themselves. In PostgreSQL each change
first updates one row: so changes have an order, a former leader changes nothing any more, and a
commit whose answer was lost is found again.
"""

import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.database._either import (
    migrating,
    open_reader,
    open_writer,
    reading,
    writing,
)
from distributary.core.database._url import is_postgres
from distributary.core.errors import FencedError, StoreError

_metadata: Final = sa.MetaData()
_one: Final = sa.Table(
    "leadership",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    # Generation of the lease ``control`` under which its newest holder opened the store.
    sa.Column("generation", sa.BigInteger, nullable=False),
    # Of that opening: after a failover that lost a commit, two holders may have one generation.
    sa.Column("claim", sa.String, nullable=False),
    # Drawn anew by each change.
    sa.Column("token", sa.String, nullable=False),
)
"""One row, with ``id`` 1; in PostgreSQL alone."""


class StorePlace(NamedTuple):
    """Where the resource store lies, and by which right this process changes it.

    Attributes:
        url: ``sqlite_url`` or ``database_url``.
        leader: Generation of the lease ``control`` that this process holds; None: the store is a
            file, or this process only reads.
    """

    url: sa.URL
    leader: int | None = None


_turns: Final[dict[sa.URL, threading.Lock]] = {}
"""Lock of each store: until a change is found out that may have been made, no other one begins."""

_claims: Final[dict[tuple[sa.URL, int | None], str]] = {}


class StoreWriter:
    """Changes the store at *url*. Safe from any thread; changes take turns.

    Args:
        url: ``sqlite_url`` or ``database_url``.
        store: Name of the store for messages.
        durable: As for ``open_writer``.
        leader: Generation of the lease by which this process leads: each change compares it. None:
            there is no other process that could lead (the embedded form, and offline commands).

    Raises:
        StoreError: See ``open_writer``.
    """

    def __init__(
        self, url: sa.URL, store: str, *, durable: bool = True, leader: int | None = None
    ) -> None:
        self._url = url
        self._leader = leader
        self._shared = is_postgres(url)
        self.engine = open_writer(url, store, durable=durable)

    def making(self) -> AbstractContextManager[Connection]:
        """Open a transaction that makes or upgrades tables; see ``migrating``.

        From its end on, no process with an earlier generation changes anything.

        Raises:
            FencedError: Another process leads: nothing was written.
            StoreError: Nothing was written.
        """
        return self._making() if self._shared else migrating(self.engine)

    def changing(self) -> AbstractContextManager[Connection]:
        """Open a transaction for a change; commits at the end of the block.

        Nobody else changes the store meanwhile, and what is read in it is the newest state.

        Raises:
            FencedError: Another process leads: nothing was written, and this one must stop.
            StoreError: Nothing was written; or the message says that this is not known.
        """
        return self._changing() if self._shared else writing(self.engine)

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    @contextmanager
    def _making(self) -> Iterator[Connection]:
        with migrating(self.engine) as connection:
            _metadata.create_all(connection)
            known = connection.execute(sa.select(_one.c.generation).with_for_update()).scalar()
            if known is None:
                first = {"id": 1, "generation": 0, "claim": "", "token": ""}
                connection.execute(sa.insert(_one).values(first))
            if self._leader is not None:
                if (known or 0) > self._leader:
                    raise _fenced()
                values = {"generation": self._leader, "claim": self._claim()}
                connection.execute(sa.update(_one).values(values))
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        token = uuid.uuid4().hex
        mine = sa.update(_one).values(token=token).where(self._leads())

        def landed(connection: Connection) -> bool:
            # Waits for the end of the transaction that is looked for.
            query = sa.select(_one.c.token, self._leads()).with_for_update()
            newest, leads = connection.execute(query).one()
            if not leads:
                raise _fenced()
            return bool(newest == token)

        turn = _turns.setdefault(self._url, threading.Lock())
        with turn, writing(self.engine, landed) as connection:
            if connection.execute(mine).rowcount != 1:
                raise _fenced()
            yield connection

    def _leads(self) -> sa.ColumnElement[bool]:
        if self._leader is None:
            return sa.true()
        return sa.and_(_one.c.generation == self._leader, _one.c.claim == self._claim())

    def _claim(self) -> str:
        """What this process claims its leadership by: all its writers together."""
        return _claims.setdefault((self._url, self._leader), uuid.uuid4().hex)


class NewestChange:
    """Reads which change of a store in PostgreSQL is the newest. Blocking.

    Args:
        url: ``database_url``.
        store: Name of the store for messages.
    """

    def __init__(self, url: sa.URL, store: str) -> None:
        self._engine = open_reader(url, store)

    def read(self) -> str:
        """Read its token: one row. No other change has it, whatever a failover has lost.

        Raises:
            StoreError: It cannot be read now.
        """
        with reading(self._engine) as connection:
            found = connection.execute(sa.select(_one.c.token)).scalar()
        if found is None:
            raise StoreError("the store is not made yet")
        return str(found)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def _fenced() -> FencedError:
    return FencedError("another process leads now, and changes the store; this one must stop")
