"""The rows of API keys in the resource store. Blocking."""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.access import Grant, KeyRecord
from distributary.access.snapshot import KEYS_MAX
from distributary.core import database
from distributary.core.database import StoreWriter
from distributary.core.errors import ConflictError, RequestError
from distributary.routes import tables as _tables

NAMESPACE_KEYS_MAX: Final = 1_000
"""Most valid keys that allow anything in one namespace, ``*`` counting as one: a tenant cannot use
up the keys of the others."""

_k = _tables.api_key
_u = _tables.api_key_use


class StoredKey(NamedTuple):
    """A key, without its text.

    Attributes:
        record: What receivers know of it.
        created_ms: When it was made, wall clock, milliseconds; None: by the configuration file.
        created_by: Name of the identity that made it; empty: the configuration file.
        used_ms: The minute in which it was used last; None: never.
    """

    record: KeyRecord
    created_ms: int | None
    created_by: str
    used_ms: int | None = None

    def valid(self, now_ms: int) -> bool:
        """Whether it has not expired."""
        return self.record.until_ms is None or self.record.until_ms > now_ms


class ApiKeyStore:
    """The API keys of the resource store at *url*, whose tables exist. Safe from any thread.

    Args:
        url: ``sqlite_url`` of a file, or ``database_url``.
        keys_max: Most keys; expired ones count, and make way for new ones.
        namespace_keys_max: See ``NAMESPACE_KEYS_MAX``.
        leader: See ``StoreWriter``.

    Raises:
        StoreError: It cannot be opened.
    """

    def __init__(
        self,
        url: sa.URL,
        *,
        keys_max: int = KEYS_MAX,
        namespace_keys_max: int = NAMESPACE_KEYS_MAX,
        leader: int | None = None,
    ) -> None:
        self._keys_max = keys_max
        self._namespace_keys_max = namespace_keys_max
        self._writer = StoreWriter(url, _tables.STORE, leader=leader)
        # When a key was used last is no promise: a power cut may lose some minutes of it.
        self._noter = StoreWriter(url, _tables.STORE, durable=False, leader=leader)
        self._reader = database.open_reader(url, _tables.STORE)

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._noter.close()
        self._writer.close()

    def read_all(self) -> list[StoredKey]:
        """All keys in the order of their names, expired ones included.

        Raises:
            StoreError: They cannot be read.
        """
        with database.reading(self._reader) as connection:
            return _read(connection)

    def uses(self) -> dict[str, int]:
        """When each key was used last, by id: those of the configuration file too.

        Raises:
            StoreError: It cannot be read.
        """
        with database.reading(self._reader) as connection:
            return {row.id: row.used_ms for row in connection.execute(sa.select(_u))}

    def add(self, key: StoredKey, now_ms: int, reserved: Collection[str]) -> None:
        """Store *key*; durable on return.

        Args:
            key: A new key.
            now_ms: Wall clock, milliseconds.
            reserved: Names of the keys in the configuration file.

        Raises:
            ConflictError: A valid key has its name.
            RequestError: There are as many as may be.
            StoreError: Nothing was stored.
        """
        record = key.record
        with self._writer.changing() as connection:
            found = _read(connection)
            valid = [each for each in found if each.valid(now_ms)]
            if record.name in {each.record.name for each in valid} | set(reserved):
                raise ConflictError("a valid key has this name already; revoke it first, or choose"
                                    " another name")  # fmt: skip
            self._check_room(valid, record)
            expired = sorted(
                (each for each in found if not each.valid(now_ms)),
                key=lambda each: each.record.until_ms or 0,
            )
            room = self._keys_max - len(found)
            _remove(connection, [each.record.id for each in expired[: max(0, 1 - room)]])
            connection.execute(sa.insert(_k).values(_row(key)))

    def _check_room(self, valid: list[StoredKey], record: KeyRecord) -> None:
        if len(valid) >= self._keys_max:
            raise RequestError("unavailable", f"there are {self._keys_max} keys: revoke some")
        counts: dict[str, int] = {}
        for each in valid:
            for namespace in _namespaces(each.record):
                counts[namespace] = counts.get(namespace, 0) + 1
        for namespace in sorted(_namespaces(record)):
            if counts.get(namespace, 0) >= self._namespace_keys_max:
                raise RequestError(
                    "unavailable",
                    f"namespace {namespace} has {self._namespace_keys_max} keys: revoke some",
                )

    def remove(self, id_: str) -> None:
        """Remove the key with this id, if there is one; durable on return.

        Raises:
            StoreError: Nothing was removed.
        """
        with self._writer.changing() as connection:
            _remove(connection, [id_])

    def note_uses(self, uses: Mapping[str, int]) -> None:
        """Store when keys were used last.

        Args:
            uses: Id -> the minute, wall clock, milliseconds. Earlier ones than are stored change
                nothing.

        Raises:
            StoreError: Nothing was stored.
        """
        if not uses:
            return
        with self._noter.changing() as connection:
            before = {row.id: row.used_ms for row in connection.execute(sa.select(_u))}
            added = [each for each in uses if each not in before]
            later = [each for each, used in uses.items() if used > before.get(each, used)]
            if added:
                rows = [{"id": each, "used_ms": uses[each]} for each in added]
                connection.execute(sa.insert(_u), rows)
            if later:
                change = sa.update(_u).where(_u.c.id == sa.bindparam("key"))
                rows = [{"key": each, "used_ms": uses[each]} for each in later]
                connection.execute(change, rows)

    def forget_uses(self, known: Collection[str]) -> None:
        """Remove the uses of keys that are not *known*, neither here nor in a file.

        Raises:
            StoreError: Nothing was removed.
        """
        with self._noter.changing() as connection:
            found = connection.execute(sa.select(_u.c.id)).scalars()
            gone = [{"key": each} for each in found if each not in known]
            if gone:
                connection.execute(sa.delete(_u).where(_u.c.id == sa.bindparam("key")), gone)


def _namespaces(record: KeyRecord) -> set[str]:
    return {namespace for grant in record.grants for namespace in grant.namespaces}


def _read(connection: Connection) -> list[StoredKey]:
    query = (
        sa.select(_k, _u.c.used_ms)
        .join_from(_k, _u, _u.c.id == _k.c.id, isouter=True)
        .order_by(_k.c.name, _k.c.created_ms)
    )
    return [
        StoredKey(
            KeyRecord(
                id=row.id,
                name=row.name,
                sha256=row.sha256,
                grants=msgspec.json.decode(row.grants_json, type=tuple[Grant, ...]),
                until_ms=row.until_ms,
            ),
            row.created_ms,
            row.created_by,
            row.used_ms,
        )
        for row in connection.execute(query)
    ]


def _row(key: StoredKey) -> dict[str, Any]:
    record = key.record
    return {
        "id": record.id,
        "name": record.name,
        "sha256": record.sha256,
        "grants_json": msgspec.json.encode(record.grants),
        "created_ms": key.created_ms,
        "created_by": key.created_by,
        "until_ms": record.until_ms,
    }


def _remove(connection: Connection, ids: Collection[str]) -> None:
    for table in (_k, _u):
        connection.execute(sa.delete(table).where(table.c.id.in_(ids)))
