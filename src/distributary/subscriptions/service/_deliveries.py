"""Delivery status and dead letters of subscriptions; requests to resume, redrive and purge.

The control process reads what partition consumers write (their delivery databases, and failing
subscriptions), and writes each request as a *demand* into its own store; each consumer carries it
out later.
"""

import dataclasses
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.errors import EventError, Fault, NotFoundError, ResourceError
from distributary.core.event import json_format
from distributary.core.event import record as event_record
from distributary.core.flow import Demand, DemandKind
from distributary.core.outcome import (
    DeliveryReader,
    FailingRoute,
    Failure,
    RouteDeliveries,
    read_failing,
)
from distributary.core.shown import shown_uri
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import StoredSubscription, SubscriptionPage

PART_BYTES: Final = 4 * 1024 * 1024
"""A part of the list of dead letters ends once its events have that many bytes."""
SLICE: Final = 32
"""Dead letters read at once; each has an event of up to 1 MiB."""
_CURSOR = re.compile(r"([0-9]{1,3})-([0-9]{1,18})")


class RouteState(NamedTuple):
    """Delivery status of a subscription.

    Attributes:
        subscription: Its newest revision.
        partitions: Its status in each of them, in their order.
        failing: Its failures since the last delivery, of each partition that has any.
    """

    subscription: StoredSubscription
    partitions: list[RouteDeliveries]
    failing: list[FailingRoute]


class DeadLetterSelection(NamedTuple):
    """Selects dead letters: those of a subscription, of a route, or (neither) all.

    Attributes:
        subscription: Id of a subscription.
        route: Uid of a route, also of a deleted one.
    """

    subscription: str | None
    route: str | None


class ListedDeadLetter(NamedTuple):
    """A kept dead letter, for people.

    Attributes:
        id: Its place in the list.
        route: Uid of its route.
        name: Owner of the route; None: deleted.
        kept_ms: Wall clock when it was kept, milliseconds.
        failure: Why it is one.
        event_json: The event from the log, in the JSON format; None: its bytes are no longer
            readable.
    """

    id: str
    route: str
    name: RouteName | None
    kept_ms: int
    failure: Failure
    event_json: bytes | None


class RunState(NamedTuple):
    """Progress of a run, over all partitions.

    Attributes:
        demand: The request.
        handled: Dead letters that were sent again, or deleted.
        passed: Dead letters that the newest filters do not match: they stay.
        done: Every partition has finished.
    """

    demand: Demand
    handled: int
    passed: int
    done: bool


class Deliveries:
    """Reads the state of all partitions, and sends demands. Blocking; safe from any thread.

    Methods raise ``StoreError`` where state cannot be read now; no demand was made then.

    Args:
        store: Resources and demands.
        clock: For stamps.
        databases: The delivery database of each partition, in their order.
        failing: For each partition, the file that lists failing subscriptions.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        databases: Sequence[Path],
        failing: Sequence[Path],
    ) -> None:
        self._store = store
        self._clock = clock
        self._readers = [DeliveryReader(path, number) for number, path in enumerate(databases)]
        self._failing = failing

    def state(self, id_: str) -> RouteState:
        """Delivery status of the subscription with this id.

        Raises:
            NotFoundError: It does not exist.
        """
        found = self._store.find(id_)
        return RouteState(
            found,
            [reader.standing(found.uid) for reader in self._readers],
            [row for path in self._failing for row in read_failing(path) if row.route == found.uid],
        )

    def resume(self, id_: str) -> Demand:
        """Demand that deliveries resume; without effect where the subscription is not parked.

        Raises:
            NotFoundError: It does not exist.
            RequestError: Too many demands lately.
        """
        uid = self._store.find(id_).uid
        run = uuid.uuid4().hex
        return self._store.demand("resume", uid, run, self._clock.wall_ms())

    def dead_letters(
        self, selection: DeadLetterSelection, limit: int, cursor: str | None
    ) -> SubscriptionPage[ListedDeadLetter]:
        """Return a part of the kept dead letters; the oldest of a partition first.

        Args:
            selection: Which.
            limit: Most dead letters, from 1; a part may end earlier.
            cursor: ``SubscriptionPage.next_cursor`` of the part before; None: from the beginning.

        Raises:
            NotFoundError: The subscription does not exist.
            ResourceError: *cursor* is invalid.
        """
        route = self._route(selection) or None
        partition, after = _read_cursor(cursor)
        found: list[tuple[int, int, ListedDeadLetter]] = []
        size = 0
        while partition < len(self._readers) and len(found) <= limit and size < PART_BYTES:
            kept = self._readers[partition].dead_letters(SLICE, after, route)
            for one in kept:
                key, failure = one.dead_letter.key, one.dead_letter.failure
                dead_letter = ListedDeadLetter(
                    f"{partition}-{one.id}",
                    key.route,
                    None,
                    one.dead_letter.kept_ms,
                    dataclasses.replace(failure, dest=shown_uri(failure.dest)),
                    _event_json(one.event),
                )
                found.append((partition, one.id, dead_letter))
                size += len(dead_letter.event_json or b"")
            after = kept[-1].id if kept else 0
            partition += 0 if kept else 1
        more = len(found) > limit or partition < len(self._readers)
        found = found[:limit]
        names = self._store.route_names({dead_letter.route for _, _, dead_letter in found})
        dead_letters = [
            dead_letter._replace(name=names.get(dead_letter.route)) for _, _, dead_letter in found
        ]
        return SubscriptionPage(
            dead_letters, f"{found[-1][0]}-{found[-1][1]}" if more and found else None
        )

    def _route(self, selection: DeadLetterSelection) -> str:
        """Uid of the selected route; empty: all."""
        if selection.subscription is not None:
            return self._store.find(selection.subscription).uid
        return selection.route or ""

    def ask(self, kind: DemandKind, selection: DeadLetterSelection, run: str | None) -> Demand:
        """Demand that dead letters are sent again, or deleted; idempotent within a run.

        Raises:
            NotFoundError: The subscription does not exist.
            ConflictError: The run has another demand.
            RequestError: Too many demands lately.
        """
        name = run or uuid.uuid4().hex
        return self._store.demand(kind, self._route(selection), name, self._clock.wall_ms())

    def run(self, run: str) -> RunState:
        """Progress of a run.

        Raises:
            NotFoundError: It is unknown, or no longer kept.
        """
        demand = self._store.find_demand(run)
        if demand is None or demand.kind == "resume":
            raise NotFoundError("there is no run of this id, or it is more than a week old")
        rows = [reader.run(demand.seq) for reader in self._readers]
        begun = [row for row in rows if row is not None]
        return RunState(
            demand,
            sum(row.handled for row in begun),
            sum(row.passed for row in begun),
            all(row is not None and row.done for row in rows),
        )


def _event_json(kept: bytes) -> bytes | None:
    """The event of a dead letter in the JSON format; None where its bytes are damaged."""
    try:
        (event,) = event_record.decode(kept)
    except (EventError, ValueError):
        return None  # the list shows the others
    return json_format.encode(event)


def _read_cursor(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        message = "this cursor did not come from a Link header of this server"
        raise ResourceError([Fault("cursor", "value", message)])
    return int(found[1]), int(found[2])
