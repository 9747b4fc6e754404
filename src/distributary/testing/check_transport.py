"""The suite that every transport passes: what ``deliver.Transport`` promises, as checks.

Called by ``tests/contract`` for every transport here, and by whoever writes another::

    @pytest.mark.parametrize("check", check_transport.CHECKS, ids=lambda c: c.__name__)
    def test_my_transport(check):
        asyncio.run(check(make_rig))

A rig is a transport with a far side that can be told how to behave.
"""

import asyncio
import dataclasses
import enum
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from distributary.deliver import Answer, Destination, Transport
from distributary.errors import TransportError
from distributary.event import Event
from distributary.policy import Reply

TIMEOUT_S: Final = 5.0
"""Timeout of attempts that are expected to be answered."""

DEADLINE_S: Final = 0.3
"""Timeout of attempts that are expected to run out of time."""

MANY: Final = 200
"""Attempts under way at once."""

BIG_BYTES: Final = 1024 * 1024
"""The largest event that is accepted by default."""


class Behaviour(enum.Enum):
    """What the far side does with what comes."""

    ACCEPT = "accept"
    """Takes the event and says so."""
    REJECT = "reject"
    """Says no."""
    REFUSE = "refuse"
    """Takes no connection."""
    RESET = "reset"
    """Breaks the connection instead of an answer."""
    HANG = "hang"
    """Takes the event and says nothing."""
    TRICKLE = "trickle"
    """Answers too slowly to be done in time, but never stops."""
    REPLY = "reply"
    """Takes the event and answers with another, ``a_reply()``."""
    REPLY_LATER = "reply-later"
    """The same, but says that it is not done with the event: 202 in HTTP."""
    BAD_REPLY = "bad-reply"
    """Takes the event and answers with what says that it is an event, and is none."""


class Rig(Protocol):
    """A transport and its far side.

    Attributes:
        transport: What is checked; made for this rig, closed by the check or by the rig.
    """

    transport: Transport

    def destination(self, behaviour: Behaviour) -> Destination | None:
        """A sink that behaves like this; None: such a sink cannot be had by this protocol."""
        ...

    def arrived(self) -> Sequence[Event]:
        """Every event that the far side took so far."""
        ...


Make = Callable[[], AbstractAsyncContextManager[Rig]]
"""Makes a fresh rig for each check."""


class Answers:
    """Collects answers; fails the check at a second one to the same attempt."""

    def __init__(self) -> None:
        self.by_attempt: dict[int, Answer] = {}
        self._started = 0
        self._arrived = asyncio.Event()
        self._inside = False

    @property
    def all_in(self) -> bool:
        """Whether every attempt has its answer."""
        return len(self.by_attempt) == self._started

    def send(self, rig: Rig, event: Event, destination: Destination, timeout_s: float) -> None:
        """Start an attempt whose answer is collected here."""
        number = self._started
        self._started += 1

        def done(answer: Answer) -> None:
            assert not self._inside, "done was called from inside send"
            assert number not in self.by_attempt, "done was called twice"
            self.by_attempt[number] = answer
            self._arrived.set()

        self._inside = True
        rig.transport.send(event, destination, timeout_s, done)
        self._inside = False

    async def wait(self, within_s: float = 2 * TIMEOUT_S) -> list[Answer]:
        """Every answer, once all are in, and a moment later (for second answers)."""
        async with asyncio.timeout(within_s):
            while not self.all_in:
                self._arrived.clear()
                await self._arrived.wait()
        await asyncio.sleep(0.05)
        return [self.by_attempt[number] for number in sorted(self.by_attempt)]


def an_event(number: int = 0, data: bytes = b'{"n": 1}') -> Event:
    """An event that differs from others by *number*."""
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": f"check-{number}",
        "source": "/check",
        "type": "com.example.check",
        "datacontenttype": "application/json",
        "subject": 'quote " percent % é',
    }
    return Event(attributes, data)


def a_reply() -> Event:
    """The event that a sink of ``REPLY`` answers with."""
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": "reply",
        "source": "/sink",
        "type": "com.example.reply",
        "datacontenttype": "application/json",
    }
    return Event(attributes, b'{"re": 1}')


async def _one(rig: Rig, behaviour: Behaviour, timeout_s: float = TIMEOUT_S) -> Answer | None:
    """The answer to one event; None: this rig has no such sink."""
    destination = rig.destination(behaviour)
    if destination is None:
        return None
    answers = Answers()
    answers.send(rig, an_event(), destination, timeout_s)
    return (await answers.wait())[0]


