"""Addresses of Brokers, Channels and namespaces: their URL paths, and where events go."""

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.errors import StoreError
from distributary.core.tenant import (
    BROKER_NAME,
    DEFAULT_NAMESPACE,
    NO_ADDRESSES,
    broker_address,
)
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import BROKER, CHANNEL
from distributary.routes import tables as _tables

_PLURALS: Final = {kind.resource: kind.plural for kind in (BROKER, CHANNEL)}

DEFAULT_BROKER: Final = Key(BROKER.resource, "default", "default")
"""The Broker that receives the events of ``POST /events``."""

_a = _tables.address
_counter = _tables.object_counter
_n = _tables.tenant
_g = _tables.generation


def path_of(key: Key) -> str | None:
    """``brokers/{namespace}/{name}``, ``channels/...``; None: the kind receives no events."""
    plural = _PLURALS.get(key.resource)
    return None if plural is None else f"{plural}/{key.namespace}/{key.name}"


def own_address(stored: Stored, own: Mapping[str, str] = NO_ADDRESSES) -> str:
    """Address of a Broker or Channel in log records and routes.

    Its uid, so a recreated one has another address; for the Broker ``default`` of a namespace,
    recreated or not, that of the namespace, where its subscriptions listen.

    Args:
        stored: The Broker or Channel.
        own: See ``broker_address``.
    """
    key = stored.key
    if key.resource == BROKER.resource and key.name == BROKER_NAME:
        return broker_address(key.namespace, own)
    return stored.uid


def read_own_addresses(connection: Connection) -> dict[str, str]:
    """Namespaces that listen elsewhere than a new one would, for ``broker_address``.

    Only an upgrade of a store makes them, so they never change while it is open.
    """
    rows = connection.execute(sa.select(_n.c.namespace, _n.c.address)).all()
    return {name: address for name, address in rows if address != broker_address(name)}


class AddressBook:
    """Reads the Brokers and Channels in the store at *url*, which another process writes.

    For one thread.

    Args:
        url: ``sqlite_url`` of a file.

    Raises:
        StoreError: There is no store yet, or another version wrote it.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine = database.open_reader(url, _tables.STORE)
        with database.reading(self._engine) as connection:
            version = connection.execute(sa.select(_tables.schema.c.version)).scalar()
        if version != _tables.SCHEMA_VERSION:
            self._engine.dispose()
            _tables.check_version(version or 0)
            raise StoreError(_tables.NOT_BROUGHT_UP)

    def read(self) -> dict[str, str]:
        """All open addresses by path: of Brokers and Channels, and of namespaces.

        A namespace has one (``namespaces/{namespace}/events``) from its first subscription or its
        Broker ``default`` on.

        Raises:
            StoreError: The store cannot be read.
        """
        with database.reading(self._engine) as connection:
            rows = connection.execute(sa.select(_a.c.path, _a.c.uid).where(_a.c.open)).all()
            known = connection.execute(sa.select(_n.c.namespace, _n.c.address)).all()
        paths = {path: uid for path, uid in rows}  # noqa: C416 - rows are no plain tuples
        tenants = {name: address for name, address in known}  # noqa: C416 - likewise
        for path, address in paths.items():
            plural, namespace, name = path.split("/")
            if plural == BROKER.plural and name == BROKER_NAME:
                tenants[namespace] = address
        events = {f"namespaces/{name}/events": address for name, address in tenants.items()}
        return paths | events | {f"namespaces/{DEFAULT_NAMESPACE}/events": ""}

    def version(self) -> tuple[int, int]:
        """Version of the addresses: changes with the result of ``read``. Reads two rows.

        Take it before ``read``; read again when it differs.

        Raises:
            StoreError: The store cannot be read.
        """
        with database.reading(self._engine) as connection:
            objects = connection.execute(sa.select(_counter.c.address_version)).scalar() or 0
            tenants = connection.execute(sa.select(_g.c.tenant_seq)).scalar() or 0
        return objects, tenants

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
