"""Desired state -> routes -> status: the loop.

Level-triggered: a change of an object only says which objects are to be looked at; what is done
follows from how all of them stand at that moment. So changes may come twice, late, summed up, or
not at all over a restart, when everything is looked at anew.

One turn: the receiver of events learns the addresses, then the statuses of Brokers and Channels
are written, then routes are made to stand, and only then is that said of them. Each step is safe
to be repeated, and a crash between any two of them leaves at most a status that is late.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import DistributaryError
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.objects import ObjectChange, Objects, Stored
from distributary.knative.kinds import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER, conditions
from distributary.knative.reconcile._failures import (
    LOOK_S,
    FailureFiles,
    Failures,
    event_key,
    event_of,
)
from distributary.knative.reconcile._pass import ReconcilePass
from distributary.knative.reconcile._ports import Ingress, Routes
from distributary.knative.reconcile._site import Site
from distributary.knative.reconcile._status import condition_of
from distributary.knative.reconcile._trust import BUNDLES, concerns
from distributary.knative.reconcile._work_queue import WorkQueue
from distributary.routes.periodic import keep_turning

TURN_MAX: Final = 256
"""Objects that one turn looks at: one batch of the leader, and one transaction of statuses. What
comes meanwhile waits for some 50 ms."""

_ADDRESSED: Final = frozenset((BROKER.resource, CHANNEL.resource))
_ROUTED: Final = frozenset((TRIGGER.resource, SUBSCRIPTION.resource))
_OURS: Final = _ADDRESSED | _ROUTED

_START: Final = Key("", "", "")
"""Lets the first turn be taken where there are no objects: routes of deleted ones may stand."""

_log = structlog.get_logger(__name__)


class Reconciler:
    """Keeps routes and statuses as the objects want them. One per store, in one process.

    Args:
        objects: Desired state, and where statuses are written; started.
        routes: Makes routes stand; started.
        ingress: Takes events at the addresses of Brokers and Channels.
        site: Where this server is reached.
        clock: For conditions.
        failing: Files in which the owners of partitions say whose deliveries fail.
        count: Told the name of a counter and by how much it rises.
    """

    def __init__(
        self,
        objects: Objects,
        routes: Routes,
        ingress: Ingress,
        site: Site,
        clock: Clock,
        *,
        failing: Iterable[Path] = (),
        count: Callable[[str, int], None] = lambda _name, _count: None,
    ) -> None:
        self._objects = objects
        self._count = count
        self._queue = WorkQueue()
        self._failures = Failures()
        self._files = FailureFiles(failing)
        self._keys: dict[str, Key] = {}
        self._pass = ReconcilePass(
            objects,
            routes,
            ingress,
            site=site,
            clock=clock,
            queue=self._queue,
            failures=self._failures,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def behind(self) -> str | None:
        """Why some object may not be as it is wanted yet, for people; None: all are."""
        return self._pass.fault

    async def start(self) -> None:
        """Look at everything, then at what changes; returns at once."""
        assert not self._tasks
        self._objects.on_change(self._on_change)
        self._note_all()
        self._tasks = [
            asyncio.create_task(self._run(), name="reconciler"),
            asyncio.create_task(
                keep_turning(self._look_at_failures, "failing-deliveries"),
                name="reconciler-failures",
            ),
        ]

    def change_site(self, site: Site) -> None:
        """Events may go elsewhere from now on: look at everything again."""
        self._pass.site = site
        self._note_all()

    def _note_all(self) -> None:
        for kind in (BROKER, CHANNEL, TRIGGER, SUBSCRIPTION):
            for stored in self._objects.list(kind)[0]:
                self._note(stored, told_before=True)

    async def close(self) -> None:
        """Stop; what is under way is found again by the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settled(self, key: Key, wait_s: float) -> bool:
        """True once all that follows from the changes of *key* so far is done.

        After a delete: no later event is matched by its route, and its address is unknown. Of a
        Namespace: of all objects in it.

        Args:
            key: Of an object that was just changed.
            wait_s: At most so long; then False.
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
            or (_read_by_others(before.content) != _read_by_others(stored.content))
        ):
            self._queue.add_all(self._pass.dependents.of(stored.key))

    def _note(self, stored: Stored, *, told_before: bool = False) -> None:
        if stored.key.resource in _ROUTED:
            self._keys[stored.uid] = stored.key
        else:
            # Where its status says so, the receiver has known it, and still does, as it reads all
            # at its start: nothing turns not ready only because this process begins before it.
            addressable = condition_of(stored.content, conditions.ADDRESSABLE)
            known = told_before and addressable.get("status") == "True"
            self._pass.addresses.note(stored, known=known)
        self._queue.add(stored.key)

    def _forget(self, gone: Stored) -> None:
        if gone.key.resource in _ROUTED:
            self._keys.pop(gone.uid, None)
            self._failures.forget(gone.uid)
            self._pass.drops[gone.uid] = gone.key
        else:
            self._pass.addresses.forget(gone)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._queue.add(_START)
        while True:
            await self._queue.wait(self._pass.subscribers.next_s())
            keys = self._queue.take(TURN_MAX, loop.time())
            again = await self._look_at(keys)
            self._count("objects_reconciled_total", len(set(keys) - again))
            self._count("objects_reconciled_again_total", len(again))
            self._queue.finish(again, loop.time())
            if self._queue.empty:
                self._pass.fault = None

    async def _look_at(self, keys: list[Key]) -> set[Key]:
        """One turn; those of *keys* that could not be finished."""
        try:
            await self._pass.begin(self._keys)
            return await self._pass.take(key for key in keys if key != _START)
        except DistributaryError as error:
            self._pass.fault = str(error)
            _log.warning("reconcile-again", objects=len(keys), reason=str(error))
        # A bug met in one turn is reported. This loop alone makes routes stand, so it must not end
        # with it.
        except Exception as error:  # noqa: BLE001 - see above
            self._pass.fault = f"reconciling failed: {type(error).__name__}"
            _log.exception("reconcile-failed", objects=len(keys))
        return set(keys)

    async def _look_at_failures(self) -> float:
        found = await asyncio.to_thread(self._files.look)
        if found is not None:
            for uid in self._failures.news(found, self._keys.__contains__):
                key = self._keys.get(uid)
                if key is not None:
                    self._queue.add(key)
                    await self._tell_event(key, uid)
        return LOOK_S

    async def _tell_event(self, key: Key, uid: str) -> None:
        failing = self._failures.get(uid)
        stored = self._objects.get(key)
        if failing is None or stored is None:
            return
        told = event_key(key, uid)
        try:
            await self._objects.put(told, event_of(told, stored.content, failing))
        except DistributaryError as error:
            # The condition says the same; the next telling tries again.
            _log.warning("event-not-stored", event=told.name, reason=str(error))


def _read_by_others(content: Object) -> tuple[object, ...]:
    """What of an object the looks at other objects may depend on."""
    metadata = content["metadata"]
    spec = content.get("spec")
    if isinstance(spec, dict) and "subscribers" in spec:  # a Channel's, written by ourselves
        spec = {name: value for name, value in spec.items() if name != "subscribers"}
    ready = condition_of(content, conditions.READY).get("status")
    return metadata["uid"], metadata.get("annotations"), spec, ready
