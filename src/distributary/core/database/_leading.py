"""Changes of a store that one process leads, one after the other.

SQLite's lock and that of the data directory see to it by themselves. In PostgreSQL each change
first updates one row: so changes have an order, a former leader changes nothing any more, and a
commit whose answer was lost is found again. A change after a failover that has lost earlier ones of
the same process fails: what that process knows of the store is not so any more.
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
    # Behind it, the token that the opening has found.
    sa.Column("claim", sa.String, nullable=False),
    # Drawn anew by each change: its opening, and its number from 1.
    sa.Column("token", sa.String, nullable=False),
)
"""One row, with ``id`` 1; in PostgreSQL alone."""

_BESIDE: Final = "+"
"""In a token: what follows is of a change by whoever does not lead, what precedes of the leader."""
_FOUND: Final = "<"
"""In a claim: what follows is the token that the opening has found."""

_of_leader: Final = sa.func.split_part(_one.c.token, _BESIDE, 1)


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

TOKENS_MAX: Final = 100
"""Tokens that the store may have: of the last durable change, and of those after it. A database
that loses more of them in a crash is taken for one that has gone back: the process starts anew."""


class _Opening:
    """By which right this process leads a store: of all its writers together.

    Attributes:
        claim: Tells it from every other opening.
        tokens: One of them is the newest change's; empty: nothing was changed yet.
        over: Whether the store is not what this process knows: it must stop.
    """

    def __init__(self) -> None:
        self._id = self.claim = uuid.uuid4().hex
        self._count = 0
        self.tokens: list[str] = []
        self.over = False

    def opens_after(self, found: str) -> None:
        """Note that the newest change before this opening has the token *found*."""
        self.claim = f"{self._id}{_FOUND}{found}"

    def draw(self) -> str:
        """Return a token for the next change."""
        self._count += 1
        return f"{self._id}.{self._count}"

    def end(self) -> FencedError:
        """Note that this process must stop; returns the error to raise."""
        self.over = True
        return FencedError(
            "another process leads now, and changes the store, or a failover of the database has"
            " lost changes; this one must stop"
        )

    def made(self, token: str, *, durable: bool) -> None:
        """Note a change that was committed."""
        self.tokens = [token] if durable else self.tokens[-TOKENS_MAX:]


_openings: Final[dict[tuple[sa.URL, int | None], _Opening]] = {}


def is_over(place: StorePlace) -> bool:
    """Whether this process has led the store at *place*, and must stop. Asks nobody."""
    return _opening_of(place.url, place.leader).over


def _opening_of(url: sa.URL, leader: int | None) -> _Opening:
    return _openings.setdefault((url, leader), _Opening())


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
        self._leader = leader
        self._durable = durable
        self._shared = is_postgres(url)
        self._opening = _opening_of(url, leader)
        self._turn = _turns.setdefault(url, threading.Lock())
        self.engine = open_writer(url, store, durable=durable)

    def making(self) -> AbstractContextManager[Connection]:
        """Open a transaction that makes or upgrades tables; see ``migrating``.

        From its end on, no process with an earlier generation changes anything.

        Raises:
            FencedError: Another process leads, or the database has lost changes of this one:
                nothing was written, and this one must stop.
            StoreError: Nothing was written.
        """
        return self._making() if self._shared else migrating(self.engine)

    def changing(self) -> AbstractContextManager[Connection]:
        """Open a transaction for a change; commits at the end of the block.

        Nobody else changes the store meanwhile, and what is read in it is the newest state.

        Raises:
            FencedError: Another process leads, or the database has lost changes of this one:
                nothing was written, and this one must stop.
            StoreError: Nothing was written; or the message says that this is not known.
        """
        return self._changing() if self._shared else writing(self.engine)

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    @contextmanager
    def _making(self) -> Iterator[Connection]:
        with self._turn, migrating(self.engine) as connection:
            _metadata.create_all(connection)
            query = sa.select(_one.c.generation, _one.c.claim, _of_leader.label("token"))
            known = connection.execute(query.with_for_update()).one_or_none()
            if known is None:
                first = {"id": 1, "generation": 0, "claim": "", "token": ""}
                connection.execute(sa.insert(_one).values(first))
            if self._leader is None:
                yield connection
                return
            ours = self._opening
            if known is not None:
                if known.generation > self._leader:
                    raise ours.end()
                if known.claim == ours.claim and known.token not in ours.tokens:
                    raise ours.end()
            if known is None or known.claim != ours.claim:
                ours.opens_after("" if known is None else known.token)
            token = ours.draw()
            values = {"generation": self._leader, "claim": ours.claim, "token": token}
            connection.execute(sa.update(_one).values(values))
            yield connection
            ours.tokens.append(token)  # from here on it may be committed
        ours.made(token, durable=self._durable)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._turn:  # before it the newest token is another thread's to change
            token = uuid.uuid4().hex if self._leader is None else self._opening.draw()
            with self._changing_to(token) as connection:
                yield connection
            self._opening.made(token, durable=self._durable)

    @contextmanager
    def _changing_to(self, token: str) -> Iterator[Connection]:
        # Whoever changes the store beside the leader tells what the leader's newest change is.
        beside = _of_leader.concat(f"{_BESIDE}{token}")
        drawn = beside if self._leader is None else token

        def landed(connection: Connection) -> bool:
            # Waits for the end of the transaction that is looked for.
            query = sa.select(_one.c.token, self._leads()).with_for_update()
            newest, leads = connection.execute(query).one()
            if not leads:
                raise self._opening.end()
            return token in newest.split(_BESIDE)

        mine = sa.update(_one).values(token=drawn).where(self._leads())
        with writing(self.engine, landed) as connection:
            if connection.execute(mine).rowcount != 1:
                raise self._opening.end()
            yield connection
            self._opening.tokens.append(token)  # from here on it may be committed

    def _leads(self) -> sa.ColumnElement[bool]:
        """The condition that this process leads the store and knows it; only in its turn."""
        if self._leader is None:
            return sa.true()
        ours = self._opening
        return sa.and_(
            _one.c.generation == self._leader,
            _one.c.claim == ours.claim,
            _of_leader.in_(ours.tokens),
        )


class Standing(NamedTuple):
    """How far the changes of a store have come.

    Attributes:
        opening: Tells the newest opening by a leader from all others; of a file: nothing.
        number: Of the newest change under it; None: others than the leader changed something.
        before: The opening before it.
        before_number: Number of the newest change that it has found of that one.
    """

    opening: str = ""
    number: int | None = 0
    before: str = ""
    before_number: int | None = None

    def has_all(self, known: "Standing") -> bool:
        """Whether the store has every change that it had at *known*: no failover has lost one."""
        if self.opening == known.opening:
            return True  # whoever leads stops where one is lost
        if not known.opening or self.before != known.opening:
            return False
        if self.before_number is None or known.number is None:
            return False
        return self.before_number >= known.number

    def joined(self, known: "Standing") -> "Standing":
        """As this, for who has also read what was there at *known*."""
        if self.opening != known.opening:
            return self
        if self.number is None or known.number is None:
            return self._replace(number=None)
        return self._replace(number=max(self.number, known.number))


def standing_of(connection: Connection) -> Standing:
    """How far the changes of the store have come, when the question is answered."""
    if connection.dialect.name != "postgresql":
        return Standing()
    found = connection.execute(sa.select(_one.c.claim, _one.c.token)).one_or_none()
    if found is None:
        return Standing()
    opening, _, token = found.claim.partition(_FOUND)
    before, before_number = _counted(token)
    return Standing(opening, _counted(found.token)[1], before, before_number)


def _counted(token: str) -> tuple[str, int | None]:
    """Opening and number of the change with this *token*; of an earlier version's: no number."""
    opening, _, number = token.rpartition(".")
    return opening, int(number) if number.isdecimal() else None


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
