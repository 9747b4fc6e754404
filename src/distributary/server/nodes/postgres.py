"""The table of nodes in PostgreSQL, who may do what, and the secrets of the cluster.

Each write is a transaction of its own, and none is durable on its return but those of secrets and
access: what is lost with the database's last moments is said again half a second later.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from distributary.core import database
from distributary.core.errors import SettingsError, StoreError
from distributary.core.postgres_nodes import LIVE_S, NODE, NODE_META
from distributary.knative.apiserver.objects import AddressBook
from distributary.resource import KeptSecret, Vault
from distributary.server.nodes._rows import (
    FORGOTTEN_S,
    NodeRow,
    NodeSign,
    NodeTakenError,
    Seen,
)

STORE: Final = "table of nodes"

_meta: Final = NODE_META
_node: Final = NODE
_access: Final = sa.Table(
    "access_snapshot",
    _meta,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("snapshot", sa.LargeBinary, nullable=False),
)
_secret: Final = sa.Table(
    "node_secret",
    _meta,
    sa.Column("name", database.text(100), primary_key=True),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
)
_partitions: Final = sa.Table(
    "log_partitions",
    _meta,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    # Those that have all route records: events land in no other.
    sa.Column("in_use", sa.Integer, nullable=False),
)
_use: Final = sa.Table(
    "node_use",
    _meta,
    sa.Column("name", database.text(100), primary_key=True),
    sa.Column("run", sa.String(32), nullable=False),
    sa.Column("report", sa.LargeBinary, nullable=False),
    sa.Column("seen", sa.DateTime(timezone=True), nullable=False),
)
_now: Final[Any] = sa.func.clock_timestamp()
_age: Final = sa.func.extract("epoch", _now - _node.c.seen)

_T = TypeVar("_T")


def make_tables(url: sa.URL) -> None:
    """Make the tables where they are missing; several may do so at once.

    Raises:
        StoreError: The database failed.
    """
    engine = database.open_writer(url, STORE)
    with database.migrating(engine) as connection:
        _meta.create_all(connection)
    engine.dispose()


class PostgresNodes:
    """``Nodes`` in a PostgreSQL database that has the tables.

    Args:
        url: ``database_url``.
        leader: Generation of the lease by which this process leads; None: it does not.
    """

    def __init__(self, url: sa.URL, leader: int | None = None) -> None:
        self._url = url
        self._engine = database.open_writer(url, STORE)
        self._leading = database.StoreWriter(url, STORE, leader=leader)
        self._book: AddressBook | None = None

    def sign(self, sign: NodeSign, *, access: int, addresses: int) -> Seen:
        """See ``Nodes.sign``."""
        values = {
            "address": sign.address,
            "run": sign.run,
            "sign": msgspec.json.encode(sign).decode(),
            "seen": _now,
        }
        stale = _node.c.seen < _now - sa.func.make_interval(0, 0, 0, 0, 0, 0, LIVE_S)
        own = sa.or_(_node.c.run == sign.run, _node.c.address == sign.address, stale)
        put = insert(_node).values(name=sign.name, **values)
        put = put.on_conflict_do_update(index_elements=["name"], set_=values, where=own)
        number, snapshot = 0, None
        with database.writing(self._engine.execution_options(durable=False)) as connection:
            if connection.execute(put.returning(_node.c.name)).scalar() is None:
                raise NodeTakenError(
                    f"another node lives under the name {sign.name}: choose another (node_name)"
                )
            rows = _rows(connection)
            number = connection.execute(sa.select(_access.c.number)).scalar() or 0
            partitions = connection.execute(sa.select(_partitions.c.in_use)).scalar() or 0
            if number > access:
                snapshot = connection.execute(sa.select(_access.c.snapshot)).scalar()
        book = self._opened()
        # The version comes first, so that a change between the two is read again.
        newest = sum(book.version())
        paths = book.read() if newest != addresses else None
        return Seen(rows, snapshot, number, paths, newest, partitions)

    def exchange(self, name: str, run: str, report: bytes) -> dict[str, bytes]:
        """See ``Nodes.exchange``."""
        values = {"run": run, "report": report, "seen": _now}
        put = insert(_use).values(name=name, **values)
        put = put.on_conflict_do_update(index_elements=["name"], set_=values)
        fresh = _use.c.seen > _now - sa.func.make_interval(0, 0, 0, 0, 0, 0, LIVE_S)
        others = sa.select(_use.c.run, _use.c.report).where(_use.c.name != name, fresh)
        with database.writing(self._engine.execution_options(durable=False)) as connection:
            connection.execute(put)
            return {row.run: bytes(row.report) for row in connection.execute(others)}

    def _opened(self) -> AddressBook:
        if self._book is None:
            self._book = AddressBook(self._url)
        return self._book

    def rows(self) -> tuple[NodeRow, ...]:
        """See ``Nodes.rows``; forgets those that are long gone."""
        gone = _now - sa.func.make_interval(0, 0, 0, 0, 0, 0, FORGOTTEN_S)
        with database.writing(self._engine.execution_options(durable=False)) as connection:
            connection.execute(_node.delete().where(_node.c.seen < gone))
            return _rows(connection)

    def access_number(self) -> int:
        """See ``Nodes.access_number``."""
        with database.reading(self._engine) as connection:
            return connection.execute(sa.select(_access.c.number)).scalar() or 0

    def publish_access(self, number: int, snapshot: bytes) -> None:
        """See ``Nodes.publish_access``; an older snapshot never replaces a newer one."""
        values = {"number": number, "snapshot": snapshot}
        put = insert(_access).values(one=1, **values)
        put = put.on_conflict_do_update(
            index_elements=["one"], set_=values, where=_access.c.number < number
        )
        with self._leading.changing() as connection:
            connection.execute(put)

    def close(self) -> None:
        """See ``Nodes.close``."""
        self._leading.close()
        if self._book is not None:
            self._book.close()
        self._engine.dispose()


def read_nodes(reader: sa.Engine) -> tuple[NodeRow, ...]:
    """All nodes, by name, for who is none.

    Args:
        reader: Of ``database.open_reader``.

    Raises:
        StoreError: The database cannot be asked now.
    """
    with database.reading(reader) as connection:
        return _rows(connection)


def settle_partitions(url: sa.URL, of_topic: int) -> int:
    """How many partitions of the log are in use: as many as the topic had at the first start.

    Args:
        url: ``database_url``.
        of_topic: How many the topic has.

    Raises:
        StoreError: The database failed.
    """
    engine = database.open_writer(url, STORE)
    first = insert(_partitions).values(one=1, in_use=of_topic).on_conflict_do_nothing()
    try:
        with database.writing(engine) as connection:
            connection.execute(first)
            return int(connection.execute(sa.select(_partitions.c.in_use)).scalar_one())
    finally:
        engine.dispose()


def partitions_in_use(url: sa.URL) -> int:
    """How many partitions of the log are in use, as ``settle_partitions`` has settled.

    Raises:
        StoreError: The database failed.
    """
    engine = database.open_writer(url, STORE)
    try:
        with database.reading(engine) as connection:
            return int(connection.execute(sa.select(_partitions.c.in_use)).scalar_one())
    finally:
        engine.dispose()


def raise_partitions(place: database.StorePlace, count: int) -> None:
    """Have nodes use *count* partitions from now on, which have all routes; never fewer.

    Args:
        place: The store, with the generation of the leader.
        count: How many.

    Raises:
        FencedError: Another node leads: nothing has changed.
        StoreError: The database failed.
    """
    writer = database.StoreWriter(place.url, STORE, leader=place.leader)
    raised = _partitions.update().where(_partitions.c.in_use < count).values(in_use=count)
    try:
        with writer.changing() as connection:
            connection.execute(raised)
    finally:
        writer.close()


def _rows(connection: sa.Connection) -> tuple[NodeRow, ...]:
    found = connection.execute(sa.select(_node.c.sign, _age.label("age_s")).order_by(_node.c.name))
    return tuple(
        NodeRow(msgspec.json.decode(row.sign, type=NodeSign), float(row.age_s)) for row in found
    )


def shared_secret(
    url: sa.URL, name: str, vault: Vault, make: Callable[[], _T], kind: type[_T]
) -> _T:
    """The secret *name* of the cluster, which its first node makes.

    It is sealed anew where this node seals by another key: from then on, a node without that key
    is told so here, and not in the middle of a delivery.

    Args:
        url: ``database_url``.
        name: Of the secret.
        vault: Seals and opens it, with this node's credential keys.
        make: Makes a new one.
        kind: Its type, for ``msgspec``.

    Raises:
        SettingsError: This node's keys do not open it.
        StoreError: The database failed.
    """
    uid = f"distributary.nodes/{name}"
    engine = database.open_writer(url, STORE)
    query = sa.select(_secret.c.sealed).where(_secret.c.name == name)
    with database.writing(engine) as connection:
        sealed = connection.execute(query).scalar()
        if sealed is None:
            kept = KeptSecret(values={name: msgspec.msgpack.encode(make())})
            put = insert(_secret).values(name=name, sealed=vault.seal_kept(uid, kept))
            connection.execute(put.on_conflict_do_nothing())
            sealed = connection.execute(query).scalar_one()  # another node may have been first
    try:
        opened = vault.open_kept(uid, bytes(sealed)).values[name]
    except StoreError as error:
        engine.dispose()
        raise SettingsError(
            "credential_key_file: this node's keys do not open the secrets of the cluster. Give it"
            f" the keys of the other nodes ({error})"
        ) from error
    if vault.outdated(bytes(sealed)):
        anew = vault.seal_kept(uid, KeptSecret(values={name: opened}))
        same = sa.and_(_secret.c.name == name, _secret.c.sealed == sealed)
        with database.writing(engine) as connection:
            connection.execute(_secret.update().where(same).values(sealed=anew))
    engine.dispose()
    return msgspec.msgpack.decode(opened, type=kind)
