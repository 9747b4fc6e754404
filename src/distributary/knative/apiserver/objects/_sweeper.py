"""Background deletion: the content of terminating namespaces, and old Events."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import DistributaryError
from distributary.core.periodic import keep_turning
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import _namespaces
from distributary.knative.apiserver.objects._kept_events import KeptEvents
from distributary.knative.apiserver.objects._object_cache import ObjectCache
from distributary.knative.apiserver.objects._values import (
    DeleteObject,
    ObjectChange,
    Outcome,
    Write,
)
from distributary.knative.kinds import EVENT, NAMESPACE

EVENT_KEPT_S: Final = 3600.0
"""Retention of Events after their last write, seconds (Kubernetes' default)."""

SWEEP_S: Final = 30.0
"""Interval between searches for old Events, seconds."""

_DELETES_AT_ONCE: Final = 200
"""Objects deleted by one transaction, so that other writes run in between."""

_AGAIN_S: Final = 1.0
"""Retry delay after a failure of the store, seconds."""

_BY_SERVER: Final = Write(by_server=True)

_log = structlog.get_logger(__name__)


class Sweeper:
    """Tracks what is due for deletion, and deletes it in batches.

    Args:
        cache: Returns the current objects.
        written: Last write of each object, wall clock, milliseconds; oldest first.
        delete: Makes deletes; returns the outcome of each.
        clock: Wall clock.
    """

    def __init__(
        self,
        cache: Callable[[], ObjectCache],
        written: Mapping[Key, int],
        delete: Callable[[Sequence[DeleteObject]], Awaitable[Sequence[Outcome]]],
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._delete = delete
        self._clock = clock
        self._events = KeptEvents(
            {
                key: at_ms
                for key, at_ms in written.items()
                if key.resource == EVENT.resource and not self._is_ending(key)
            }
        )
        self._ending = {
            stored.key.name
            for stored in cache().all_of(NAMESPACE.resource)
            if _namespaces.is_ending(stored)
        }
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(
            keep_turning(self._turn, "objects-sweeper", self._sleep), name="objects-sweeper"
        )

    async def close(self) -> None:
        """Stop; the next start continues."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def _is_ending(self, key: Key) -> bool:
        """Whether it is deleted or waits for its finalizers: another delete changes nothing."""
        stored = self._cache().get(key)
        return stored is None or _namespaces.is_ending(stored)

    def note(self, changes: Sequence[ObjectChange]) -> None:
        """Track committed *changes*."""
        for change in changes:
            key = change.stored.key
            if key.resource == EVENT.resource:
                self._note_event(change)
            elif key.resource == NAMESPACE.resource:
                self._note_namespace(change)
            if key.namespace in self._ending:
                self._wake.set()
        if self._events.too_many:
            self._wake.set()

    def _note_event(self, change: ObjectChange) -> None:
        key = change.stored.key
        # One that is being deleted waits for its finalizers: nothing left to do here.
        if change.type == "DELETED" or _namespaces.is_ending(change.stored):
            self._events.forget(key)
        else:
            self._events.note(key, self._clock.wall_ms())

    def _note_namespace(self, change: ObjectChange) -> None:
        name = change.stored.key.name
        if change.type == "DELETED":
            self._ending.discard(name)
        elif _namespaces.is_ending(change.stored):
            self._ending.add(name)
            self._wake.set()

    async def _sleep(self, wait_s: float) -> None:
        # Not ``wait_for``, which may lose a cancellation that comes with the wake (Python 3.11).
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _turn(self) -> float:
        self._wake.clear()
        keys = list(islice(self._due(), _DELETES_AT_ONCE))
        if not keys:
            return SWEEP_S
        try:
            outcomes = await self._delete([DeleteObject(key, _BY_SERVER) for key in keys])
        except DistributaryError as error:
            _log.warning("objects-not-swept", objects=len(keys), reason=str(error))
            return _AGAIN_S
        # Already deleted: seen next time. Wait after any other refusal as well: no busy loop.
        return _AGAIN_S if any(isinstance(each, Exception) for each in outcomes) else 0.0

    def _due(self) -> Iterator[Key]:
        for namespace in sorted(self._ending):
            yield from self._due_in(namespace)
        yield from self._events.due(self._clock.wall_ms() - int(EVENT_KEPT_S * 1000))

    def _due_in(self, namespace: str) -> Iterator[Key]:
        """Keys of the objects in a namespace; of the namespace itself once it is empty."""
        empty = True
        for key in self._cache().keys_in(namespace):
            empty = False
            if not self._is_ending(key):
                yield key
        key = _namespaces.key_of(namespace)
        stored = self._cache().get(key)
        if empty and stored is not None and not stored.content["metadata"].get("finalizers"):
            yield key
