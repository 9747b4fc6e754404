"""Secrets that the server keeps, for Triggers and messaging Subscriptions that name them.

Called by ``DirectoryTargets``. Values are opened when a target is made, and are in no other place.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import sqlalchemy as sa

from distributary.core import database
from distributary.core.deliver.origins import origin_of
from distributary.core.deliver.signing import SigningKeys
from distributary.core.engine import RouteTarget
from distributary.core.errors import StoreError
from distributary.resource import (
    NOT_FOR_SINK,
    KeptSecret,
    Withheld,
    credential_of,
    signing_keys_of,
    withheld_from,
)
from distributary.routes import tables as _tables
from distributary.routes.settings import RouteEndpoint, RouteSettings
from distributary.subscriptions.store import Sealer

_k: Final = _tables.kept_secret
_c: Final = _tables.kept_secret_counter

_Name = tuple[str, str]
_T = TypeVar("_T")


class KeptRow(NamedTuple):
    """The values of one Secret.

    Attributes:
        uid: Of the object.
        sealed: For ``Sealer.open_kept``.
    """

    uid: str
    sealed: bytes


class KeptNews(NamedTuple):
    """Changes that were read and not yet applied.

    Attributes:
        seq: Number of the newest change.
        changed: By namespace and name.
        there: All that exist.
    """

    seq: int
    changed: Mapping[_Name, KeptRow]
    there: frozenset[_Name]


class KeptSecrets:
    """The secrets in the store at *url*, as of the last ``take``.

    ``read`` may run in another thread than the rest.

    Args:
        url: Of the store.
        sealer: Opens them.
    """

    def __init__(self, url: sa.URL, sealer: Sealer) -> None:
        self._engine = database.open_reader(url, _tables.STORE)
        self._sealer = sealer
        self._seq = 0
        self._rows: dict[_Name, KeptRow] = {}
        self._routes: dict[_Name, set[str]] = {}

    def read(self, *, anew: bool = False) -> KeptNews | None:
        """Read changes, or everything *anew*; None: there are none. Blocks.

        Raises:
            StoreError: The store cannot be read now.
        """
        with database.reading(self._engine) as connection:
            seq = connection.execute(sa.select(_c.c.seq)).scalar() or 0
            after = 0 if anew else self._seq
            if not anew and seq == after:
                return None
            rows = connection.execute(
                sa.select(_k.c.namespace, _k.c.name, _k.c.uid, _k.c.sealed).where(_k.c.seq > after)
            )
            changed = {(namespace, name): KeptRow(*rest) for namespace, name, *rest in rows}
            names = connection.execute(sa.select(_k.c.namespace, _k.c.name))
            return KeptNews(seq, changed, frozenset((one.namespace, one.name) for one in names))

    def take(self, news: KeptNews) -> set[str]:
        """Apply what ``read`` returned; returns the routes whose targets it concerns."""
        gone = self._rows.keys() - news.there
        for name in gone:
            del self._rows[name]
        changed = {name for name, row in news.changed.items() if self._rows.get(name) != row}
        self._rows |= news.changed
        self._seq = news.seq
        concerned: set[str] = set()
        for name in gone | changed:
            concerned |= self._routes.pop(name, set())
        return concerned

    def forget(self, route: str) -> None:
        """Forget *route*, which has ended."""
        for routes in self._routes.values():
            routes.discard(route)

    def resolve(self, route: str, settings: RouteSettings, target: RouteTarget) -> RouteTarget:
        """Return *target* of *route* with what the Secrets that *settings* name hold.

        Where one is missing, or not for the sink, what is for the sink waits.
        """
        namespace, sink = settings.namespace, target.sink
        if namespace is None or sink.own or not (settings.credential or settings.signature):
            return target
        try:
            origin = origin_of(sink.uri)
            if settings.credential:
                secret = self._open(route, (namespace, settings.credential), settings.sink)
                credential = _usable(credential_of(settings.credential, secret, origin))
                sink = dataclasses.replace(sink, credential=credential)
            if settings.signature:
                secret = self._open(route, (namespace, settings.signature), settings.sink)
                keys = _usable(signing_keys_of(settings.signature, secret))
                sink = dataclasses.replace(sink, signing=SigningKeys(origin, keys))
        except StoreError as error:
            sink = dataclasses.replace(target.sink, refused=target.sink.refused or str(error))
        return dataclasses.replace(target, sink=sink)

    def _open(self, route: str, name: _Name, sink: RouteEndpoint) -> KeptSecret:
        self._routes.setdefault(name, set()).add(route)
        row = self._rows.get(name)
        secret = None if row is None else self._sealer.open_kept(row.uid, row.sealed)
        # One answer for both: what other sinks have is nobody's business.
        absent = f"there is no Secret {name[1]} for this sink in the namespace {name[0]}"
        if secret is None:
            raise StoreError(absent)
        withheld = withheld_from(name[1], secret, sink.uri, sink.dial, sink.ca_certs)
        if withheld is not None:
            raise StoreError(absent if withheld.reason == NOT_FOR_SINK else withheld.message)
        return secret

    def close(self) -> None:
        """Close the store."""
        self._engine.dispose()


def _usable(found: _T | Withheld) -> _T:
    if isinstance(found, Withheld):
        raise StoreError(found.message)
    return found
