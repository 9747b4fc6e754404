"""Addresses of Brokers and Channels: their URL paths, and the uids they map to."""

from typing import Final

import sqlalchemy as sa

from distributary.core import sqlite
from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import BROKER, CHANNEL
from distributary.routes import tables as _tables

_PLURALS: Final = {kind.resource: kind.plural for kind in (BROKER, CHANNEL)}

DEFAULT_BROKER: Final = Key(BROKER.resource, "default", "default")
"""The Broker that receives the events of ``POST /events``."""

_a = _tables.address
_counter = _tables.object_counter


def path_of(key: Key) -> str | None:
    """``brokers/{namespace}/{name}``, ``channels/...``; None: the kind receives no events."""
    plural = _PLURALS.get(key.resource)
    return None if plural is None else f"{plural}/{key.namespace}/{key.name}"


def own_address(stored: Stored) -> str:
    """Address of a Broker or Channel in log records and routes.

    Its uid, so a recreated one has another address; for the default broker, recreated or not, the
    empty address of ``POST /events``.
    """
    return "" if stored.key == DEFAULT_BROKER else stored.uid


class AddressBook:
    """Reads the Brokers and Channels in the store at *url*, which another process writes.

    For one thread.

    Args:
        url: ``sqlite_url`` of a file.

    Raises:
        StoreError: There is no store yet, or another version wrote it.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine = sqlite.open_reader(url, _tables.STORE)
        with sqlite.reading(self._engine) as connection:
            version = connection.execute(sa.select(_tables.schema.c.version)).scalar()
        if version != _tables.SCHEMA_VERSION:
            self._engine.dispose()
            _tables.check_version(version or 0)
            raise StoreError(_tables.NOT_BROUGHT_UP)

    def read(self) -> dict[str, str]:
        """All current addresses: path (``path_of``) -> address (``own_address``).

        Raises:
            StoreError: The store cannot be read.
        """
        with sqlite.reading(self._engine) as connection:
            rows = connection.execute(sa.select(_a.c.path, _a.c.uid)).all()
        return {path: uid for path, uid in rows}  # noqa: C416 - rows are no plain tuples

    def version(self) -> int:
        """Version of the addresses: grows whenever the result of ``read`` changes. Reads one row.

        Take it before ``read``; read again when it differs.

        Raises:
            StoreError: The store cannot be read.
        """
        with sqlite.reading(self._engine) as connection:
            return connection.execute(sa.select(_counter.c.address_version)).scalar() or 0

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
