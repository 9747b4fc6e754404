"""Writes a batch of changes, and forgets old ones. Called by ``store``, in its transactions."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.routes import tables as _tables
from distributary.routes.batch import write_targets
from distributary.subscriptions.store._batch import Batch
from distributary.subscriptions.store._lifecycle import write_lifecycle
from distributary.subscriptions.store._tenants import write_tenants
from distributary.subscriptions.store.credentials_rows import write_credentials
from distributary.subscriptions.store.schedule import write_schedule

_t = _tables.api_subscription
_g = _tables.generation
_r = _tables.route_change


def write_batch(connection: Connection, batch: Batch, live_count: int) -> None:
    """Write *batch*, after which so many subscriptions and routes are live."""
    # Updates first: the same batch may insert an id again that it deletes.
    if batch.updates:
        connection.execute(
            sa.update(_t).where(_t.c.uid == sa.bindparam("key")),
            [row.columns() | {"key": row.subscription.uid} for row in batch.updates.values()],
        )
    if batch.inserts:
        connection.execute(sa.insert(_t), [row.columns() for row in batch.inserts.values()])
    connection.execute(sa.insert(_r), batch.records)
    write_targets(connection, batch.targets)
    write_schedule(connection, batch.schedules)
    write_credentials(connection, batch.credentials)
    write_tenants(connection, batch.tenants)
    write_lifecycle(connection, batch.lifecycle)
    connection.execute(sa.update(_g).values(seq=batch.seq, live_count=live_count))


def trim(connection: Connection, through_seq: int) -> None:
    """Forget records and deleted rows of changes up to this number."""
    if through_seq <= 0:
        return
    connection.execute(sa.delete(_r).where(_r.c.appended.is_(True), _r.c.seq <= through_seq))
    for table in (_t, _tables.route_target):
        gone = sa.and_(table.c.state == _tables.DELETED, table.c.seq <= through_seq)
        connection.execute(sa.delete(table).where(gone))
    connection.execute(sa.update(_g).values(trimmed_through=through_seq))
