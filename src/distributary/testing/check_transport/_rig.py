"""Fixtures of the checks: the rig, behaviours of far sides, and a collector of answers."""

import asyncio
import enum
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal, Protocol, TypeAlias

from distributary.core.deliver import Answer, Destination, Transport
from distributary.core.event import Event

TIMEOUT_S: Final = 5.0
"""Timeout of attempts that are expected to be answered."""

DEADLINE_S: Final = 0.3
"""Timeout of attempts that are expected to run out of time."""

MANY: Final = 200
"""Attempts under way at once."""

ARRIVAL_S_MAX: Final = 5.0
"""Longest time from an acknowledgement until the checker at the far side has the event: brokers
acknowledge first and pass on later."""

SECOND_COPY_S: Final = 0.05
"""How long the checks wait for a second answer or copy, which must not come."""

Format: TypeAlias = Literal["binary", "structured"]
"""Content modes of an event; ``Destination.format``."""


class Behaviour(enum.Enum):
    """Behaviour of the far side."""

    ACCEPT = "accept"
    """Accepts and acknowledges the event."""
    REJECT = "reject"
    """Rejects the event."""
    REFUSE = "refuse"
    """Refuses connections."""
    RESET = "reset"
    """Breaks the connection instead of an answer."""
    HANG = "hang"
    """Accepts the event and does not respond."""
    TRICKLE = "trickle"
    """Answers too slowly to be done in time, but never stops."""
    REPLY = "reply"
    """Accepts the event and replies with ``a_reply()``."""
    REPLY_LATER = "reply-later"
    """The same with a status of unfinished processing: 202 in HTTP."""
    BAD_REPLY = "bad-reply"
    """Accepts the event and replies with a malformed event."""


class Rig(Protocol):
    """A transport and its far side.

    Attributes:
        transport: The transport under test; made for this rig, closed by the check or by the rig.
        formats: The content modes that this protocol has. The first one is used by every check
            that is not about modes.
        ordered: Events to one destination arrive in the order of ``send``, as on one connection.
            False: several connections, or requests of their own.
        acknowledged: Whether the far side acknowledges events. False: success means "written and
            flushed" (MQTT QoS 0, AMQP settled, Kafka acks=0, core NATS), so that a broken
            connection loses events in flight.
    """

    transport: Transport
    formats: Sequence[Format]
    ordered: bool
    acknowledged: bool

    def destination(
        self,
        behaviour: Behaviour,
        format: Format = "binary",  # noqa: A002 - named as the field that it sets
    ) -> Destination | None:
        """Returns a sink of this behaviour; None: this protocol has none."""
        ...

    def arrived(self) -> Sequence[Event]:
        """Returns every event that the far side has accepted, in order."""
        ...

    async def interrupt(self) -> None:
        """Abort every connection to the far side, which accepts new ones."""
        ...

    async def leave(self) -> None:
        """Abort every connection, and refuse new ones until ``come_back``."""
        ...

    async def come_back(self) -> None:
        """Accept connections again."""
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
        """Returns every answer, a moment after all have come (to detect second ones)."""
        async with asyncio.timeout(within_s):
            while not self.all_in:
                self._arrived.clear()
                await self._arrived.wait()
        await asyncio.sleep(SECOND_COPY_S)
        return [self.by_attempt[number] for number in sorted(self.by_attempt)]


def an_event(number: int = 0, data: bytes = b'{"n": 1}') -> Event:
    """Returns an event identified by *number*."""
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
    """Returns the reply of a sink of ``REPLY``."""
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": "reply",
        "source": "/sink",
        "type": "com.example.reply",
        "datacontenttype": "application/json",
    }
    return Event(attributes, b'{"re": 1}')


def sink(rig: Rig, behaviour: Behaviour) -> Destination | None:
    """Returns a destination in the rig's first mode; None: there is no such sink."""
    return rig.destination(behaviour, rig.formats[0])


def accepting(rig: Rig, format: Format | None = None) -> Destination:  # noqa: A002 - as above
    """Returns the accepting destination, which every rig has."""
    destination = rig.destination(Behaviour.ACCEPT, format or rig.formats[0])
    assert destination is not None, "every rig has a far side that accepts"
    return destination


async def one(rig: Rig, behaviour: Behaviour, timeout_s: float = TIMEOUT_S) -> Answer | None:
    """Sends one event and returns its answer; None: this rig has no such sink."""
    destination = sink(rig, behaviour)
    if destination is None:
        return None
    answers = Answers()
    answers.send(rig, an_event(), destination, timeout_s)
    return (await answers.wait())[0]


async def arrived(rig: Rig, count: int) -> list[Event]:
    """What the far side has, once it is *count* events, or more, or no more come."""
    loop = asyncio.get_running_loop()
    had = 0
    until_s = loop.time() + ARRIVAL_S_MAX
    # What a rig's far side is, and on which thread, is its own business: nobody can wake us.
    while (has := len(rig.arrived())) < count and loop.time() < until_s:
        if has > had:  # on a busy machine thousands take their time
            had = has
            until_s = loop.time() + ARRIVAL_S_MAX
        await asyncio.sleep(0.01)
    await asyncio.sleep(SECOND_COPY_S)
    return list(rig.arrived())


def numbers(events: Sequence[Event]) -> list[int]:
    """Returns the numbers of events that ``an_event`` made."""
    return [int(str(event.attributes["id"]).removeprefix("check-")) for event in events]
