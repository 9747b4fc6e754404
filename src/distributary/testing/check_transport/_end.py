"""Checks of ``close``."""

import asyncio
from typing import Final

from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.policy import delivered
from distributary.testing.check_transport._rig import (
    TIMEOUT_S,
    Answers,
    Behaviour,
    Make,
    Rig,
    accepting,
    an_event,
    arrived,
    one,
    sink,
)


def _slow(rig: Rig) -> Destination:
    """Returns a destination where attempts stay under way, if the rig has such a sink."""
    return sink(rig, Behaviour.HANG) or accepting(rig)


async def closing_ends_attempts_under_way(make: Make) -> None:
    """Each attempt under way gets one answer, ``closed``; closing again is harmless."""
    async with make() as rig:
        destination = _slow(rig)
        answers = Answers()
        for number in range(20):
            answers.send(rig, an_event(number), destination, TIMEOUT_S)
        await asyncio.sleep(0.05)
        answers.send(rig, an_event(20), destination, TIMEOUT_S)
        await rig.transport.close()
        await rig.transport.close()
        for answer in await answers.wait():
            assert not isinstance(answer, TransportError) or answer.reason == "closed"


async def closing_can_be_cancelled(make: Make) -> None:
    """A cancelled ``close`` leaves nothing that a second one does not end."""
    async with make() as rig:
        destination = _slow(rig)
        answers = Answers()
        for number in range(20):
            answers.send(rig, an_event(number), destination, TIMEOUT_S)
        await asyncio.sleep(0.02)
        closing = asyncio.get_running_loop().create_task(rig.transport.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await rig.transport.close()
        assert len(await answers.wait()) == 20


async def closing_ends_a_dial_under_way(make: Make) -> None:
    """A dial is ended whether it has just begun, is half done or has just succeeded."""
    for turns in (0, 1, 2, 5, 20):
        async with make() as rig:
            answers = Answers()
            for number in range(20):
                answers.send(rig, an_event(number), accepting(rig), TIMEOUT_S)
            for _ in range(turns):
                await asyncio.sleep(0)
            await rig.transport.close()
            for answer in await answers.wait():
                closed = isinstance(answer, TransportError) and answer.reason == "closed"
                assert closed or delivered(answer), answer


async def sends_nothing_after_closing(make: Make) -> None:
    """An attempt after ``close`` ends as ``closed``, and nothing arrives."""
    async with make() as rig:
        first = await one(rig, Behaviour.ACCEPT)
        assert first is not None
        assert delivered(first), first
        await rig.transport.close()
        answer = await one(rig, Behaviour.ACCEPT)
        assert isinstance(answer, TransportError)
        assert answer.reason == "closed"
        assert len(await arrived(rig, 1)) == 1


CHECKS: Final = (
    closing_ends_attempts_under_way,
    closing_can_be_cancelled,
    closing_ends_a_dial_under_way,
    sends_nothing_after_closing,
)
