import asyncio
from collections.abc import Callable

import pytest

from distributary.core.deliver import Destination
from distributary.core.errors import EventError, Fault, TransportError
from distributary.core.event import Event
from distributary.core.policy import Reply
from distributary.core.source import Message, Settlement
from distributary.testing.scripted_transport import ScriptedTransport, Step
from distributary.testing.virtual import VirtualClock, VirtualTimers


def reply(status: int) -> Reply:
    """An answer of the receiver."""
    return Reply(status=status, retry_after=None, content_type=None, body=b"")


class Receiver:
    """The receiver: answers 202, or what the next entries of ``script`` say."""

    def __init__(self, timers: VirtualTimers) -> None:
        self.script: list[Step] = []
        self.otherwise = Step(reply(202))
        self.transport = ScriptedTransport(timers, self._step)

    def _step(self, _event: Event, _destination: Destination) -> Step:
        return self.script.pop(0) if self.script else self.otherwise

    def says(self, *answers: int | TransportError) -> None:
        """Answer the next events so: with a status, or not at all."""
        self.script = [self.step(answer) for answer in answers]

    def always(self, answer: int) -> None:
        """Answer every event so from now on."""
        self.otherwise = self.step(answer)

    @staticmethod
    def step(answer: int | TransportError) -> Step:
        """What the receiver does with one event."""
        return Step(reply(answer) if isinstance(answer, int) else answer)

    @property
    def got(self) -> list[str]:
        """Ids of all that was sent to it, in order."""
        return [str(event.attributes["id"]) for event, _ in self.transport.arrived]


class Mail:
    """Messages of a broker, and what became of each."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, Settlement]] = []

    def event(self, name: str, data: bytes | None = b"{}", **more: str | int | bool) -> Message:
        """A message with an event."""
        attributes: dict[str, str | int | bool] = {"specversion": "1.0", "id": name, "source": "/s"}
        attributes |= {"type": "t", "datacontenttype": "application/json", **more}
        return Message(Event(attributes, data), None, f"topic@{name}", self._settle(name))

    def junk(self, name: str) -> Message:
        """A message without one."""
        fault = EventError([Fault("ce_id", "missing", "is required; secret-content")])
        return Message(None, fault, f"topic@{name}", self._settle(name))

    def _settle(self, name: str) -> Callable[[Settlement], None]:
        return lambda settlement: self.settled.append((name, settlement))


class ScriptedConsumer:
    """A consumer that gives what a test says, and ends when it says so."""

    def __init__(self) -> None:
        self.runs = 0
        self.unsettled_max = 0
        self._end: asyncio.Future[None] | None = None

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        """See ``core.source.Consumer``."""
        self.runs += 1
        self.take = take
        self.unsettled_max = unsettled_max
        self._end = asyncio.get_running_loop().create_future()
        try:
            await self._end
        finally:
            self._end = None

    @property
    def running(self) -> bool:
        """Whether ``run`` goes on."""
        return self._end is not None

    def fail(self, error: Exception | None = None) -> None:
        """Have ``run`` end."""
        assert self._end is not None
        self._end.set_exception(error or TransportError("refused", "nobody listens"))


@pytest.fixture
def clock() -> VirtualClock:
    """Stands still until it is moved."""
    return VirtualClock()


@pytest.fixture
def timers(clock: VirtualClock) -> VirtualTimers:
    """Fire as the clock is moved."""
    return VirtualTimers(clock)


@pytest.fixture
def receiver(timers: VirtualTimers) -> Receiver:
    """The receiver."""
    return Receiver(timers)


@pytest.fixture
def mail() -> Mail:
    """Messages."""
    return Mail()


@pytest.fixture
def consumer() -> ScriptedConsumer:
    """The consumer of the source under test."""
    return ScriptedConsumer()
