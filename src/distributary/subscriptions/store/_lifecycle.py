"""What becomes of subscriptions, noted in the transaction that changes them: the outbox's writers.

Called by ``Batch`` and ``Store``. A row is written only where somebody listens: at the Broker
``lifecycle`` of the namespace, or at the sink of the subscription itself (``config.lifecycle``). So
whoever asks for nothing pays nothing. Routes at such a Broker are told of by nobody: an event about
the delivery of such events would make others for ever.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.tenant import is_lifecycle
from distributary.routes import tables as _tables
from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import PutRoute
from distributary.subscriptions.store.lifecycle_rows import (
    DISABLED,
    ENDED,
    PAUSED,
    STARTED,
    UPDATED,
    About,
    about_route,
    about_subscription,
    add_rows,
    read_listening,
)
from distributary.subscriptions.store.steering import Steering, read_steering
from distributary.subscriptions.store.stored import StoredSubscription

_l = _tables.lifecycle_route

_UIDS_MAX: Final = 500
"""Uids in one statement."""

_COME_AGAIN: Final = (PAUSED, DISABLED)
"""Transitions that a revision may go through again: their time tells one from another."""

_LIKELY: Final = b'"lifecycle":true'
"""In most objects with ``config.lifecycle``, and in few others: the others need not be read."""


@dataclass(slots=True)
class LifecycleChanges:
    """Rows of the outbox, and who listens, as a batch of changes sees them.

    Attributes:
        listening: Uids of the routes at the Broker ``lifecycle``, by namespace; at least those of
            the namespaces that the changes name.
        now_ms: Stamp of the changes.
        steering: What is set already about the routes that the changes create, by uid.
        rows: Rows to write.
        attached: Routes that began to listen, by uid: their namespaces.
        detached: Uids of those that stopped.
    """

    listening: dict[str, set[str]]
    now_ms: int
    steering: Mapping[str, Steering]
    rows: list[dict[str, Any]] = field(default_factory=list)
    attached: dict[str, str] = field(default_factory=dict)
    detached: set[str] = field(default_factory=set)

    def stands(self, op: str, made: StoredSubscription, address: str, seq: int) -> None:
        """Note that *made* was created, replaced or rotated, and listens at *address*."""
        if self._listens(made.namespace, made.uid, address):
            return
        if self.listening.get(made.namespace) or _LIKELY in made.realized:
            kind = STARTED if op == "created" else UPDATED
            self._note(kind, about_subscription(made), seq, reason=op)

    def gone(self, before: StoredSubscription, reason: str, seq: int) -> None:
        """Note that the subscription *before* was deleted, or ended, for *reason*."""
        if self._leaves(before.namespace, before.uid):
            return
        if self.listening.get(before.namespace):
            # Its own sink would not get it: with the route go all of its deliveries.
            about = about_subscription(before)._replace(to_sink=False)
            self._note(ENDED, about, seq, reason=reason)

    def route_stands(self, op: str, uid: str, route: ActiveRoute, seq: int) -> None:
        """Note that the route *uid* of an object was created or replaced."""
        about = about_route(uid, route.revision, route.settings)
        if about is not None and not self._listens(about.namespace, uid, route.address):
            self._note(STARTED if op == "created" else UPDATED, about, seq, reason=op)
            if op == "created":
                self._starts_halted(about, seq)

    def route_gone(self, uid: str, before: ActiveRoute, seq: int) -> None:
        """Note that the route *uid* of an object was deleted."""
        about = about_route(uid, before.revision, before.settings)
        if about is not None and not self._leaves(about.namespace, uid):
            self._note(ENDED, about._replace(to_sink=False), seq, reason="deleted")

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

    def _starts_halted(self, about: About, seq: int) -> None:
        """Note what was set about a route before it was there, when nobody could be told of it."""
        before = self.steering.get(about.uid)
        if before is None:
            return
        if before.paused_ms is not None:
            self._note(PAUSED, about, seq, by=before.paused_by)
        if before.disabled_ms is not None:
            members = {"by": before.disabled_by, "reason": before.disabled_reason}
            self._note(DISABLED, about, seq, **members)

    def _note(self, transition: str, about: About, seq: int, **members: str | None) -> None:
        """Add a row, if anybody listens."""
        to_broker = bool(self.listening.get(about.namespace))
        if to_broker or about.to_sink:
            row = about.row(transition, self.now_ms, members, to_broker=to_broker)
            key = f"/{self.now_ms}" if transition in _COME_AGAIN else ""
            self.rows.append(row | {"seq": seq, "event_id": row["event_id"] + key})


def read_lifecycle(
    connection: Connection,
    changes: Iterable[object],
    namespaces: Collection[str],
    live: Collection[str],
    now_ms: int,
) -> LifecycleChanges:
    """Read what a batch of *changes* needs to know.

    Args:
        connection: In the transaction that makes them.
        changes: All of the batch.
        namespaces: Those that the changes name.
        live: Uids of the routes that exist, at least of those that the changes name.
        now_ms: Stamp of the changes.
    """
    put = {change.uid for change in changes if isinstance(change, PutRoute)}
    created = put.difference(live)
    steering = read_steering(connection, created) if created else {}
    return LifecycleChanges(read_listening(connection, namespaces), now_ms, steering)


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
