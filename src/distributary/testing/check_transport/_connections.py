"""Checks of connections that break, and of reconnection."""

import asyncio
from collections import Counter
from typing import Final

from distributary.core.errors import TransportError
from distributary.core.policy import Answer, delivered
from distributary.testing.check_transport._rig import (
    MANY,
    TIMEOUT_S,
    Answers,
    Behaviour,
    Make,
    Rig,
    accepting,
    an_event,
    arrived,
    numbers,
    one,
    sink,
)

RECONNECTED_S_MAX: Final = 10.0
"""Longest time from the far side's return to the first delivery."""

IN_FLIGHT_S: Final = 0.2
"""Time for attempts to be sent before their connection is aborted."""

BROKEN: Final = frozenset({"reset", "refused", "tls", "timeout"})
"""Reasons of attempts whose connection was aborted: in flight, while dialling, or in a handshake;
or of a protocol that keeps its messages until their timeout (Kafka)."""


async def ends_attempts_whose_connection_breaks(make: Make) -> None:
    """Attempts in flight fail with a retryable error, and are not sent again."""
    async with make() as rig:
        destination = sink(rig, Behaviour.HANG)
        if destination is None:
            return
        answers = Answers()
        for number in range(20):
            answers.send(rig, an_event(number), destination, 2 * TIMEOUT_S)
        await asyncio.sleep(IN_FLIGHT_S)
        await rig.interrupt()
        for answer in await answers.wait(TIMEOUT_S):
            _assert_broken(answer)
        assert all(count == 1 for count in Counter(numbers(rig.arrived())).values())


async def connects_again_after_a_break(make: Make) -> None:
    """Earlier attempts are answered or fail, later ones succeed; nothing is duplicated."""
    async with make() as rig:
        destination = accepting(rig)
        answers = Answers()
        answers.send(rig, an_event(0), destination, TIMEOUT_S)
        assert delivered((await answers.wait())[0])
        for number in range(1, MANY):
            answers.send(rig, an_event(number), destination, TIMEOUT_S)
        await rig.interrupt()
        before = await answers.wait()
        await _delivers_again(rig, MANY)
        await _assert_none_lost_or_doubled(rig, before)


async def finds_a_far_side_that_was_away(make: Make) -> None:
    """Attempts fail while the far side is unreachable, and succeed after its return."""
    async with make() as rig:
        assert await one(rig, Behaviour.ACCEPT) is not None
        await rig.leave()
        answers = Answers()
        for number in range(1, 21):
            answers.send(rig, an_event(number), accepting(rig), TIMEOUT_S)
        for answer in await answers.wait():
            if rig.acknowledged:
                _assert_broken(answer)
        await rig.come_back()
        await _delivers_again(rig, 100)


async def _delivers_again(rig: Rig, number: int) -> None:
    """Send new events, numbered from *number* on, until one is delivered and arrives."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + RECONNECTED_S_MAX
    while True:
        answers = Answers()
        answers.send(rig, an_event(number), accepting(rig), TIMEOUT_S)
        (answer,) = await answers.wait()
        if delivered(answer) and await _has_arrived(rig, number):
            return
        if not delivered(answer):
            _assert_broken(answer)
        assert loop.time() < until_s, f"not connected again: {answer}"
        number += 1


async def _has_arrived(rig: Rig, number: int) -> bool:
    if rig.acknowledged:
        return True  # whether it does is counted at the end
    await asyncio.sleep(IN_FLIGHT_S)
    return number in numbers(rig.arrived())


async def _assert_none_lost_or_doubled(rig: Rig, answers: list[Answer]) -> None:
    """Assert that acknowledged events have arrived, and none twice."""
    acknowledged = {number for number, answer in enumerate(answers) if delivered(answer)}
    for number, answer in enumerate(answers):
        if number not in acknowledged:
            _assert_broken(answer)
    # Without acknowledgements some are lost, and waiting for them would be in vain.
    await arrived(rig, len(acknowledged) + 1 if rig.acknowledged else 0)
    came = Counter(numbers(rig.arrived()))
    assert all(count == 1 for count in came.values()), came
    assert not rig.acknowledged or acknowledged <= came.keys(), acknowledged - came.keys()


def _assert_broken(answer: Answer) -> None:
    assert isinstance(answer, TransportError), answer
    assert answer.reason in BROKEN, answer
    assert answer.retryable


CHECKS: Final = (
    ends_attempts_whose_connection_breaks,
    connects_again_after_a_break,
    finds_a_far_side_that_was_away,
)
