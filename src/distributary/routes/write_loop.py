"""One loop that writes, batch after batch: what is asked for during one batch shares the next.

A thousand changes then cost a handful of syncs, and each is made on what the ones before it left.
Called by the leader of the resource store and by the writer of objects. Hides: who waits.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")

__all__ = ["PendingWrite", "WriteLoop"]


class PendingWrite(Generic[_Asked, _Answer]):
    """What one caller asked for, and how it is told; nothing is said to one who went away.

    Attributes:
        asked: What it asked for.
        gone: Whether it has its answer, or went away.
    """

    __slots__ = ("_done", "asked")

    def __init__(self, asked: _Asked, done: asyncio.Future[_Answer]) -> None:
        self.asked = asked
        self._done = done

    @property
    def gone(self) -> bool:
        """See the class."""
        return self._done.done()

    def answer(self, answer: _Answer) -> None:
        """It was done, and this came of it."""
        if not self._done.done():
            self._done.set_result(answer)

    def refuse(self, error: Exception) -> None:
        """It was not done, or nobody knows: *error* says so."""
        if not self._done.done():
            self._done.set_exception(error)


class WriteLoop(Generic[_Asked, _Answer]):
    """Hands what callers ask for to *make*, one batch at a time, in order.

    Args:
        name: Of its task.
        make: Makes a batch and tells everybody in it. What it raises goes to all of the batch who
            were told nothing, and the loop goes on: it alone writes, so it does not end of a bug.
        batch_max: Most that one batch weighs; one that is heavier by itself has a batch of its own.
        weight: Of what is asked for; all together are ``waiting``.
        pause_s: Asked when there is nothing to do: seconds after which *make* is called with an
            empty batch; None: it is not.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Sequence[PendingWrite[_Asked, _Answer]]], Awaitable[None]],
        *,
        batch_max: int,
        weight: Callable[[_Asked], int] = lambda _: 1,
        pause_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.waiting = 0
        """Weight of what waits for its batch."""
        self._name = name
        self._make = make
        self._batch_max = batch_max
        self._weight = weight
        self._pause_s = pause_s
        self._queue: deque[PendingWrite[_Asked, _Answer]] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def takes(self) -> bool:
        """Whether it runs."""
        return not self._closing and self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin; an event loop runs."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def close(self, stopping: Exception) -> None:
        """Finish the batch under way, refuse what waits with *stopping*, end."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        for waiting in self._queue:
            waiting.refuse(stopping)

    async def submit(self, asked: _Asked) -> _Answer:
        """Have *asked* made with the next batch; returns what came of it, or raises why not.

        What a caller asked for who is cancelled is made all the same, unless *make* looks.
        """
        assert self.takes
        done: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._queue.append(PendingWrite(asked, done))
        self.waiting += self._weight(asked)
        self._wake.set()
        return await done

    async def _run(self) -> None:
        while not self._closing:
            if not self._queue:
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
        while self._queue:
            waiting = self._queue[0]
            weight = self._weight(waiting.asked)
            if batch and weight > left:
                break
            self._queue.popleft()
            self.waiting -= weight
            batch.append(waiting)
            left -= weight
        return batch
