"""What the processes of the pipeline know about resources: read-only, and never stale for long."""

from typing import NamedTuple

import sqlalchemy as sa

from distributary.control import _engine, _tables
from distributary.control._store import check_version
from distributary.errors import StoreError
from distributary.policy import parse_duration_s
from distributary.resource import SubscriptionSpec
from distributary.resource.api_subscription import restore

_t = _tables.api_subscription
_g = _tables.generation


class Listed(NamedTuple):
    """The newest revision of a resource.

    Attributes:
        id: Name of the resource, for people.
        revision: From 1.
        spec: Where and how to deliver.
    """

    id: str
    revision: int
    spec: SubscriptionSpec


class _Unread(NamedTuple):
    id: str
    revision: int
    realized: str


class Directory:
    """The resources in the store at *url*, as of the last ``refresh``. For one thread.

    A route record may reach a reader of the log before its next ``refresh``. The store is
    always written first, so a ``refresh`` after an unknown uid finds it.

    Raises:
        StoreError: There is no store yet, or a newer version wrote it.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine = _engine.open_reader(url)
        self._seq = -1
        self._listed: dict[str, Listed | _Unread] = {}
        with _engine.guard(), self._engine.connect() as connection:
            version = connection.execute(sa.select(_tables.schema.c.version)).scalar()
        if version is None:
            raise StoreError("the resource store is not made yet")
        check_version(version)

    def __len__(self) -> int:
        """How many resources stand."""
        return len(self._listed)

    def uids(self) -> list[str]:
        """Uids of the resources that stand, as of the last ``refresh``."""
        return list(self._listed)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def refresh(self) -> bool:
        """Look for changes; True where there were some.

        One short read where there are none (about 0.1 ms); otherwise only changed resources
        are read, and all of them where this process has slept through more changes than the
        store keeps deleted rows for.

        Raises:
            StoreError: The store cannot be read now; what was known stays.
        """
        with _engine.guard(), self._engine.connect() as connection:
            newest = connection.execute(sa.select(_g.c.seq, _g.c.trimmed_through)).one()
            if newest.seq == self._seq:
                return False
            everything = self._seq < newest.trimmed_through
            query = sa.select(_t.c.uid, _t.c.id, _t.c.revision, _t.c.state, _t.c.spec_json)
            if everything:
                query = query.where(_t.c.state == _tables.LIVE)
            else:
                query = query.where(_t.c.seq > self._seq)
            rows = connection.execute(query).all()
        if everything:
            self._listed.clear()
        for uid, id_, revision, state, realized in rows:
            if state == _tables.LIVE:
                self._listed[uid] = _Unread(id_, revision, realized)
            else:
                self._listed.pop(uid, None)
        self._seq = newest.seq
        return True

    def get(self, uid: str) -> Listed | None:
        """The resource of the route *uid*; None where it is deleted, or not seen yet.

        Raises:
            StoreError: Its row cannot be read: damage, or a newer version wrote it.
        """
        found = self._listed.get(uid)
        if isinstance(found, _Unread):  # most routes are asked for rarely: read when asked
            try:
                spec = restore(found.realized.encode(), parse_duration_s)
            except ValueError as error:
                raise StoreError(f"the stored subscription {found.id} is damaged") from error
            found = self._listed[uid] = Listed(found.id, found.revision, spec)
        return found
