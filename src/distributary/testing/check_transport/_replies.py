"""Checks of reply events in responses; rigs of protocols without replies have no such sinks."""

import dataclasses
from typing import Final

from distributary.core.policy import Reply
from distributary.testing.check_transport._rig import (
    TIMEOUT_S,
    Answers,
    Behaviour,
    Make,
    Rig,
    a_reply,
    an_event,
    sink,
)


async def _replied(rig: Rig, behaviour: Behaviour, *, wants_reply: bool) -> Reply | None:
    """Returns the answer of a replying sink; None: this rig has no such sink."""
    destination = sink(rig, behaviour)
    if destination is None:
        return None
    answers = Answers()
    destination = dataclasses.replace(destination, wants_reply=wants_reply)
    answers.send(rig, an_event(), destination, TIMEOUT_S)
    (answer,) = await answers.wait()
    assert isinstance(answer, Reply)
    assert 200 <= answer.status < 300
    return answer


async def brings_a_reply_that_is_wanted(make: Make) -> None:
    """An event in the response is returned unchanged, repeatedly."""
    async with make() as rig:
        for _ in range(3):
            answer = await _replied(rig, Behaviour.REPLY, wants_reply=True)
            assert answer is None or answer.event == a_reply()
            assert answer is None or answer.event_fault is None


async def brings_no_reply_that_nobody_wants(make: Make) -> None:
    """An unwanted reply is ignored, before and after a wanted one at the same sink."""
    async with make() as rig:
        for wanted in (False, True, False):
            answer = await _replied(rig, Behaviour.REPLY, wants_reply=wanted)
            assert answer is None or (answer.event is not None) == wanted


async def brings_no_reply_before_the_work_is_done(make: Make) -> None:
    """The body of a 202 is never a reply, even where it is an event (decision 14, replies)."""
    async with make() as rig:
        answer = await _replied(rig, Behaviour.REPLY_LATER, wants_reply=True)
        assert answer is None or (answer.event is None and answer.event_fault is None)


async def tells_of_a_reply_that_is_no_event(make: Make) -> None:
    """The delivery succeeds, and the answer has the reason why its reply is malformed."""
    async with make() as rig:
        answer = await _replied(rig, Behaviour.BAD_REPLY, wants_reply=True)
        assert answer is None or (answer.event is None and answer.event_fault)


CHECKS: Final = (
    brings_a_reply_that_is_wanted,
    brings_no_reply_that_nobody_wants,
    brings_no_reply_before_the_work_is_done,
    tells_of_a_reply_that_is_no_event,
)
