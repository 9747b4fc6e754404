"""Leases in a PostgreSQL database, for holders on several machines.

A row has the generation of its newest holder, and until when that holder may act. The database's
clock alone decides when it has run out; who takes it then raises the generation. A holder renews
its lease in a thread of its own, with a connection of its own: nothing else waits for it, and it
waits for nothing else.

A lease permits to begin. It does not make writing safe: a holder may be stopped between a look at
its clock and its write. So the generation is compared inside each writing transaction (DESIGN rule
2, one owner), and clocks decide no more than who works, and how much is done twice.

Called by who owns a partition or leads. Hides: SQL, the thread.
"""

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import database
from distributary.core.clock import boot_s
from distributary.core.errors import DistributaryError, FencedError, LogLockedError, StoreError

TTL_S: Final = 6.0
"""How long a lease holds without being renewed: three renewals, of which two may fail. It is the
longest wait for the next holder after a machine is gone."""
RENEWED_EVERY_S: Final = 2.0
"""Interval of renewals: three within ``TTL_S``, so that two may fail."""
RENEWED_AGAIN_S: Final = 0.5
"""Pause after a renewal that failed: a failover of the database takes seconds."""
MARGIN_S: Final = 1.0
"""Before its end the holder starts nothing more: what it starts is on its way for a moment, and the
two clocks run at slightly different rates."""
POLL_S: Final = 0.25
"""Interval of looks at a lease that is held: the most that a hand-over waits."""
WAIT_S_MAX: Final = 600.0
"""Longest wait for a lease: whoever waits longer should say so, and try again."""
NAME_CHARS_MAX: Final = 100
"""Longest name of a lease, as its column has it: those of sources have the source's name."""
HOLDER_CHARS_MAX: Final = 2_000
"""Longest details of a holder: its node and address, as JSON."""
PARTITIONS: Final = "partition-"
"""Beginning of the names of the leases of partitions."""
CONTROL: Final = "control"
"""Name of the lease whose holder leads."""
STORE: Final = "leases"
"""Name of the store in messages."""

_meta: Final = sa.MetaData()
_lease: Final = sa.Table(
    "lease",
    _meta,
    sa.Column("name", database.text(NAME_CHARS_MAX), primary_key=True),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    # Of one taking: after a failover that lost a commit, two holders may have one generation.
    sa.Column("token", sa.String(32), nullable=False),
    sa.Column("until", sa.DateTime(timezone=True), nullable=False),
    # The server's process for the connection that took or renewed it last.
    sa.Column("backend", sa.Integer),
)
_session: Final = sa.table("pg_stat_activity", sa.column("pid", sa.Integer), schema="pg_catalog")
_now: Final[Any] = sa.func.clock_timestamp()
_backend: Final[Any] = sa.func.pg_backend_pid()
_left: Final = sa.func.extract("epoch", _lease.c.until - _now)


class LeaseRow(NamedTuple):
    """A lease as others see it.

    Attributes:
        name: Its name.
        generation: Of its newest holder.
        holder: What that holder said of itself.
        left_s: Until it runs out, by the database's clock; 0 or less: nobody holds it.
        released: Whether its holder, or who took it from a dead one, has ended it. Where not, and
            it has run out, a holder has fallen silent.
        connected: Whether the connection that took or renewed it last is there. The kernel of a
            process that was killed ends it at once, and a pooler may keep it. One that is gone
            proves nothing: the server may have been started again, and the holder is reconnecting.
    """

    name: str
    generation: int
    holder: str
    left_s: float
    released: bool = False
    connected: bool = True


def partition_lease(partition: int) -> str:
    """Name of the lease of a partition of the log."""
    return f"{PARTITIONS}{partition:04d}"


def leased_partition(name: str) -> int:
    """The partition that the lease *name* is of: one of ``partition_lease``."""
    return int(name.removeprefix(PARTITIONS))


def prepare_leases(writer: Engine) -> None:
    """Make the table of leases where it is missing; any number of processes may do so at once.

    Args:
        writer: Of ``database.open_writer``.
    """
    with database.migrating(writer) as connection:
        _meta.create_all(connection)
        database.add_columns(connection, _lease.c.backend)


