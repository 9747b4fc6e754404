"""One pass of the reconciler: plans a few hundred objects, then writes routes and statuses."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, TypeVar

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import DistributaryError, ResourceError
from distributary.knative.apiserver.machinery import Key, Object, StatusError
from distributary.knative.apiserver.objects import Objects, Stored, Write, timestamp
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    EVENT_POLICY,
    SUBSCRIPTION,
    TRIGGER,
    conditions,
)
from distributary.knative.reconcile._announcer import Announcer
from distributary.knative.reconcile._channel_plan import plan_channel
from distributary.knative.reconcile._dependents import Dependents
from distributary.knative.reconcile._failures import Failures
from distributary.knative.reconcile._findings import HOLDS, Finding
from distributary.knative.reconcile._known_channels import KnownChannels
from distributary.knative.reconcile._moves import Moves
from distributary.knative.reconcile._policies import EventPolicies
from distributary.knative.reconcile._ports import Gatekeeper, Ingress, Routes
from distributary.knative.reconcile._resolve import ObjectView
from distributary.knative.reconcile._routes import WAITING, RoutePlan, plan_route
from distributary.knative.reconcile._site import Site
from distributary.knative.reconcile._status import with_status
from distributary.knative.reconcile._steered import Steered
from distributary.knative.reconcile._subscribers import Subscribers, entry_of, with_lists
from distributary.knative.reconcile._trust import BUNDLES, Bundles
from distributary.knative.reconcile._work_queue import WorkQueue
from distributary.resource import Vault
from distributary.routes.batch import ActiveRoute, standing
from distributary.routes.changes import DropRoute, PutRoute

PLANS_AT_ONCE: Final = 64
"""Objects planned before yielding to the event loop: some 5 ms."""

ORDERS_MAX: Final = 16
"""Most objects whose annotations give orders in one pass: each takes two or three transactions,
some 5 ms. Those of further ones wait for the next pass, in turn; objects without orders do not."""

_LISTS_AGAIN_S: Final = 1.0
"""Retry delay after a failed write of Channel subscriber lists, seconds."""

_BY_SERVER: Final = Write(by_server=True)
_GONE: Final = frozenset(("NotFound", "Conflict"))

_ORPHAN: Final = Key(TRIGGER.resource, "", "")
"""Placeholder key for routes whose object is unknown to this process."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)

_Edit = tuple[Key, Callable[[Object], Object]]


