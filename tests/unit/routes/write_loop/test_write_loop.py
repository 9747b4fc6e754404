"""One loop that writes, batch after batch."""

import asyncio
from collections.abc import Sequence

import pytest

from distributary.routes.write_loop import PendingWrite, WriteLoop


class Medium:
    """Writes batches of texts, each when it is let; answers each text with itself in capitals."""

    def __init__(self, **options) -> None:
        self.batches: list[list[str]] = []
        self.failing: Exception | None = None
        self.gate = asyncio.Event()
        self.made = asyncio.Event()
        self.loop: WriteLoop[str, str] = WriteLoop("medium", self._make, **options)
        self.loop.start()

    async def _make(self, batch: Sequence[PendingWrite[str, str]]) -> None:
        self.batches.append([waiting.asked for waiting in batch])
        self.made.set()
        await self.gate.wait()
        for waiting in batch:
            if waiting.asked == "bad":
                waiting.refuse(ValueError("bad"))
                continue
            if self.failing is not None:
                raise self.failing
            waiting.answer(waiting.asked.upper())

    async def asked(self, *texts: str) -> list[asyncio.Task[str]]:
        """Ask for *texts*; returns when they wait."""
        tasks = [asyncio.create_task(self.loop.submit(text)) for text in texts]
        for _ in range(5):
            await asyncio.sleep(0)
        return tasks


STOPPING = RuntimeError("stopping")


def test_what_is_asked_for_meanwhile_shares_the_next_batch() -> None:
    """The first goes by itself; the others wait for it and go together."""

    async def play() -> None:
        medium = Medium(batch_max=10)
        first = await medium.asked("a")
        rest = await medium.asked("b", "c")
        assert medium.loop.waiting == 2
        medium.gate.set()
        assert await asyncio.gather(*first, *rest) == ["A", "B", "C"]
        assert medium.batches == [["a"], ["b", "c"]]
        assert medium.loop.waiting == 0
        await medium.loop.close(STOPPING)

    asyncio.run(play())


def test_a_batch_weighs_so_much_at_most() -> None:
    """What is heavier by itself has a batch of its own; nobody is overtaken."""

    async def play() -> None:
        medium = Medium(batch_max=3, weight=len)
        tasks = await medium.asked("x", "aa", "b", "c", "toolong", "d")
        medium.gate.set()
        await asyncio.gather(*tasks)
        assert medium.batches == [["x", "aa"], ["b", "c"], ["toolong"], ["d"]]
        await medium.loop.close(STOPPING)

    asyncio.run(play())


def test_holders_take_turns() -> None:
    """In a batch and from one to the next; each keeps its order, and may be alone."""

    async def play() -> None:
        medium = Medium(batch_max=4, holder=lambda text: text[0])
        tasks = await medium.asked("a0", "a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2", "a6")
        assert medium.loop.waiting == 6
        medium.gate.set()
        await asyncio.gather(*tasks)
        assert medium.batches == [
            ["a0", "b1", "c1", "a1"],
            ["b2", "a2", "a3", "a4"],
            ["a5", "a6"],
        ]
        tasks = await medium.asked("b3")
        await asyncio.gather(*tasks)
        assert medium.loop.waiting == 0
        await medium.loop.close(STOPPING)

    asyncio.run(play())


def test_an_error_goes_to_those_of_the_batch_who_were_told_nothing() -> None:
    """The loop alone writes: it goes on with the next batch."""

    async def play() -> None:
        medium = Medium(batch_max=10)
        first = await medium.asked("a")
        rest = await medium.asked("bad", "b", "c")
        medium.failing = OSError("full")
        medium.gate.set()
        told = await asyncio.gather(*first, *rest, return_exceptions=True)
        assert [type(each) for each in told] == [OSError, ValueError, OSError, OSError]
        medium.failing = None
        assert await medium.loop.submit("d") == "D"
        await medium.loop.close(STOPPING)

    asyncio.run(play())


def test_who_went_away_is_told_nothing() -> None:
    """What it asked for is made, as it would have been a moment later."""

    async def play() -> None:
        medium = Medium(batch_max=1)
        first = await medium.asked("a")
        gone, stays = await medium.asked("b", "c")
        gone.cancel()
        medium.gate.set()
        assert await asyncio.gather(*first, stays) == ["A", "C"]
        assert medium.batches == [["a"], ["b"], ["c"]]
        await medium.loop.close(STOPPING)

    asyncio.run(play())


def test_the_end_finishes_the_batch_under_way_and_refuses_the_rest() -> None:
    """Nobody waits for ever."""

    async def play() -> None:
        medium = Medium(batch_max=1)
        (first,) = await medium.asked("a")
        (rest,) = await medium.asked("b")
        assert medium.loop.takes
        closing = asyncio.create_task(medium.loop.close(STOPPING))
        await asyncio.sleep(0)
        assert not medium.loop.takes
        medium.gate.set()
        await closing
        assert await first == "A"
        with pytest.raises(RuntimeError, match="stopping"):
            await rest

    asyncio.run(play())


def test_a_loop_may_be_called_while_nobody_asks() -> None:
    """An empty batch, where a pause is set: there may be something to make up for."""

    async def play() -> None:
        medium = Medium(batch_max=1, pause_s=lambda: 0.0)
        medium.gate.set()
        await medium.made.wait()
        assert medium.batches[0] == []
        await medium.loop.close(STOPPING)

    asyncio.run(play())