def read_leases(reader: Engine, prefix: str = "") -> list[LeaseRow]:
    """Return the leases whose names begin with *prefix*, those that have run out included.

    Args:
        reader: Of ``database.open_reader``.
        prefix: Of names.

    Raises:
        StoreError: They cannot be read now.
    """
    c = _lease.c
    there = sa.exists().where(_session.c.pid == c.backend)
    connected = sa.or_(c.backend.is_(None), there).label("connected")
    query = sa.select(c.name, c.generation, c.holder, _left.label("left_s"), c.token, connected)
    query = query.where(_lease.c.name.startswith(prefix, autoescape=True)).order_by(_lease.c.name)
    with database.reading(reader) as connection:
        return [
            LeaseRow(
                row.name,
                row.generation,
                row.holder,
                float(row.left_s),
                not row.token,
                row.connected,
            )
            for row in connection.execute(query)
        ]


def is_newest(name: str, generation: int) -> sa.ColumnElement[bool]:
    """The condition that nobody has taken the lease *name* after the holder of *generation*.

    Whether that one holds it still does not matter: its last words count until there are others'.
    """
    return sa.exists().where(_lease.c.name == name, _lease.c.generation == generation)


def is_last_holder(name: str, holder: str) -> sa.ColumnElement[bool]:
    """As ``is_newest``, for one who may have taken the lease several times as *holder*."""
    return sa.exists().where(_lease.c.name == name, _lease.c.holder == holder)


def is_free(name: str) -> sa.ColumnElement[bool]:
    """The condition that nobody holds the lease *name*."""
    return ~sa.exists().where(_lease.c.name == name, _lease.c.until > _now)


def usurp(connection: Connection, name: str, generation: int) -> int | None:
    """End the lease *name* of the holder of *generation*, who is known to be dead.

    Returns:
        The generation that fences it; None: another one holds the lease by now.
    """
    mine = sa.and_(_lease.c.name == name, _lease.c.generation == generation)
    values = {"generation": generation + 1, "until": _now, "token": "", "holder": ""}
    raised = _lease.update().where(mine).values(values).returning(_lease.c.generation)
    return connection.execute(raised).scalar()


