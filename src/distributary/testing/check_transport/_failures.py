"""Checks of far sides that reject, are unreachable, or do not respond."""

import asyncio
from typing import Final

from distributary.core.errors import TransportError
from distributary.core.policy import delivered
from distributary.testing.check_transport._rig import (
    DEADLINE_S,
    TIMEOUT_S,
    Answers,
    Behaviour,
    Make,
    Rig,
    an_event,
    one,
    sink,
)

BUSY_S: Final = 0.25
"""Tolerance of a deadline on a busy machine. Measured from a timer of the same loop, so that a
blocked loop makes nothing late."""


async def tells_of_a_rejection(make: Make) -> None:
    """A rejection is reported as an answer that is no success, or as an error."""
    async with make() as rig:
        answer = await one(rig, Behaviour.REJECT)
        assert answer is None or not delivered(answer)


async def delivers_to_others_after_a_rejection(make: Make) -> None:
    """A rejected message affects no other, nor the connection to the far side."""
    async with make() as rig:
        for behaviour in (Behaviour.ACCEPT, Behaviour.REJECT, Behaviour.ACCEPT):
            answer = await one(rig, behaviour)
            assert answer is None or delivered(answer) == (behaviour is Behaviour.ACCEPT)


async def tells_of_a_refused_connection(make: Make) -> None:
    """Without a listener every attempt fails with a retryable error."""
    async with make() as rig:
        for _ in range(3):
            answer = await one(rig, Behaviour.REFUSE)
            if answer is not None:
                assert isinstance(answer, TransportError)
                assert answer.reason == "refused"
                assert answer.retryable


async def tells_of_a_reset(make: Make) -> None:
    """A broken connection is a retryable error; the transport does not send again."""
    async with make() as rig:
        answer = await one(rig, Behaviour.RESET)
        if answer is not None:
            assert isinstance(answer, TransportError)
            assert answer.reason == "reset"
            assert answer.retryable
            assert len(rig.arrived()) <= 1


async def keeps_the_deadline_when_nothing_comes(make: Make) -> None:
    """An attempt at a silent far side ends after the timeout, +10 % or 100 ms."""
    async with make() as rig:
        await _runs_out_of_time(rig, Behaviour.HANG)


async def keeps_the_deadline_when_something_trickles(make: Make) -> None:
    """The deadline is for the whole attempt, not for each byte."""
    async with make() as rig:
        await _runs_out_of_time(rig, Behaviour.TRICKLE)


async def _runs_out_of_time(rig: Rig, behaviour: Behaviour) -> None:
    loop = asyncio.get_running_loop()
    destination = sink(rig, behaviour)
    if destination is None:
        return
    answers = Answers()
    ended: list[float] = []
    promised: list[float] = []
    start = loop.time()
    loop.call_later(DEADLINE_S * 1.1 + 0.1, lambda: promised.append(loop.time()))
    rig.transport.send(an_event(), destination, DEADLINE_S, lambda _: ended.append(loop.time()))
    answers.send(rig, an_event(), destination, DEADLINE_S)
    answer = (await answers.wait())[0]
    assert isinstance(answer, TransportError)
    assert answer.reason == "timeout"
    assert answer.retryable
    assert len(ended) == 1
    assert ended[0] - start >= DEADLINE_S - 0.01
    assert not promised or ended[0] - promised[0] <= BUSY_S


async def a_slow_sink_delays_no_other(make: Make) -> None:
    """Attempts to a sink that hangs do not delay the others."""
    async with make() as rig:
        await _leaves_others_alone(rig, Behaviour.HANG)


async def a_sink_that_is_away_delays_no_other(make: Make) -> None:
    """Attempts to an unreachable sink do not delay the others."""
    async with make() as rig:
        await _leaves_others_alone(rig, Behaviour.REFUSE)


async def _leaves_others_alone(rig: Rig, behaviour: Behaviour) -> None:
    bad = sink(rig, behaviour)
    if bad is None:
        return
    waiting = Answers()
    for number in range(50):
        waiting.send(rig, an_event(number), bad, TIMEOUT_S)
    answer = await one(rig, Behaviour.ACCEPT)
    assert answer is not None
    assert delivered(answer), answer
    assert behaviour is not Behaviour.HANG or not waiting.by_attempt
    await rig.transport.close()
    for answer in await waiting.wait():
        assert isinstance(answer, TransportError)


CHECKS: Final = (
    tells_of_a_rejection,
    delivers_to_others_after_a_rejection,
    tells_of_a_refused_connection,
    tells_of_a_reset,
    keeps_the_deadline_when_nothing_comes,
    keeps_the_deadline_when_something_trickles,
    a_slow_sink_delays_no_other,
    a_sink_that_is_away_delays_no_other,
)
