"""The reconciler's loop: watches objects, keeps their routes and statuses as desired.

Level-triggered: a change only queues objects; what is done depends on the state of all objects at
that moment. So changes may be repeated, late or coalesced; those missed over a restart do not
matter, since a start reconciles everything.

The order of one pass: move routes to new addresses, open these, have receivers read them, write
statuses of Brokers and Channels, submit routes, write statuses of Triggers and Subscriptions. Each
step is idempotent; a crash between two steps leaves at most a late status. A pass does so much of
this as takes a moment, and waits for no receiver: the rest is for the next ones.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import DistributaryError
from distributary.core.periodic import keep_turning
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.objects import ObjectChange, Objects, Stored, path_of
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    EVENT_POLICY,
    SUBSCRIPTION,
    TRIGGER,
    conditions,
)
from distributary.knative.reconcile._failure_events import FailureEvents
from distributary.knative.reconcile._failures import LOOK_S, FailureFiles, Failures
from distributary.knative.reconcile._pass import ReconcilePass
from distributary.knative.reconcile._ports import (
    Gatekeeper,
    Ingress,
    Routes,
    Steering,
)
from distributary.knative.reconcile._site import Site
from distributary.knative.reconcile._status import condition_of
from distributary.knative.reconcile._steered import Steered
from distributary.knative.reconcile._trust import BUNDLES, concerns
from distributary.knative.reconcile._work_queue import WorkQueue
from distributary.resource import Vault

TURN_MAX: Final = 256
"""Objects in one pass: one batch of the leader, and one transaction of statuses. Changes that
arrive meanwhile wait some 50 ms."""

DECIDED_LOOK_S: Final = 0.05
"""Interval of looking whether receivers decide by the newest EventPolicies, seconds, while a
Broker, Channel or policy waits for that. They read them four times a second."""

_ADDRESSED: Final = frozenset((BROKER.resource, CHANNEL.resource))
_ROUTED: Final = frozenset((TRIGGER.resource, SUBSCRIPTION.resource))
_POLICIES: Final = frozenset((EVENT_POLICY.resource,))
_OURS: Final = _ADDRESSED | _ROUTED | _POLICIES

_START: Final = Key("", "", "")
"""Triggers the first pass even without objects: routes of deleted ones may remain."""

_log = structlog.get_logger(__name__)


class Reconciler:
    """Keeps routes and statuses as the objects define them. One per store, in one process.

    Args:
        objects: Desired state and statuses; started.
        routes: Stores routes; started.
        ingress: Receives events at the addresses of Brokers and Channels.
        site: Where this server is reached.
        clock: For conditions.
        gatekeeper: Decides who may send what.
        steering: Carries out what annotations say about deliveries.
        failing: Files in which the owners of partitions list failing routes.
        over: See ``FailureFiles``.
        awaited: See ``FailureFiles``.
        vault: Opens the values of Secrets; for this object alone. None: there are none.
        count: Called with the name of a counter and its increment.
    """

    def __init__(
        self,
        objects: Objects,
        routes: Routes,
        ingress: Ingress,
        site: Site,
        clock: Clock,
        *,
        gatekeeper: Gatekeeper,
        steering: Steering,
        failing: Iterable[Path] = (),
        over: Callable[[], AbstractSet[str]] = frozenset,
        awaited: Callable[[], Mapping[str, tuple[str, int]]] = dict,
        vault: Vault | None = None,
        count: Callable[[str, int], None] = lambda _name, _count: None,
    ) -> None:
        self._objects = objects
        self._count = count
        self._queue = WorkQueue()
        self._failures = Failures(clock)
        self._events = FailureEvents(objects, self._failures)
        self._files = FailureFiles(failing, over, awaited)
        self._keys: dict[str, Key] = {}
        self._pass = ReconcilePass(
            objects,
            routes,
            ingress,
            site=site,
            clock=clock,
            queue=self._queue,
            failures=self._failures,
            gatekeeper=gatekeeper,
            steered=Steered(steering, clock, self._keys.__contains__),
            vault=vault,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def behind(self) -> str | None:
        """Why some object is not reconciled yet, for people; None: all are."""
        return self._pass.fault

    def tell_policies(self) -> None:
        """Tell the gate about EventPolicies, before anything is received.

        Raises:
            StoreError: It cannot be told.
        """
        self._pass.policies.tell()

    async def start(self) -> None:
        """Reconcile everything, then each change, in the background; returns at once."""
        assert not self._tasks
        self._objects.on_change(self._on_change)
        self._note_all()
        self._tasks = [
            asyncio.create_task(self._run(), name="reconciler"),
            asyncio.create_task(
                keep_turning(self._look_at_failures, "failing-deliveries"),
                name="reconciler-failures",
            ),
            asyncio.create_task(
                keep_turning(self._look_at_held, "held-objects"), name="reconciler-held"
            ),
            asyncio.create_task(
                keep_turning(self._pass.announcer.turn, "addresses"), name="reconciler-addresses"
            ),
        ]

    def change_site(self, site: Site) -> None:
        """Set *site* and reconcile everything again."""
        self._pass.site = site
        self._note_all()

    def _note_all(self) -> None:
        for kind in (EVENT_POLICY, BROKER, CHANNEL, TRIGGER, SUBSCRIPTION):
            for stored in self._objects.list(kind)[0]:
                self._note(stored, told_before=True)

    async def close(self) -> None:
        """Stop; the next start finishes what is interrupted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._events.close()

    async def settled(self, key: Key, wait_s: float) -> bool:
        """Wait until all changes of *key* so far are reconciled.

        After a delete, its route matches no later event, and its address is unknown. A Namespace
        includes all objects in it.

        Args:
            key: Of an object that was just changed.
            wait_s: Longest wait, seconds.

        Returns:
            False if the wait timed out.
        """
        return await self._queue.settled(key, wait_s)

    def _on_change(self, change: ObjectChange) -> None:
        stored, before = change.stored, change.before
        if stored.key.resource in _OURS:
            if before is not None and (change.type == "DELETED" or before.uid != stored.uid):
                self._forget(before)
            if change.type == "DELETED":
                self._queue.add(stored.key)
            else:
                self._note(stored)
        if concerns(stored.key):
            self._queue.add_all(self._pass.dependents.of(BUNDLES))
        if (
            change.type != "MODIFIED"
            or before is None
            or before.sealed != stored.sealed
            or before.early != stored.early
            or (_read_by_others(before.content) != _read_by_others(stored.content))
        ):
            self._queue.add_all(self._pass.dependents.of(stored.key))

    def _note(self, stored: Stored, *, told_before: bool = False) -> None:
        if stored.key.resource in _ROUTED:
            self._keys[stored.uid] = stored.key
        elif stored.key.resource in _ADDRESSED:
            # An addressable one is known to the ingest process, which reads all addresses at its
            # start: so nothing turns not ready only because this process starts first.
            addressable = condition_of(stored.content, conditions.ADDRESSABLE)
            known = (
                told_before
                and addressable.get("status") == "True"
                and path_of(stored.key) not in self._objects.closed
            )
            self._pass.addresses.note(stored, known=known)
        self._queue.add(stored.key)

    def _forget(self, gone: Stored) -> None:
        if gone.key.resource in _ROUTED:
            self._keys.pop(gone.uid, None)
            self._failures.forget(gone.uid)
            self._pass.steered.forget(gone.uid)
            self._pass.drops[gone.uid] = gone.key
        elif gone.key.resource in _ADDRESSED:
            self._pass.addresses.forget(gone)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._queue.add(_START)
        while True:
            await self._queue.wait(self._pass.subscribers.next_s())
            keys = self._queue.take(TURN_MAX, loop.time())
            again = await self._look_at(keys)
            self._count("objects_reconciled_total", self._queue.finish(again, loop.time()))
            self._count("objects_reconciled_again_total", len(again))
            if self._queue.empty:
                self._pass.fault = None

    async def _look_at(self, keys: list[Key]) -> set[Key]:
        """Run one pass; returns keys to retry."""
        try:
            await self._pass.begin(self._keys)
            return await self._pass.take([key for key in keys if key != _START])
        except DistributaryError as error:
            self._pass.fault = str(error)
            _log.warning("reconcile-again", objects=len(keys), reason=str(error))
        # Report a bug in one pass and continue: only this loop creates routes.
        except Exception as error:  # noqa: BLE001 - see above
            self._pass.fault = f"reconciling failed: {type(error).__name__}"
            _log.exception("reconcile-failed", objects=len(keys))
        return set(keys)

    async def _look_at_held(self) -> float:
        """Queue what was held once receivers decide by the policies of its namespace."""
        self._queue.release(await self._pass.policies.decided_now())
        return DECIDED_LOOK_S

    async def _look_at_failures(self) -> float:
        found = await asyncio.to_thread(self._files.look)
        news = self._failures.news(found, self._keys.__contains__)
        keys = {uid: self._keys[uid] for uid in news if uid in self._keys}
        self._queue.add_all(keys.values())
        self._events.tell(keys)
        await self._look_at_halted()
        return LOOK_S

    async def _look_at_halted(self) -> None:
        """Queue objects whose deliveries are newly halted, or not any more, or are to be tried."""
        try:
            news = await self._pass.steered.news()
        except DistributaryError as error:
            _log.warning("halted-not-read", reason=str(error))
            return
        self._queue.add_all(self._keys[uid] for uid in news if uid in self._keys)


def _read_by_others(content: Object) -> tuple[object, ...]:
    """The parts of an object that plans of other objects may depend on."""
    metadata = content["metadata"]
    spec = content.get("spec")
    if isinstance(spec, dict) and "subscribers" in spec:  # a Channel's, written by ourselves
        spec = {name: value for name, value in spec.items() if name != "subscribers"}
    ready = condition_of(content, conditions.READY).get("status")
    return metadata["uid"], metadata.get("annotations"), spec, ready