class PostgresLease:
    """A ``Lease`` by a row; see ``core.lease``. Taken when constructed, which may wait.

    Args:
        url: ``database_url``.
        name: Its name, of at most ``NAME_CHARS_MAX`` characters.
        wait_s: How long to wait for another holder, at most ``WAIT_S_MAX``.
        holder: What others shall know of this holder, for people and for who relays to it.
        ttl_s: How long it holds without being renewed.
        now_s: A clock that no one sets.
        sleep: Sleeps for that many seconds.
        renews: Whether a thread renews it; False: whoever calls ``renew`` does.
        lost: Called in the thread, once, when another holder has it.

    Attributes:
        name: Its name.
        generation: As in ``Lease``.
        token: Of this taking alone.

    Raises:
        LogLockedError: Another process still holds it.
        StoreError: The database failed, or the name or the holder is too long.
        RuntimeError: No thread can be started; the lease is released.
    """

    def __init__(
        self,
        url: sa.URL,
        name: str,
        wait_s: float = 0.0,
        *,
        holder: str = "",
        ttl_s: float = TTL_S,
        now_s: Callable[[], float] = boot_s,
        sleep: Callable[[float], None] = time.sleep,
        renews: bool = True,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        if len(name) > NAME_CHARS_MAX or len(holder) > HOLDER_CHARS_MAX:
            raise StoreError(
                f"a lease has a name of at most {NAME_CHARS_MAX} characters, and a holder of"
                f" {HOLDER_CHARS_MAX}: {name[:NAME_CHARS_MAX]}"
            )
        self.name = name
        self.token = secrets.token_hex(16)
        self._ttl_s = ttl_s
        self._now_s = now_s
        self._told = lost
        self._lost = False
        self._ended = threading.Event()
        self._engine = database.open_alone(url, STORE)
        try:
            self.generation, self._until_s = self._take(holder, min(wait_s, WAIT_S_MAX), sleep)
        except BaseException:
            self._engine.dispose()
            raise
        self._thread: threading.Thread | None = None
        if renews:
            thread = threading.Thread(target=self._keep, name=f"lease-{name}", daemon=True)
            try:
                thread.start()
            except BaseException:
                self.release()  # nobody would renew it
                raise
            self._thread = thread

    def _take(
        self, holder: str, wait_s: float, sleep: Callable[[float], None]
    ) -> tuple[int, float]:
        give_up_s = self._now_s() + wait_s
        while True:
            began_s = self._now_s()
            found = _taken(self._engine, self.name, holder, self.token, self._ttl_s)
            if isinstance(found, int):
                return found, began_s + self._ttl_s
            if self._now_s() >= give_up_s:
                raise LogLockedError(
                    f"generation {found.generation} holds the lease {self.name}"
                    f" ({found.holder or 'unknown'}) and did not finish within {wait_s:g} s"
                )
            sleep(POLL_S)

    @property
    def until_s(self) -> float:
        """When a holder that has not heard of a renewal starts nothing more, by its clock."""
        return 0.0 if self._lost else self._until_s - MARGIN_S

    @property
    def lapsing(self) -> bool:
        """Whether the holder must start nothing now: it may go on once a renewal has come through.

        Costs a look at the clock.
        """
        return self._lost or self._now_s() >= self._until_s - MARGIN_S

    @property
    def lost(self) -> bool:
        """Whether another holder has it, as far as renewals have told: it is not held again."""
        return self._lost

    def check(self) -> None:
        """As ``Lease``; asks no database. Passes again once a renewal has come through.

        Raises:
            FencedError: Another holder has it, or may have taken it by now.
        """
        if self._lost or self._now_s() >= self._until_s:
            raise FencedError(f"the lease {self.name} of generation {self.generation} has run out")

    def check_in(self, connection: Connection) -> None:
        """Compare in a transaction: whoever takes the lease next waits until it has ended.

        Raises:
            FencedError: Another holder has taken it.
        """
        held = sa.select(_lease.c.name).where(self._mine()).with_for_update(read=True)
        if connection.execute(held).scalar() is None:
            raise FencedError(f"the lease {self.name} of generation {self.generation} was taken")

    def renew(self) -> bool:
        """Hold it for its whole time again; False: another holder has it. Blocks.

        A lease that has run out is renewed as well, as long as nobody has taken it.

        Raises:
            StoreError: The database cannot be asked now.
        """
        began_s = self._now_s()
        values = {"until": _later(self._ttl_s), "backend": _backend}
        renewed = _lease.update().where(self._mine()).values(values)
        # What a crash of the database loses of it costs copies at most.
        with database.writing(self._engine.execution_options(durable=False)) as connection:
            held = connection.execute(renewed.returning(_lease.c.name)).scalar() is not None
        if held:
            self._until_s = began_s + self._ttl_s
        elif not self._lost:
            self._lost = True
            self._told()
        return held

    def _mine(self) -> sa.ColumnElement[bool]:
        c = _lease.c
        return sa.and_(c.name == self.name, c.generation == self.generation, c.token == self.token)

    def _keep(self) -> None:
        pause_s = RENEWED_EVERY_S
        while not self._ended.wait(pause_s):
            try:
                if not self.renew():
                    return
            except DistributaryError:
                pause_s = RENEWED_AGAIN_S  # who looks at ``lapsing`` sees the consequence
            else:
                pause_s = RENEWED_EVERY_S

    def release(self) -> None:
        """Release the name for the next holder; one that cannot be told waits for its end."""
        self._ended.set()
        self._lost = True
        try:
            # Without its token: a renewal under way must not hold it again.
            ended = _lease.update().where(self._mine()).values(until=_now, token="")
            with database.writing(self._engine) as connection:
                connection.execute(ended)
        except StoreError:
            pass  # It runs out.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(RENEWED_EVERY_S)
        self._engine.dispose()


def _later(seconds: float) -> Any:
    return _now + sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _taken(engine: Engine, name: str, holder: str, token: str, ttl_s: float) -> int | LeaseRow:
    """Take the lease if it is free; returns its generation, or who holds it."""
    from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - only when it is used

    values = {"holder": holder, "token": token, "until": _later(ttl_s), "backend": _backend}
    added = insert(_lease).values(name=name, generation=1, **values)
    taken = added.on_conflict_do_update(
        index_elements=["name"],
        set_={"generation": _lease.c.generation + 1, **values},
        where=_lease.c.until <= _now,
    ).returning(_lease.c.generation)

    def landed(connection: Connection) -> bool:
        mine = sa.and_(_lease.c.name == name, _lease.c.token == token)
        found = connection.execute(sa.select(_lease.c.generation).where(mine).with_for_update())
        return found.scalar() is not None

    with database.writing(engine, landed) as connection:
        generation = connection.execute(taken).scalar()
        if generation is not None:
            return int(generation)
        row = connection.execute(
            sa.select(_lease.c.generation, _lease.c.holder, _left).where(_lease.c.name == name)
        ).one()
        return LeaseRow(name, row[0], row[1], float(row[2]))
