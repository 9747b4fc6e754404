"""Where events may be sent: the paths of Brokers and Channels, and whose they are."""

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
"""Its events are those of ``POST /events``."""

_a = _tables.address
_counter = _tables.object_counter


def path_of(key: Key) -> str | None:
    """``brokers/{namespace}/{name}``, ``channels/...``; None: no events are sent to that kind."""
    plural = _PLURALS.get(key.resource)
    return None if plural is None else f"{plural}/{key.namespace}/{key.name}"


def own_address(stored: Stored) -> str:
    """What log records and routes say of this Broker or Channel.

    Its uid, so that a recreated one is another; of the default broker, whichever stands, the
    address of ``POST /events``, which is empty.
    """
    return "" if stored.key == DEFAULT_BROKER else stored.uid


class AddressBook:
    """The Brokers and Channels in the store at *url*; another process writes it. For one thread.

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
        """Path (``path_of``) -> address (``own_address``), all of them, as they stand now.

        Raises:
            StoreError: The store cannot be read.
        """
        with sqlite.reading(self._engine) as connection:
            rows = connection.execute(sa.select(_a.c.path, _a.c.uid)).all()
        return {path: uid for path, uid in rows}  # noqa: C416 - rows are no plain tuples

    def version(self) -> int:
        """Grows whenever ``read`` would give something else: one row is read, cheaply.

        Take it before ``read``, and look again when it differs.

        Raises:
            StoreError: The store cannot be read.
        """
        with sqlite.reading(self._engine) as connection:
            return connection.execute(sa.select(_counter.c.address_version)).scalar() or 0

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
