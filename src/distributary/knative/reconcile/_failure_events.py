"""Writes the Kubernetes ``Events`` about failing deliveries.

Called by the reconciler's look at failures, which waits for none of them: each is written when it
is the turn of its namespace, and one with many writes has its own wait.
"""

import asyncio
import functools
from collections.abc import Mapping
from typing import Final

import structlog

from distributary.core.errors import DistributaryError
from distributary.core.turns import AT_ONCE, NEVER, Turns
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Objects
from distributary.knative.reconcile._failures import Failures, event_key, event_of

AT_ONCE_MAX: Final = 256
"""Events under way at a time: one batch of the writer of objects, so clients keep their room there.
Further ones wait here; there is at most one for each object."""

FREE_SHARE: Final = 16
"""A namespace gets one more while it has less than a sixteenth of the places that are free: alone
16, sixteen of them 8 each. So those of another are written though the writes of all these wait."""

_log = structlog.get_logger(__name__)


class FailureEvents:
    """The ``Events`` that are to be written. For one event loop.

    Args:
        objects: Stores them.
        failures: What they say.
    """

    def __init__(self, objects: Objects, failures: Failures) -> None:
        self._objects = objects
        self._failures = failures
        self._turns = Turns()
        self._due: dict[str, Key] = {}  # by uid
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by uid

    def tell(self, about: Mapping[str, Key]) -> None:
        """Write the event of each of these objects, by uid, soon."""
        for uid, key in about.items():
            self._due[uid] = key
            self._put(uid)
        self._start()

    async def told(self) -> None:
        """Return when all are written or refused."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop; the conditions of the objects say the same."""
        for uid in self._due:
            self._turns.discard(uid)
        self._due.clear()
        for task in self._tasks.values():
            task.cancel()
        await self.told()

    def _put(self, uid: str) -> None:
        if uid in self._due and uid not in self._tasks:
            namespace = self._due[uid].namespace
            self._turns.put(uid, namespace, namespace)

    def _start(self) -> None:
        while (
            len(self._tasks) < AT_ONCE_MAX and (uid := self._turns.take(self._free_s)) is not None
        ):
            writing = self._write(self._due.pop(uid), uid)
            task = self._tasks[uid] = asyncio.create_task(writing, name="failure-events")
            task.add_done_callback(functools.partial(self._end, uid))

    def _free_s(self, namespace: str) -> float:
        free = AT_ONCE_MAX - len(self._tasks)
        return AT_ONCE if FREE_SHARE * self._turns.held(namespace) < free else NEVER

    def _end(self, uid: str, _task: asyncio.Task[None]) -> None:
        del self._tasks[uid]
        self._turns.end(uid)
        self._put(uid)  # where it was told of again meanwhile
        self._start()

    async def _write(self, key: Key, uid: str) -> None:
        failing, stored = self._failures.get(uid), self._objects.get(key)
        if failing is None or stored is None or stored.uid != uid:
            return
        told = event_key(key, uid)
        try:
            await self._objects.put(told, event_of(told, stored.content, failing))
        # Nor does a bug lose the others.
        except Exception as error:  # noqa: BLE001 - see above
            self._failures.tell_again(uid)
            _log.warning(
                "event-not-stored",
                namespace=told.namespace,
                name=told.name,
                reason=str(error),
                exc_info=not isinstance(error, DistributaryError),
            )