class ReconcilePass:
    """Runs passes, and holds the state kept between them.

    Attributes:
        addresses: Brokers and Channels that the ingest process knows.
        announcer: Tells it of them.
        dependents: Which objects each plan read.
        subscribers: Subscriber lists of Channels.
        drops: Routes to delete: uid, and the key that their object had, which is queued.
        policies: EventPolicies, for the gate.
        site: Where this server is reached, and where events may go; used by the next plans.
        steered: What annotations say about deliveries.
        fault: Why the last pass left something unfinished; None: nothing.
    """

    def __init__(
        self,
        objects: Objects,
        routes: Routes,
        ingress: Ingress,
        *,
        site: Site,
        clock: Clock,
        queue: WorkQueue,
        failures: Failures,
        gatekeeper: Gatekeeper,
        steered: Steered,
        vault: Vault | None,
    ) -> None:
        self.steered = steered
        self._vault = vault
        self.policies = EventPolicies(objects, gatekeeper)
        self.addresses = KnownChannels()
        self.subscribers = Subscribers()
        self.drops: dict[str, Key] = {}
        self.fault: str | None = None
        self._objects = objects
        self._routes = routes
        self.site = site
        self._clock = clock
        self._queue = queue
        self.dependents = Dependents()
        self._moves = Moves(self.dependents)
        self.announcer = Announcer(ingress, self.addresses, self.dependents, queue, self._report)
        self._failures = failures
        self._begun = False
        self._standing: dict[str, ActiveRoute] = {}
        # Routes as last submitted, while it is unknown whether the store has them.
        self._unsure: dict[str, ActiveRoute] = {}
        self._seen_all = False
        self._bundles = Bundles()

    async def begin(self, live: Mapping[str, Key]) -> None:
        """Once: read the active routes; drop those without an object in *live* (by uid).

        Raises:
            StoreError, LogUnavailableError: Temporary; call it again.
        """
        if not self._begun:
            self._standing = await self._routes.routes()
            self._begun = True
            gone = {uid: _ORPHAN._replace(name=uid) for uid in self._standing if uid not in live}
            self.drops.update(gone)
            self._queue.add_all(gone.values())
            # Their plans say whom they ask.
            self._moves.add(key for uid, key in live.items() if uid in self._standing)

    async def take(self, keys: Collection[Key]) -> set[Key]:
        """Reconcile *keys*.

        Returns:
            Keys to retry.

        Raises:
            StoreError, StatusError: Statuses cannot be written now; retry all keys.
        """
        addressed: list[Key] = []
        routed: list[Key] = []
        policies: list[Key] = []
        places = {BROKER.resource: addressed, CHANNEL.resource: addressed}
        places[EVENT_POLICY.resource] = policies
        for key in keys:
            places.get(key.resource, routed).append(key)
        untold = self.addresses.take(addressed)
        try:
            # Sees all of *untold*, so no Broker takes an event that its policy forbids.
            self._queue.add_all(self.policies.tell())
            again = await self._drop(frozenset(keys))
            held = self._hold([*addressed, *policies])
            late, failed = await self._open(untold, held)
        finally:
            self.addresses.put_back(untold)
        self._queue.put_back(late)
        again |= failed
        await self.announcer.wait()
        addressed = [key for key in addressed if key not in late and key not in held]
        awaited = [key for key in addressed if self.announcer.waits(key) and key not in failed]
        self._queue.hold(awaited)
        again |= await self._look_at_addressed(addressed)
        again |= await self._look_at_policies([key for key in policies if key not in held])
        again |= await self._look_at_routed(routed)
        await self._write_subscribers()
        return again

    def _report(self, fault: str) -> None:
        self.fault = fault

    def _hold(self, keys: Iterable[Key]) -> frozenset[Key]:
        """Those of *keys* by whose policies a receiver does not decide yet: the queue holds them.

        A deleted policy is one of them, and a deleted Broker or Channel is none.
        """
        concerned = [
            key
            for key in keys
            if key.resource == EVENT_POLICY.resource or self._objects.get(key) is not None
        ]
        held = frozenset(self.policies.waiting(concerned))
        if held:
            self.fault = "a receiver does not decide by the newest EventPolicies yet"
            self._queue.hold(held)
        return held

    async def _look_at_policies(self, keys: list[Key]) -> set[Key]:
        """Write the statuses of EventPolicies that exist; returns keys to retry."""
        edits: list[_Edit] = []
        for key in keys:
            stored = self._objects.get(key)
            # One that has changed since the gate was told is queued again.
            if stored is not None and self.policies.has_told(stored):
                found = self._status_edit(stored, *self.policies.findings(stored))
                edits += (_unless_changed(stored, edit) for edit in found)
        return await self._write(edits)

    async def _drop(self, keys: AbstractSet[Key]) -> set[Key]:
        """Drop the routes of deleted objects that had these *keys*; returns keys to retry."""
        drops = [(uid, key) for uid, key in self.drops.items() if key in keys]
        faults = await asyncio.gather(*(self._submit(DropRoute(uid)) for uid, _ in drops))
        again: set[Key] = set()
        for (uid, key), fault in zip(drops, faults, strict=True):
            if fault is None:
                self.drops.pop(uid, None)
                self._standing.pop(uid, None)
                self._unsure.pop(uid, None)
            else:
                again.add(key)
        return again

    async def _open(
        self, untold: dict[str, Key], held: AbstractSet[Key]
    ) -> tuple[set[Key], set[Key]]:
        """Open the addresses of *untold* but for those *held*, once all routes listen there.

        Receivers learn of them, and of what is gone, meanwhile. Leaves in *untold* what stays
        closed for now.

        Returns:
            Keys for whose routes this pass has no room, and keys to retry.
        """
        self._announce(untold, [uid for uid in untold if not self.addresses.stands(uid)])
        opening = {uid: key for uid, key in untold.items() if key not in held}
        new = self.addresses.new(opening)
        moved = await self._move(new)
        closed = {key for key in new.values() if self._moves.left(key.namespace)}
        ready = {uid: key for uid, key in opening.items() if key not in closed}
        try:
            await self._objects.open_addresses(self.addresses.new(ready))
        except DistributaryError as error:
            self.fault = str(error)
            return set(), set(opening.values())
        self._announce(untold, ready)
        return (closed, set()) if moved else (set(), closed)

    def _announce(self, untold: dict[str, Key], uids: Iterable[str]) -> None:
        """Have receivers read the addresses of *uids*, and take them out of *untold*."""
        told = {uid: untold.pop(uid) for uid in uids}
        self._moves.forget(told)
        self.announcer.add(told)

    async def _move(self, new: Mapping[str, Key]) -> bool:
        """Move routes to the recreated Brokers and Channels *new*, as many as there is room for.

        Returns False if some could not be moved, and are to be tried again. A route that is
        refused for good does not block its Broker or Channel.
        """
        self._moves.begin(new)
        moves: dict[Key, PutRoute] = {}
        orders = 0
        looked_at = self._moves.next(dict.fromkeys(key.namespace for key in new.values()))
        for number, key in enumerate(looked_at):
            if number % PLANS_AT_ONCE == PLANS_AT_ONCE - 1:
                await asyncio.sleep(0)
            found = self._moved(key)
            if found is None:
                self._moves.done(key)
                continue
            stored, route = found
            if await self.steered.has_orders(stored):
                orders += 1
                if orders > ORDERS_MAX:
                    continue
                await self.steered.halt(stored)
            moves[key] = route
        faults = await asyncio.gather(*(self._submit(route) for route in moves.values()))
        for key, fault in zip(moves, faults, strict=True):
            if _is_final(fault):
                self._moves.done(key)
        return all(map(_is_final, faults))

    def _moved(self, key: Key) -> tuple[Stored, PutRoute] | None:
        """The object *key* and its route, if that is active at another address than planned."""
        stored = self._objects.get(key)
        before = None if stored is None else self._standing.get(stored.uid)
        if stored is None or before is None:
            return None
        plan = self._look(self._plan_route, stored)
        route = None if plan is None else plan.route
        return None if route is None or route.address == before.address else (stored, route)

    async def _submit(self, change: PutRoute | DropRoute) -> DistributaryError | None:
        """Submit *change*; returns the error if it failed."""
        if isinstance(change, PutRoute):
            self._unsure[change.uid] = standing(change, 0)
        try:
            applied = await self._routes.submit(change)
        except DistributaryError as error:
            self.fault = str(error)
            if isinstance(error, ResourceError):  # refused: it never took effect
                self._unsure.pop(change.uid, None)
            return error
        if isinstance(change, PutRoute):
            self._standing[change.uid] = standing(change, applied.revision)
            del self._unsure[change.uid]
        return None

    async def _look_at_addressed(self, keys: list[Key]) -> set[Key]:
        found, again = await self._look_at(keys, plan_channel)
        edits: list[_Edit] = []
        for stored, plan in found:
            policies, members = self.policies.applied(stored)
            findings = plan.findings | {conditions.EVENT_POLICIES_READY: policies}
            edits += self._status_edit(stored, findings, plan.members | members)
            if with_lists(stored.content, self.subscribers.lists(stored.key)) is not stored.content:
                self.subscribers.due(stored.key)
        return again | await self._write(edits)

    async def _look_at(
        self, keys: Iterable[Key], plan: Callable[[ObjectView, Stored], _T]
    ) -> tuple[list[tuple[Stored, _T]], set[Key]]:
        """Plan the objects of *keys* that exist; returns their plans, and keys to retry."""
        found: list[tuple[Stored, _T]] = []
        again: set[Key] = set()
        for number, key in enumerate(keys):
            if number % PLANS_AT_ONCE == PLANS_AT_ONCE - 1:
                await asyncio.sleep(0)
            stored = self._objects.get(key)
            if stored is None:
                self.dependents.note(key, frozenset())
                self._moves.done(key)
                self.subscribers.forget(key)
            elif (planned := self._look(plan, stored)) is None:
                again.add(key)
            else:
                found.append((stored, planned))
        return found, again

    def _plan_route(self, view: ObjectView, stored: Stored) -> RoutePlan:
        before = self._unsure.get(stored.uid) or self._standing.get(stored.uid)
        return plan_route(view, stored, before)

    def _look(self, plan: Callable[[ObjectView, Stored], _T], stored: Stored) -> _T | None:
        """Run *plan* on *stored*; None: it failed, and the failure was logged."""
        view = ObjectView(
            self._objects.get,
            self.addresses.knows,
            self.site,
            self._trusted,
            self._objects.own_addresses,
            vault=self._vault,
        )
        try:
            return plan(view, stored)
        # A stored object that cannot be read (damage, or stricter rules) must not block all others.
        except Exception as error:  # noqa: BLE001 - see above
            self.fault = f"{stored.key.resource} {stored.key.namespace}/{stored.key.name}: {error}"
            _log.exception("object-not-understood", object=stored.key)
            return None
        finally:
            self.dependents.note(stored.key, view.asked)

    def _trusted(self) -> str:
        return self._bundles.of(self._objects.list(CONFIG_MAP, BUNDLES.namespace)[0])

    async def _look_at_routed(self, keys: list[Key]) -> set[Key]:
        """Submit routes, then write statuses about them; returns keys to retry."""
        planned, again = await self._look_at(await self._in_turn(keys), self._plan_route)
        for stored, _ in planned:
            await self.steered.halt(stored)
        faults = await asyncio.gather(*(self._make(plan.route) for _, plan in planned))
        edits: list[_Edit] = []
        for stored, _ in planned:
            await self.steered.obey(stored, routed=stored.uid in self._standing)
        for (stored, plan), fault in zip(planned, faults, strict=True):
            if fault is not None:
                again.add(stored.key)
            if _is_final(fault):
                self._moves.done(stored.key)
            stands = WAITING if plan.route is None else _stands(fault)
            findings = plan.findings | {
                plan.stands: stands,
                conditions.DELIVERIES_SUCCEEDING: self._failures.finding(stored.uid),
                conditions.DELIVERIES_ENABLED: self.steered.finding(stored.uid),
            }
            edits += self._status_edit(stored, findings, plan.members)
            if stored.key.resource == SUBSCRIPTION.resource:
                self._note_subscriber(stored, plan, stands)
        return again | await self._write(edits)

    async def _in_turn(self, keys: list[Key]) -> list[Key]:
        """Those of *keys* for which this pass has room; the others are put back."""
        orders: list[Key] = []
        for key in keys:
            stored = self._objects.get(key)
            if stored is not None and await self.steered.has_orders(stored):
                orders.append(key)
        late = frozenset(orders[ORDERS_MAX:])
        self._queue.put_back(key for key in orders if key in late)
        return [key for key in keys if key not in late]

    async def _make(self, route: PutRoute | None) -> DistributaryError | None:
        """Submit *route* unless it is active already; returns the error if that failed."""
        if route is None:
            return None
        before = self._standing.get(route.uid)
        sure = route.uid not in self._unsure
        if sure and before is not None and before == standing(route, before.revision):
            return None
        return await self._submit(route)

    def _note_subscriber(self, stored: Stored, plan: RoutePlan, stands: Finding) -> None:
        if plan.route is None or plan.channel is None:
            self.subscribers.forget(stored.key)
            return
        channel = self._objects.get(plan.channel)
        own = stored.content["spec"].get("delivery")
        source = {} if channel is None else channel.content.get("spec") or {}
        counts = own if own or (own is not None and not stored.early) else source.get("delivery")
        entry = entry_of(stored.content, plan, counts, stands)
        self.subscribers.note(stored.key, plan.channel, entry)

    async def _write_subscribers(self) -> None:
        """Write subscriber lists of Channels, once every Subscription was planned."""
        self._seen_all = self._seen_all or not self._queue.more
        if not self._seen_all:
            return
        channels = self.subscribers.take()
        again = set(channels)
        edits = [
            _edit(stored, partial(with_lists, lists=self.subscribers.lists(key)))
            for key in channels
            if (stored := self._objects.get(key)) is not None
        ]
        try:
            again = await self._write(edits)
        finally:
            for key in again:
                self.subscribers.due(key, _LISTS_AGAIN_S)

    def _status_edit(
        self, stored: Stored, findings: Mapping[str, Finding], members: Object
    ) -> list[_Edit]:
        """The edit that updates the status; empty if it is current."""
        generation = int(stored.content["metadata"].get("generation", 1))
        now = timestamp(self._clock.wall_ms())

        def change(content: Object) -> Object:
            return with_status(content, generation, findings, members, now)

        if change(stored.content) is stored.content:
            return []
        return [_edit(stored, change)]

    async def _write(self, edits: list[_Edit]) -> set[Key]:
        """Write *edits*; returns keys to retry."""
        if not edits:
            return set()
        results = await self._objects.edit_all(edits, _BY_SERVER)
        again: set[Key] = set()
        for (key, _), result in zip(edits, results, strict=True):
            if isinstance(result, StatusError) and result.reason not in _GONE:
                _log.warning("status-not-written", object=key, reason=str(result))
                self.fault = str(result)
                again.add(key)
        return again


def _edit(stored: Stored, change: Callable[[Object], Object]) -> _Edit:
    """The edit of *stored* by *change*; no change if the object was recreated meanwhile."""
    uid = stored.uid
    return stored.key, lambda now: change(now) if now["metadata"]["uid"] == uid else now


def _unless_changed(stored: Stored, edit: _Edit) -> _Edit:
    """Makes *edit* leave the object alone where its spec is not that of *stored* any more."""
    key, change = edit
    generation = stored.content["metadata"].get("generation")
    return key, lambda now: change(now) if now["metadata"].get("generation") == generation else now


def _is_final(fault: DistributaryError | None) -> bool:
    """Whether a route need not be submitted again: it stands, or is refused for good."""
    return fault is None or isinstance(fault, ResourceError)


def _stands(fault: DistributaryError | None) -> Finding:
    if fault is None:
        return HOLDS
    if isinstance(fault, ResourceError):
        return Finding("False", "TooManyRoutes", str(fault))
    return Finding("Unknown", "Pending", "its route is not active yet; it is retried")
