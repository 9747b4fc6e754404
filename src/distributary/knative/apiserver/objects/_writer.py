"""The single writer of objects: updates the store, then memory, then watches.

Requests that arrive during a batch share the next transaction. Each sees the result of those before
it, so a patch is always applied to the newest state.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

import structlog

from distributary.access import has_its_share
from distributary.core.clock import Clock
from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects._object_cache import ObjectCache
from distributary.knative.apiserver.objects._rows import Rows
from distributary.knative.apiserver.objects._rules import ObjectRules
from distributary.knative.apiserver.objects._transaction import Transaction
from distributary.knative.apiserver.objects._values import (
    Create,
    DeleteObject,
    ObjectChange,
    OpenAddress,
    Outcome,
    Request,
)
from distributary.routes.write_loop import PendingWrite, WriteLoop

BATCH_MAX: Final = 256
"""Requests in one transaction, which locks the store for some 10 ms. Of large objects fewer: their
transaction takes up to 0.5 s, and then it is another namespace's turn."""

COUNTED_BYTES: Final = 4 * 1024
"""A client's write counts as one more request for so many bytes of its body and of the object: any
patch of one of 20,000 small values, 500 KB, takes 0.2 s."""

WAITING_MAX: Final = 4_000
"""Requests of clients that may wait for their batch: two seconds' worth, of large objects seven. So
many come where collections are deleted. Further ones get 429 with ``Retry-After``."""

RETRY_AFTER_S: Final = 1
"""``Retry-After`` of a refused write, seconds."""

_log = structlog.get_logger(__name__)


Committed: TypeAlias = Callable[[ObjectCache, Sequence[ObjectChange], bool], None]
"""Called after a commit with the current objects, the changes in order, and whether the store was
read again because it differed from memory: then changes are unordered and may be missing.
"""

_SERVER: Final = "*"
"""Holder of the server's own requests; no namespace."""


class _Group(NamedTuple):
    """Requests that are made together.

    Attributes:
        requests: In order.
        holder: Namespace that has them waiting, or ``_SERVER``.
        weight: What they count.
    """

    requests: Sequence[Request]
    holder: str
    weight: int


_Batch: TypeAlias = Sequence[PendingWrite[_Group, list[Outcome]]]


class Writer:
    """Writes batches, one at a time. One per store, in one process.

    Args:
        rows: The tables.
        cache: Their content.
        rules: Rules and limits for requests.
        clock: For timestamps.
        committed: Called on the event loop after each commit, before the callers are answered.
    """

    def __init__(
        self,
        rows: Rows,
        cache: ObjectCache,
        rules: ObjectRules,
        clock: Clock,
        committed: Committed,
    ) -> None:
        self._rows = rows
        self._cache = cache
        self._rules = rules
        self._clock = clock
        self._committed = committed
        self._doubtful = False
        self._of_namespaces: Counter[str] = Counter()
        self._loop: WriteLoop[_Group, list[Outcome]] = WriteLoop(
            "objects-writer",
            self._make,
            batch_max=BATCH_MAX,
            weight=lambda group: group.weight,
            holder=lambda group: group.holder,
        )
        self._loop.start()

    async def close(self) -> None:
        """Finish the current batch, refuse waiting requests, stop."""
        await self._loop.close(StatusError("ServiceUnavailable", "the server is stopping"))

    async def submit(
        self, requests: Sequence[Request], *, by_server: bool = False
    ) -> list[Outcome]:
        """Apply *requests*, in order, in one transaction; returns when it is durable.

        Each succeeds or is refused separately.

        Args:
            requests: At least one; of a client, all in one namespace.
            by_server: They do not count against ``WAITING_MAX``.

        Raises:
            StatusError: ``TooManyRequests``: too many wait, or too many of this namespace.
                ``ServiceUnavailable``: the server stops. Nothing was stored.
            StoreError: The store failed. Nothing was stored; or, if it failed at the end of the
                commit, the outcome is unknown until a later read.
        """
        if not self._loop.takes:
            raise StatusError(
                "ServiceUnavailable", "the server is stopping", retry_after_s=RETRY_AFTER_S
            )
        if by_server:
            return await self._loop.submit(_Group(requests, _SERVER, len(requests)))
        namespace, weight = _namespace_of(requests[0]), sum(map(self._weight_of, requests))
        self._check_room(namespace, weight)
        self._of_namespaces[namespace] += weight
        try:
            return await self._loop.submit(_Group(requests, namespace, weight))
        finally:
            self._of_namespaces[namespace] -= weight
            if not self._of_namespaces[namespace]:
                del self._of_namespaces[namespace]

    def _weight_of(self, request: Request) -> int:
        if isinstance(request, (DeleteObject, OpenAddress)):
            return 1
        size_bytes = request.write.body_bytes
        if not isinstance(request, Create):
            stored = self._cache.get(request.key)
            size_bytes += 0 if stored is None else len(stored.json)
        return 1 + size_bytes // COUNTED_BYTES

    def _check_room(self, namespace: str, count: int) -> None:
        waiting, own = self._loop.waiting, self._of_namespaces[namespace]
        before = count - 1  # judged as the last of as many writes as it counts
        text = ""
        if waiting + count > WAITING_MAX:
            text = "too many writes are waiting"
        elif namespace and own and has_its_share(own + before, waiting + before, WAITING_MAX):
            text = f"too many writes of the namespace {namespace} are waiting"
        if text:
            text += "; please try again later"
            raise StatusError("TooManyRequests", text, retry_after_s=RETRY_AFTER_S)

    async def _make(self, waiting: _Batch) -> None:
        batch = [group for group in waiting if not group.gone]
        if not batch:
            return
        try:
            await self._write_all(batch)
        except StoreError as error:
            self._doubtful = True
            _log.warning("objects-not-stored", requests=len(batch), reason=str(error))
            raise
        except Exception:
            self._doubtful = True
            _log.exception("objects-batch-failed", requests=len(batch))
            raise

    async def _write_all(self, batch: _Batch) -> None:
        if self._doubtful:
            await self._look_again()
        transaction, outcomes = await asyncio.to_thread(self._write, batch)
        if transaction.changes:
            self._cache.take(transaction.changes)
            self._committed(self._cache, transaction.changes, False)
        for group, outcome in zip(batch, outcomes, strict=True):
            group.answer(outcome)

    def _write(self, batch: _Batch) -> tuple[Transaction, list[list[Outcome]]]:
        """Apply the batch and store it, in a thread. The cache does not change meanwhile."""
        now_ms = self._clock.wall_ms()
        transaction = Transaction(self._cache, self._rules, timestamp(now_ms))
        outcomes = [
            [transaction.apply(request) for request in group.asked.requests] for group in batch
        ]
        opened = transaction.opened
        if transaction.changes or opened:
            self._rows.write(transaction.changes, self._cache.version, now_ms, opened)
        return transaction, outcomes

    async def _look_again(self) -> None:
        """After a failed commit, read the store again if it differs from memory."""
        if await asyncio.to_thread(self._rows.version) != self._cache.version:
            found, _ = await asyncio.to_thread(self._rows.load)
            changes = self._cache.differences(found)
            _log.warning("objects-read-anew", changes=len(changes), version=found.version)
            self._cache = found
            self._committed(found, changes, True)
        self._doubtful = False


def _namespace_of(request: Request) -> str:
    """Namespace of the object, or the Namespace that it is; empty: a new one."""
    if isinstance(request, Create):
        return request.namespace
    return request.key.namespace or request.key.name


def timestamp(now_ms: int) -> str:
    """RFC 3339, whole seconds, as metadata and conditions have it."""
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
