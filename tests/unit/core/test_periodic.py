"""Loops that survive failures."""

import asyncio

import pytest
import structlog

from distributary.core import periodic
from distributary.core.periodic import finish, keep_looking, keep_turning
from distributary.testing.virtual import VirtualClock


@pytest.fixture
def lines():
    """Log lines as dictionaries."""
    with structlog.testing.capture_logs() as found:
        yield found


async def _run_until(done: asyncio.Event, loop) -> None:
    running = asyncio.create_task(loop)
    await done.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_turns_go_on_after_a_bug(lines):
    """After a pause, so that a lasting fault does not flood the log."""
    waits: list[float] = []

    async def scenario() -> None:
        done, faults = asyncio.Event(), [LookupError("a bug")]

        async def turn() -> float:
            if faults:
                raise faults.pop()
            done.set()
            return 7.0

        async def sleep(wait_s: float) -> None:
            waits.append(wait_s)
            await asyncio.sleep(0)

        await _run_until(done, keep_turning(turn, "some-turns", sleep))

    asyncio.run(scenario())
    assert waits[:2] == [periodic.AGAIN_S, 7.0]
    assert [(line["event"], line["loop"]) for line in lines] == [("turn-failed", "some-turns")]


def test_looks_go_on_after_a_bug_and_when_woken(lines):
    """An hour between two looks does not pass here: each comes since somebody woke the loop."""
    looks: list[int] = []

    async def scenario() -> None:
        done, wake = asyncio.Event(), asyncio.Event()

        async def look() -> None:
            looks.append(len(looks))
            if len(looks) == 3:
                done.set()
                return
            wake.set()
            if len(looks) == 2:
                raise LookupError("a bug")

        await _run_until(done, keep_looking(look, wake, 3600.0, VirtualClock(), "some-looks"))

    asyncio.run(scenario())
    assert looks == [0, 1, 2]
    assert [(line["event"], line["loop"]) for line in lines] == [("turn-failed", "some-looks")]


def test_looks_come_periodically(lines):
    """Also where nobody wakes the loop."""
    looks: list[int] = []

    async def scenario() -> None:
        done = asyncio.Event()

        async def look() -> None:
            looks.append(len(looks))
            if len(looks) == 3:
                done.set()

        loop = keep_looking(look, asyncio.Event(), 0.001, VirtualClock(), "some-looks")
        await _run_until(done, loop)

    asyncio.run(scenario())
    assert lines == []


def test_what_a_loop_has_begun_is_given_a_moment_to_end(monkeypatch):
    """What is late is cancelled; the end of what is in time is waited for."""
    monkeypatch.setattr(periodic, "STOP_S", 0.01)

    async def scenario() -> tuple[bool, bool]:
        soon = asyncio.create_task(asyncio.sleep(0))
        never = asyncio.create_task(asyncio.Event().wait())
        await finish([])
        await finish([soon, never])
        return soon.cancelled(), never.cancelled()

    assert asyncio.run(scenario()) == (False, True)


def test_a_loop_ends_although_it_is_woken_in_the_moment_of_its_end():
    """Else the stop of the server waits for it, and it for nothing."""

    async def scenario() -> None:
        wake, looked = asyncio.Event(), asyncio.Event()

        async def look() -> None:
            looked.set()

        loop = keep_looking(look, wake, 3600.0, VirtualClock(), "some-looks")
        running = asyncio.create_task(loop)
        await looked.wait()
        await asyncio.sleep(0)
        wake.set()
        running.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert running.cancelled()

    asyncio.run(scenario())
