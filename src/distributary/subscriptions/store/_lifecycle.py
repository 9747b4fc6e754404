"""What becomes of subscriptions, noted in the transaction that changes them: the outbox's writers.

Called by ``Batch`` and ``Store``. A row is written only where somebody listens: at the Broker
``lifecycle`` of the namespace, or at the sink of the subscription itself (``config.lifecycle``). So
whoever asks for nothing pays nothing. Routes at such a Broker are told of by nobody: an event about
the delivery of such events would make others for ever.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.tenant import is_lifecycle
from distributary.routes import tables as _tables
from distributary.routes.batch import ActiveRoute
from distributary.subscriptions.store.lifecycle_rows import (
    ENDED,
    STARTED,
    UPDATED,
    About,
    about_route,
    about_subscription,
    add_rows,
)
from distributary.subscriptions.store.stored import StoredSubscription

_l = _tables.lifecycle_route

_UIDS_MAX: Final = 500
"""Uids in one statement."""

_LIKELY: Final = b'"lifecycle":true'
"""In most objects with ``config.lifecycle``, and in few others: the others need not be read."""


@dataclass(slots=True)
class LifecycleChanges:
    """Rows of the outbox, and who listens, as a batch of changes sees them.

    Attributes:
        listening: Uids of the routes at the Broker ``lifecycle``, by namespace; at least those of
            the namespaces that the changes name.
        now_ms: Stamp of the changes.
        rows: Rows to write.
        attached: Routes that began to listen, by uid: their namespaces.
        detached: Uids of those that stopped.
    """

    listening: dict[str, set[str]]
    now_ms: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    attached: dict[str, str] = field(default_factory=dict)
    detached: set[str] = field(default_factory=set)

    def stands(self, op: str, made: StoredSubscription, address: str, seq: int) -> None:
        """Note that *made* was created, replaced or rotated, and listens at *address*."""
        if self._listens(made.namespace, made.uid, address):
            return
        if self.listening.get(made.namespace) or _LIKELY in made.realized:
            kind = STARTED if op == "created" else UPDATED
            self._note(kind, about_subscription(made), op, seq)

    def gone(self, before: StoredSubscription, reason: str, seq: int) -> None:
        """Note that the subscription *before* was deleted, or ended, for *reason*."""
        if self._leaves(before.namespace, before.uid):
            return
        if self.listening.get(before.namespace):
            # Its own sink would not get it: with the route go all of its deliveries.
            about = about_subscription(before)._replace(to_sink=False)
            self._note(ENDED, about, reason, seq)

    def route_stands(self, op: str, uid: str, route: ActiveRoute, seq: int) -> None:
        """Note that the route *uid* of an object was created or replaced."""
        about = about_route(uid, route.revision, route.settings)
        if about is not None and not self._listens(about.namespace, uid, route.address):
            self._note(STARTED if op == "created" else UPDATED, about, op, seq)

    def route_gone(self, uid: str, before: ActiveRoute, seq: int) -> None:
        """Note that the route *uid* of an object was deleted."""
        about = about_route(uid, before.revision, before.settings)
        if about is not None and not self._leaves(about.namespace, uid):
            self._note(ENDED, about._replace(to_sink=False), "deleted", seq)

    def _listens(self, namespace: str, uid: str, address: str) -> bool:
        """Whether the route *uid* listens to the server's own Broker from now on."""
        if not is_lifecycle(address):
            self._leaves(namespace, uid)
            return False
        self.listening.setdefault(namespace, set()).add(uid)
        self.attached[uid] = namespace
        self.detached.discard(uid)
        return True

    def _leaves(self, namespace: str, uid: str) -> bool:
        """Whether the route *uid* listened there; it does no more."""
        there = self.listening.get(namespace)
        if there is None or uid not in there:
            return False
        there.discard(uid)
        self.attached.pop(uid, None)
        self.detached.add(uid)
        return True

    def _note(self, transition: str, about: About, reason: str, seq: int) -> None:
        to_broker = bool(self.listening.get(about.namespace))
        if to_broker or about.to_sink:
            row = about.row(transition, self.now_ms, {"reason": reason}, to_broker=to_broker)
            self.rows.append(row | {"seq": seq})


def write_lifecycle(connection: Connection, changes: LifecycleChanges) -> None:
    """Write what a batch noted."""
    uids = [*changes.detached, *changes.attached]
    for first in range(0, len(uids), _UIDS_MAX):
        some = uids[first : first + _UIDS_MAX]
        connection.execute(sa.delete(_l).where(_l.c.uid.in_(some)))
    if changes.attached:
        rows = [{"uid": uid, "namespace": name} for uid, name in changes.attached.items()]
        connection.execute(sa.insert(_l), rows)
    add_rows(connection, changes.rows)
