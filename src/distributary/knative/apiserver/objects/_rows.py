"""Tables of the objects. Blocking; for one writer, one thread at a time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.database import StoreWriter
from distributary.core.errors import StoreError
from distributary.core.tenant import DEFAULT_NAMESPACE, broker_address
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import _addresses, _content, _kept
from distributary.knative.apiserver.objects._object_cache import ObjectCache
from distributary.knative.apiserver.objects._values import ObjectChange, Stored
from distributary.resource import Vault
from distributary.routes import tables as _tables

_o = _tables.object_
_a = _tables.address
_counter = _tables.object_counter

_BY_KEY: Final = sa.and_(
    _o.c.resource == sa.bindparam("of_resource"),
    _o.c.namespace == sa.bindparam("of_namespace"),
    _o.c.name == sa.bindparam("of_name"),
)


class Rows:
    """The tables in the store at *url*, created if missing.

    Args:
        url: ``sqlite_url`` of a file, or ``database_url``.
        resources: ``Kind.resource`` of the kinds that are served; rows of others are not read.
        leader: See ``StoreWriter``.

    Attributes:
        own_addresses: For ``own_address``.
        closed: Paths that were not open yet when the store was opened.

    Raises:
        StoreError: The store cannot be opened, or another version wrote it.
    """

    def __init__(self, url: sa.URL, resources: Iterable[str], *, leader: int | None = None) -> None:
        self._resources = tuple(resources)
        self._writer = StoreWriter(url, _tables.STORE, leader=leader)
        with self._writer.making() as connection:
            if _tables.create(connection) < _tables.SCHEMA_VERSION:
                raise StoreError(_tables.NOT_BROUGHT_UP)
            if _version(connection) is None:
                connection.execute(sa.insert(_counter).values(id=1, version=0, address_version=0))
            self.own_addresses = _addresses.read_own_addresses(connection)
            closed = connection.execute(sa.select(_a.c.path).where(sa.not_(_a.c.open)))
            self.closed: frozenset[str] = frozenset(closed.scalars())
        self._reader = database.open_reader(url, _tables.STORE)

    def close(self) -> None:
        """Close the connections."""
        self._reader.dispose()
        self._writer.close()

    def load(self, vault: Vault | None = None) -> tuple[ObjectCache, dict[Key, int]]:
        """Read all objects, and when each was last written (wall clock, milliseconds).

        Args:
            vault: Seals secrets anew whose key is not the newest; None: it is left to others.

        Raises:
            StoreError: The store cannot be read.
        """
        columns = (_o.c.resource, _o.c.namespace, _o.c.name, _o.c.uid, _o.c.version)
        query = (
            sa.select(*columns, _o.c.written_ms, _o.c.delivery_rules, _o.c.content_json)
            .where(_o.c.resource.in_(self._resources))
            .order_by(_o.c.version)
        )
        objects: list[Stored] = []
        written: dict[Key, int] = {}
        # A consistent snapshot: the transaction of the writer's engine blocks other writers.
        with self._writer.changing() as connection:
            version = _version(connection) or 0
            kept = _kept.read_all(connection, vault)
            for resource, namespace, name, uid, of, ms, rules, json in connection.execute(query):
                key = Key(resource, namespace, name)
                try:
                    early = rules < _tables.DELIVERY_RULES
                    stored = _content.restored(key, uid, of, json, early=early)
                    objects.append(stored._replace(sealed=kept.get(uid, b"")))
                except ValueError as error:
                    what = f"{resource} {namespace}/{name}"
                    raise StoreError(
                        f"the stored object {what} is damaged: {error}. Restore state.db from a"
                        " backup, or delete the row of this object in its table 'object' and"
                        " create the object again"
                    ) from error
                written[key] = ms
        return ObjectCache(version, objects), written

    def version(self) -> int:
        """The newest resource version that is stored.

        Raises:
            StoreError: The store cannot be read.
        """
        with database.reading(self._reader) as connection:
            return _version(connection) or 0

    def subscriptions(self, namespace: str) -> int:
        """How many live subscriptions of the Subscriptions API *namespace* has.

        Raises:
            StoreError: The store cannot be read.
        """
        table = _tables.api_subscription
        mine = sa.and_(table.c.state == _tables.LIVE, table.c.namespace == namespace)
        with database.reading(self._reader) as connection:
            query = sa.select(sa.func.count()).select_from(table).where(mine)
            return int(connection.execute(query).scalar_one())

    def write(
        self,
        changes: Sequence[ObjectChange],
        before: int,
        now_ms: int,
        opened: Sequence[Stored] = (),
    ) -> None:
        """Store *changes* in one transaction, which is durable on return.

        Args:
            changes: In order.
            before: The newest resource version before them.
            now_ms: Wall clock, milliseconds.
            opened: Brokers and Channels whose addresses are open from now on.

        Raises:
            StoreError: They are not stored; if the commit itself failed, the outcome is unknown.
        """
        with self._writer.changing() as connection:
            _count(connection, changes, before, opens=bool(opened))
            if changes:
                self._replace(connection, changes, now_ms)
            if opened:
                _open_addresses(connection, opened)

    def _replace(
        self, connection: Connection, changes: Sequence[ObjectChange], now_ms: int
    ) -> None:
        newest = {change.stored.key: change for change in changes}
        connection.execute(sa.delete(_o).where(_BY_KEY), [_key(key) for key in newest])
        rows = [_row(each.stored, now_ms) for each in newest.values() if _stands(each)]
        if rows:
            connection.execute(sa.insert(_o), rows)
        _kept.write(connection, newest.values())
        moved = {each.stored.key for each in changes if _moves_address(each)}
        final = [newest[key] for key in moved]
        _write_addresses(connection, final, self.own_addresses)


def _version(connection: Connection) -> int | None:
    return connection.execute(sa.select(_counter.c.version)).scalar()


def _count(
    connection: Connection, changes: Sequence[ObjectChange], before: int, *, opens: bool
) -> None:
    numbers: dict[str, Any] = {"version": changes[-1].stored.version if changes else before}
    if opens or any(_moves_address(change) for change in changes):
        numbers["address_version"] = _counter.c.address_version + 1
    counted = connection.execute(
        sa.update(_counter).where(_counter.c.version == before).values(numbers)
    )
    if counted.rowcount != 1:
        raise StoreError("another process wrote objects to the store; it is read again")


def _write_addresses(
    connection: Connection, moved: Sequence[ObjectChange], own: Mapping[str, str]
) -> None:
    """Replace the rows by the final state of objects that were made or deleted.

    A new address is closed until the reconciler opens it. One that needs no object is open anyway.
    """
    if not moved:
        return
    paths = [{"of_path": _addresses.path_of(each.stored.key)} for each in moved]
    connection.execute(sa.delete(_a).where(_a.c.path == sa.bindparam("of_path")), paths)
    rows = []
    for each in moved:
        if _stands(each):
            path = _addresses.path_of(each.stored.key)
            address = _addresses.own_address(each.stored, own)
            always = address == broker_address(DEFAULT_NAMESPACE)
            rows.append({"path": path, "uid": address, "open": always})
    if rows:
        connection.execute(sa.insert(_a), rows)


def _open_addresses(connection: Connection, opened: Iterable[Stored]) -> None:
    paths = [{"of_path": _addresses.path_of(each.key)} for each in opened]
    change = sa.update(_a).where(_a.c.path == sa.bindparam("of_path")).values(open=True)
    connection.execute(change, paths)


def _moves_address(change: ObjectChange) -> bool:
    return change.type != "MODIFIED" and _addresses.path_of(change.stored.key) is not None


def _stands(change: ObjectChange) -> bool:
    return change.type != "DELETED"


def _key(key: Key) -> dict[str, str]:
    return {"of_resource": key.resource, "of_namespace": key.namespace, "of_name": key.name}


def _row(stored: Stored, now_ms: int) -> dict[str, Any]:
    return {
        **stored.key._asdict(),
        "uid": stored.uid,
        "version": stored.version,
        "written_ms": now_ms,
        "delivery_rules": _tables.DELIVERY_RULES - stored.early,
        "content_json": stored.json,
    }