async def delivers_an_event_once_and_unchanged(make: Make) -> None:
    """An accepted event is at the far side once, with the same attributes and data."""
    async with make() as rig:
        answer = await _one(rig, Behaviour.ACCEPT)
        assert isinstance(answer, Reply)
        assert 200 <= answer.status < 300
        assert list(rig.arrived()) == [an_event()]


async def delivers_the_next_event_as_well(make: Make) -> None:
    """One attempt after the other goes through, by whatever is kept between them."""
    async with make() as rig:
        for _ in range(3):
            assert isinstance(await _one(rig, Behaviour.ACCEPT), Reply)
        assert len(rig.arrived()) == 3


async def delivers_many_at_once(make: Make) -> None:
    """Attempts that run together are each answered, and none is lost or doubled."""
    async with make() as rig:
        destination = rig.destination(Behaviour.ACCEPT)
        assert destination is not None
        answers = Answers()
        for number in range(MANY):
            answers.send(rig, an_event(number), destination, 2 * TIMEOUT_S)
        assert all(isinstance(answer, Reply) for answer in await answers.wait())
        ids = sorted(str(event.attributes["id"]) for event in rig.arrived())
        assert ids == sorted(f"check-{number}" for number in range(MANY))


async def delivers_a_big_body(make: Make) -> None:
    """The largest event arrives byte for byte."""
    data = b'"' + bytes(range(0x61, 0x7B)) * (BIG_BYTES // 26) + b'"'
    async with make() as rig:
        destination = rig.destination(Behaviour.ACCEPT)
        assert destination is not None
        answers = Answers()
        answers.send(rig, an_event(data=data), destination, TIMEOUT_S)
        assert isinstance((await answers.wait())[0], Reply)
        assert [event.data for event in rig.arrived()] == [data]


async def delivers_an_event_without_data(make: Make) -> None:
    """An event without data stays one."""
    event = Event({"specversion": "1.0", "id": "1", "source": "/check", "type": "t"}, None)
    async with make() as rig:
        destination = rig.destination(Behaviour.ACCEPT)
        assert destination is not None
        answers = Answers()
        answers.send(rig, event, destination, TIMEOUT_S)
        assert isinstance((await answers.wait())[0], Reply)
        assert list(rig.arrived()) == [event]


async def _replied(rig: Rig, behaviour: Behaviour, *, wants_reply: bool) -> Reply | None:
    """The answer of a sink that answers with an event; None: this rig has no such sink."""
    destination = rig.destination(behaviour)
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
    """An event in the answer comes back whole, time after time."""
    async with make() as rig:
        for _ in range(3):
            answer = await _replied(rig, Behaviour.REPLY, wants_reply=True)
            assert answer is None or answer.event == a_reply()
            assert answer is None or answer.event_fault is None


async def brings_no_reply_that_nobody_wants(make: Make) -> None:
    """Whether before or after one that is wanted, at the same sink."""
    async with make() as rig:
        for wanted in (False, True, False):
            answer = await _replied(rig, Behaviour.REPLY, wants_reply=wanted)
            assert answer is None or (answer.event is not None) == wanted


async def brings_no_reply_before_the_work_is_done(make: Make) -> None:
    """What comes with a 202 is never a reply, even where it is an event (decision 14)."""
    async with make() as rig:
        answer = await _replied(rig, Behaviour.REPLY_LATER, wants_reply=True)
        assert answer is None or (answer.event is None and answer.event_fault is None)


async def tells_of_a_reply_that_is_no_event(make: Make) -> None:
    """The delivery stands, and why its reply cannot be read is said."""
    async with make() as rig:
        answer = await _replied(rig, Behaviour.BAD_REPLY, wants_reply=True)
        assert answer is None or (answer.event is None and answer.event_fault)


async def tells_of_a_rejection(make: Make) -> None:
    """A no is the far side's own no: a reply that is not 2xx, or an error, never success."""
    async with make() as rig:
        answer = await _one(rig, Behaviour.REJECT)
        if isinstance(answer, Reply):
            assert not 200 <= answer.status < 300


async def tells_of_a_refused_connection(make: Make) -> None:
    """Where nobody listens there is no reply, and trying again later is right."""
    async with make() as rig:
        answer = await _one(rig, Behaviour.REFUSE)
        if answer is not None:
            assert isinstance(answer, TransportError)
            assert answer.reason == "refused"
            assert answer.retryable


async def tells_of_a_reset(make: Make) -> None:
    """A broken connection is an error that can be retried, not sent again by the transport."""
    async with make() as rig:
        answer = await _one(rig, Behaviour.RESET)
        if answer is not None:
            assert isinstance(answer, TransportError)
            assert answer.reason == "reset"
            assert answer.retryable
            assert len(rig.arrived()) <= 1


async def keeps_the_deadline_when_nothing_comes(make: Make) -> None:
    """A silent far side costs the timeout, +10 % or 100 ms."""
    async with make() as rig:
        await _runs_out_of_time(rig, Behaviour.HANG)


async def keeps_the_deadline_when_something_trickles(make: Make) -> None:
    """The deadline is for the whole attempt, not for each byte."""
    async with make() as rig:
        await _runs_out_of_time(rig, Behaviour.TRICKLE)


async def _runs_out_of_time(rig: Rig, behaviour: Behaviour) -> None:
    """Bounds are those of the promise, with 250 ms for a machine that is busy elsewhere."""
    loop = asyncio.get_running_loop()
    destination = rig.destination(behaviour)
    if destination is None:
        return
    answers = Answers()
    ended: list[float] = []
    start = loop.time()
    rig.transport.send(an_event(), destination, DEADLINE_S, lambda _: ended.append(loop.time()))
    answers.send(rig, an_event(), destination, DEADLINE_S)
    answer = (await answers.wait())[0]
    assert isinstance(answer, TransportError)
    assert answer.reason == "timeout"
    assert answer.retryable
    assert len(ended) == 1
    assert DEADLINE_S - 0.01 <= ended[0] - start <= DEADLINE_S * 1.1 + 0.1 + 0.25


async def a_slow_sink_delays_no_other(make: Make) -> None:
    """Attempts to a sink that hangs leave the others their way."""
    async with make() as rig:
        hanging = rig.destination(Behaviour.HANG)
        if hanging is None:
            return
        waiting = Answers()
        for number in range(50):
            waiting.send(rig, an_event(number), hanging, TIMEOUT_S)
        assert isinstance(await _one(rig, Behaviour.ACCEPT), Reply)
        assert not waiting.by_attempt
        await rig.transport.close()
        await waiting.wait()


async def closing_ends_attempts_under_way(make: Make) -> None:
    """Each attempt under way gets one answer, ``closed``; closing again is harmless."""
    async with make() as rig:
        destination = rig.destination(Behaviour.HANG) or rig.destination(Behaviour.ACCEPT)
        assert destination is not None
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
    """A ``close`` that is cut short leaves nothing that a second one does not end."""
    async with make() as rig:
        destination = rig.destination(Behaviour.HANG) or rig.destination(Behaviour.ACCEPT)
        assert destination is not None
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


async def sends_nothing_after_closing(make: Make) -> None:
    """An attempt after ``close`` ends as ``closed``, and nothing arrives."""
    async with make() as rig:
        assert isinstance(await _one(rig, Behaviour.ACCEPT), Reply)
        await rig.transport.close()
        answer = await _one(rig, Behaviour.ACCEPT)
        assert isinstance(answer, TransportError)
        assert answer.reason == "closed"
        assert len(rig.arrived()) == 1


Check = Callable[[Make], Awaitable[None]]

CHECKS: Final[tuple[Check, ...]] = (
    delivers_an_event_once_and_unchanged,
    delivers_the_next_event_as_well,
    delivers_many_at_once,
    delivers_a_big_body,
    delivers_an_event_without_data,
    brings_a_reply_that_is_wanted,
    brings_no_reply_that_nobody_wants,
    brings_no_reply_before_the_work_is_done,
    tells_of_a_reply_that_is_no_event,
    tells_of_a_rejection,
    tells_of_a_refused_connection,
    tells_of_a_reset,
    keeps_the_deadline_when_nothing_comes,
    keeps_the_deadline_when_something_trickles,
    a_slow_sink_delays_no_other,
    closing_ends_attempts_under_way,
    closing_can_be_cancelled,
    sends_nothing_after_closing,
)
"""Every check; each raises ``AssertionError`` where a promise is broken."""


async def check_transport(make: Make) -> None:
    """Run every check on a rig of its own.

    Args:
        make: Makes a rig.

    Raises:
        AssertionError: The transport breaks a promise.
    """
    for check in CHECKS:
        await check(make)
