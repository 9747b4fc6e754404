"""A single-writer loop with group commit: requests that arrive during a batch share the next one.

A thousand changes then cost a handful of syncs, and each sees the result of those before it.
Called by the leader of the resource store and by the writer of objects. Hides the queue of waiting
callers.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")

__all__ = ["PendingWrite", "WriteLoop"]


class PendingWrite(Generic[_Asked, _Answer]):
    """A caller's request and the future that answers it; a cancelled caller gets nothing.

    Attributes:
        asked: The request.
        gone: Whether the caller has its answer or was cancelled.
    """

    __slots__ = ("_done", "asked")

    def __init__(self, asked: _Asked, done: asyncio.Future[_Answer]) -> None:
        self.asked = asked
        self._done = done

    @property
    def gone(self) -> bool:
        """Whether the caller has its answer or was cancelled."""
        return self._done.done()

    def answer(self, answer: _Answer) -> None:
        """Return *answer* to the caller."""
        if not self._done.done():
            self._done.set_result(answer)

    def refuse(self, error: Exception) -> None:
        """Raise *error* in the caller: the request failed, or its outcome is unknown."""
        if not self._done.done():
            self._done.set_exception(error)


class WriteLoop(Generic[_Asked, _Answer]):
    """Passes requests to *make*, one batch at a time.

    Holders that have requests waiting take turns; those of one holder keep their order.

    Args:
        name: Of its task.
        make: Writes a batch and answers each of its callers. If it raises, callers still waiting
            get the exception, and the loop continues: nothing else writes.
        batch_max: Maximum weight of a batch; a heavier single request gets its own batch.
        weight: Weight of a request; ``waiting`` is the sum of those queued.
        holder: Who has a request waiting; by default all are one.
        pause_s: Called when the queue is empty: seconds until *make* is called with an empty
            batch; None: wait for a request.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Sequence[PendingWrite[_Asked, _Answer]]], Awaitable[None]],
        *,
        batch_max: int,
        weight: Callable[[_Asked], int] = lambda _: 1,
        holder: Callable[[_Asked], str] = lambda _: "",
        pause_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.waiting = 0
        """Total weight of queued requests."""
        self._name = name
        self._make = make
        self._batch_max = batch_max
        self._weight = weight
        self._holder = holder
        self._pause_s = pause_s
        self._lines: dict[str, deque[PendingWrite[_Asked, _Answer]]] = {}  # the first is next
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def takes(self) -> bool:
        """Whether the loop is running and accepts requests."""
        return not self._closing and self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start the loop; call it on a running event loop."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def close(self, stopping: Exception) -> None:
        """Finish the current batch, fail queued requests with *stopping*, and stop."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        for waiting in itertools.chain(*self._lines.values()):
            waiting.refuse(stopping)

    async def submit(self, asked: _Asked) -> _Answer:
        """Queue *asked* for the next batch; returns its answer or raises its error.

        The request of a cancelled caller is still made, unless *make* checks ``gone``.
        """
        assert self.takes
        done: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(self._holder(asked), deque()).append(PendingWrite(asked, done))
        self.waiting += self._weight(asked)
        self._wake.set()
        return await done

    async def _run(self) -> None:
        while not self._closing:
            if not self._lines:
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._pause_s())
            await self._turn(self._take())

    async def _turn(self, batch: list[PendingWrite[_Asked, _Answer]]) -> None:
        try:
            await self._make(batch)
        except Exception as error:  # noqa: BLE001 - its callers get it; see the class
            for waiting in batch:
                waiting.refuse(error)

    def _take(self) -> list[PendingWrite[_Asked, _Answer]]:
        batch: list[PendingWrite[_Asked, _Answer]] = []
        left = self._batch_max
        while self._lines:
            holder, line = next(iter(self._lines.items()))
            weight = self._weight(line[0].asked)
            if batch and weight > left:
                break
            batch.append(line.popleft())
            del self._lines[holder]
            if line:
                self._lines[holder] = line  # last
            self.waiting -= weight
            left -= weight
        return batch
