"""The reconciler's work queue: objects to reconcile, retries, and callers that wait for them."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from typing import Final

from distributary.knative.apiserver.machinery import Key
from distributary.knative.kinds import NAMESPACE

RETRY_S_MIN: Final = 0.1
"""First retry delay, seconds: what an object waits for is often being made just then."""
RETRY_S_MAX: Final = 5.0
"""Retry delay for unfinished objects, seconds: doubles from the minimum to the maximum while some
remain. New changes do not wait."""


class WorkQueue:
    """Objects that changed, are being reconciled, are held, or wait for a retry.

    Namespaces take turns, so one with very many changes delays those of others by little.
    """

    def __init__(self) -> None:
        self._new: dict[str, dict[Key, None]] = {}  # by namespace; the first is next
        self._taken: frozenset[Key] = frozenset()
        self._later: dict[Key, None] = {}
        self._later_s = 0.0
        self._held: set[Key] = set()
        self._retry_s = RETRY_S_MIN
        self._wake = asyncio.Event()
        self._waiting: list[tuple[Key, asyncio.Future[None]]] = []

    def add(self, key: Key) -> None:
        """Queue *key*, even while it is being reconciled."""
        self._held.discard(key)
        self._new.setdefault(key.namespace, {})[key] = None
        self._wake.set()

    def add_all(self, keys: Iterable[Key]) -> None:
        """Queue *keys*."""
        for key in list(keys):
            self.add(key)

    @property
    def empty(self) -> bool:
        """Whether nothing is queued, in progress, held or due for a retry."""
        return not (self._new or self._taken or self._later or self._held)

    @property
    def more(self) -> bool:
        """Whether changed objects are queued."""
        return bool(self._new)

    async def wait(self, until_s: float | None) -> None:
        """Wait for an object to reconcile, at most until *until_s* of the loop's clock."""
        if self._new:
            return
        times = [time_s for time_s in (until_s, self._later_s if self._later else None) if time_s]
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(times, default=None)):
                await self._wake.wait()

    def take(self, count: int, now_s: float) -> list[Key]:
        """Take at most *count* objects to reconcile now."""
        assert not self._taken
        if self._later and now_s >= self._later_s:
            self.add_all(self._later)
            self._later.clear()
        taken = list(islice(in_turn(self._new), count))
        for key in taken:
            keys = self._new.pop(key.namespace)
            del keys[key]
            if keys:
                self._new[key.namespace] = keys  # last
            self._later.pop(key, None)
        self._taken = frozenset(taken)
        return taken

    def put_back(self, keys: Iterable[Key]) -> None:
        """Queue taken *keys* for which there was no room: their namespaces are first in turn."""
        first: dict[str, dict[Key, None]] = {}
        for key in keys:
            queued = first.setdefault(key.namespace, self._new.pop(key.namespace, {}))
            queued[key] = None
        self._new = first | self._new
        self._taken -= {key for queued in first.values() for key in queued}

    def hold(self, keys: Collection[Key]) -> None:
        """Set taken *keys* aside, though not done, until they are released or change."""
        self._held.update(keys)
        self._taken -= frozenset(keys)

    def release(self, keys: Iterable[Key]) -> None:
        """Queue those of *keys* that are held."""
        self.add_all(key for key in keys if key in self._held)

    def finish(self, again: Iterable[Key], now_s: float) -> int:
        """Finish the taken objects; *again* are retried after a delay.

        Returns:
            How many are done.
        """
        again = set(again)
        done = len(self._taken - again)
        self._taken = frozenset()
        before = bool(self._later)
        self._later.update(dict.fromkeys(again))
        if self._later and not before:
            self._later_s = now_s + self._retry_s
            self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)
        elif not self._later:
            self._retry_s = RETRY_S_MIN
        self._tell()
        return done

    async def settled(self, key: Key, wait_s: float) -> bool:
        """Wait until *key* is reconciled; False: not within *wait_s*.

        A Namespace includes all objects in it.
        """
        if not self._concerns(key):
            return True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, done))
        try:
            async with asyncio.timeout(wait_s):
                await done
        except TimeoutError:
            return False
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not done]
        return True

    def _tell(self) -> None:
        for key, done in self._waiting:
            if not done.done() and not self._concerns(key):
                done.set_result(None)

    def _concerns(self, key: Key) -> bool:
        if key.resource == NAMESPACE.resource:
            others = chain(self._taken, self._later, self._held)
            return key.name in self._new or any(other.namespace == key.name for other in others)
        new = key in self._new.get(key.namespace, ())
        return new or key in self._taken or key in self._later or key in self._held


def in_turn(queues: Mapping[str, Iterable[Key]]) -> Iterator[Key]:
    """The first key of each of *queues*, then the second of each, and so on."""
    for each in zip_longest(*queues.values()):
        yield from (key for key in each if key is not None)
