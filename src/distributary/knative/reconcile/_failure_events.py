"""Writes the Kubernetes ``Events`` about failing deliveries.

Called by the reconciler's look at failures, which waits for none of them: each is written when it
is the turn of its namespace, and one with many writes has its own wait.
"""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Final

import structlog

from distributary.core.errors import DistributaryError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Objects
from distributary.knative.reconcile._failures import Failures, event_key, event_of

AT_ONCE_MAX: Final = 256
"""Events under way at a time: one batch of the writer of objects, so clients keep their room there.
Further ones wait here; there is at most one for each object."""

OF_NAMESPACE_MAX: Final = 16
"""Of these, those of one namespace: others are written though its writes wait."""

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
        self._due: dict[str, dict[str, Key]] = {}  # by namespace and uid
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by namespace
        self._places = asyncio.Semaphore(AT_ONCE_MAX)

    def tell(self, about: Mapping[str, Key]) -> None:
        """Write the event of each of these objects, by uid, soon."""
        for uid, key in about.items():
            self._due.setdefault(key.namespace, {})[uid] = key
            if key.namespace not in self._tasks:
                writing = self._write_all(key.namespace)
                self._tasks[key.namespace] = asyncio.create_task(writing, name="failure-events")

    async def told(self) -> None:
        """Return when all are written or refused."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop; the conditions of the objects say the same."""
        for task in self._tasks.values():
            task.cancel()
        await self.told()

    async def _write_all(self, namespace: str) -> None:
        due = self._due[namespace]
        try:
            while due:
                some = {uid: due[uid] for uid in itertools.islice(due, OF_NAMESPACE_MAX)}
                for uid in some:
                    del due[uid]
                await asyncio.gather(*(self._write(key, uid) for uid, key in some.items()))
        finally:
            del self._due[namespace], self._tasks[namespace]

    async def _write(self, key: Key, uid: str) -> None:
        async with self._places:
            failing, stored = self._failures.get(uid), self._objects.get(key)
            if failing is None or stored is None or stored.uid != uid:
                return
            told = event_key(key, uid)
            try:
                await self._objects.put(told, event_of(told, stored.content, failing))
            # Nor does a bug lose the others. The next report tries again.
            except Exception as error:  # noqa: BLE001 - see above
                _log.warning(
                    "event-not-stored",
                    namespace=told.namespace,
                    name=told.name,
                    reason=str(error),
                    exc_info=not isinstance(error, DistributaryError),
                )
