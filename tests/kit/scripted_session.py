"""A broker of a few lines, for what is above the protocols: sessions that do what a test says.

Called by tests of ``net.link.BrokerTransport``.
"""

import asyncio
import functools
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from distributary.core.deliver import Answer, Destination
from distributary.core.event import Event
from distributary.core.policy import Acknowledgement
from distributary.net.link import BrokerSession, BrokerTransport, Flight, Lost
from distributary.protocols.nats.settings import NatsSettings
from distributary.testing.virtual_loop import VirtualLoop, run

YES = Acknowledgement("NATS", "accepted")
"""The broker has taken the message."""


class ScriptedSession:
    """One connection; the test says when what is answered.

    Args:
        window: Its window.
        lost: Told of its end.

    Attributes:
        published: Every flight, in order.
        on_publish: Called for each, inside ``publish``; may answer or raise.
        goodbye: Awaited by ``close``.
        closed: How often ``close`` was called.
    """

    def __init__(self, window: int, lost: Lost) -> None:
        self.window = window
        self.lost = lost
        self.published: list[Flight] = []
        self.on_publish: Callable[[Flight], None] = lambda _: None
        self.goodbye: asyncio.Event | None = None
        self.closed = 0

    def publish(self, flight: Flight) -> None:
        """Take note, and do as told."""
        self.published.append(flight)
        self.on_publish(flight)

    async def close(self) -> None:
        """Take note, and wait if told so."""
        self.closed += 1
        if self.goodbye is not None:
            await self.goodbye.wait()

    @property
    def ids(self) -> list[str]:
        """The ids of the events that were published."""
        return [str(flight.event.attributes["id"]) for flight in self.published]


class ScriptedBroker:
    """Opens sessions, or fails to, as the test says.

    Args:
        loop: In virtual time.
        window: Of each session.

    Attributes:
        dials: When each dial began, seconds.
        sessions: Every session that was opened.
        script: What dials come to, one after the other: an answer, an exception to raise, None
            for a session. When it is empty, as ``otherwise`` says.
        otherwise: The same, for every dial after those.
        dial_s: How long a dial takes, seconds.
        on_open: Called with each session before it is returned.
    """

    def __init__(self, loop: VirtualLoop, window: int = 10) -> None:
        self.loop = loop
        self.window = window
        self.dials: list[float] = []
        self.sessions: list[ScriptedSession] = []
        self.script: deque[Answer | BaseException | None] = deque()
        self.otherwise: Answer | BaseException | None = None
        self.dial_s = 0.01
        self.on_open: Callable[[ScriptedSession], None] = lambda _: None
        self.transport = BrokerTransport(
            self._open, lambda destination: destination.uri, loop.clock, loop
        )

    async def _open(self, destination: Destination, lost: Lost) -> "BrokerSession | Answer":
        del destination
        self.dials.append(self.loop.time())
        await asyncio.sleep(self.dial_s)
        comes = self.script.popleft() if self.script else self.otherwise
        if isinstance(comes, BaseException):
            raise comes
        if comes is not None:
            return comes
        session = ScriptedSession(self.window, lost)
        self.sessions.append(session)
        self.on_open(session)
        return session


def a_place(host: str = "broker", subject: str = "s", **fields: object) -> Destination:
    """A place at a scripted broker; equal hosts share a connection."""
    uri = f"nats://{host}:4222"
    settings = NatsSettings(subject)
    return Destination(uri, "NATS", settings=settings, **fields)  # type: ignore[arg-type]  # any


def an_event(number: int) -> Event:
    """An event whose id is *number*."""
    return Event(
        {"specversion": "1.0", "id": str(number), "source": "/test", "type": "test"}, b"data"
    )


class Bench:
    """A transport to scripted brokers, and the answers that came.

    Args:
        loop: In virtual time.

    Attributes:
        answers: Number of an attempt -> its answer.
        when: Number of an attempt -> when that came, seconds.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.broker = ScriptedBroker(loop)
        self.transport = self.broker.transport
        self.answers: dict[int, Answer] = {}
        self.when: dict[int, float] = {}

    def send(
        self,
        number: int,
        timeout_s: float = 30.0,
        destination: Destination | None = None,
        then: Callable[[], None] = lambda: None,
        carried: bytes = b"",
    ) -> None:
        """Start an attempt; *then* is called after its answer is noted.

        Raises:
            AssertionError: It was answered inside ``send``, or (later) twice.
        """
        inside = True

        def done(answer: Answer) -> None:
            assert not inside, "answered inside send"
            assert number not in self.answers, "answered twice"
            self.answers[number] = answer
            self.when[number] = self.loop.time()
            then()

        to = destination or a_place()
        self.transport.send(an_event(number), to, timeout_s, done, carried=carried)
        inside = False

    async def open(self) -> ScriptedSession:
        """A session, opened by attempt 0, which was answered; with a clean record."""
        self.send(0)
        await asyncio.sleep(1.0)
        session = self.broker.sessions[-1]
        session.published.pop().answer(YES)
        return session


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop in virtual time; its first argument is a ``Bench``, closed at its end.

    Raises:
        AssertionError: Tasks are left, or the loop's exception handler was called.
    """

    @functools.wraps(test)
    def ran(*arguments: Any, **named: Any) -> None:
        loop = VirtualLoop()

        async def main() -> None:
            bench = Bench(loop)
            await test(bench, *arguments, **named)
            for session in bench.broker.sessions:
                session.goodbye = None
            await bench.transport.close()
            assert all(session.closed for session in bench.broker.sessions)

        run(main(), loop)

    # pytest must not take ``bench`` for a fixture, nor the test for a coroutine.
    del ran.__wrapped__
    signature = inspect.signature(test)
    rest = list(signature.parameters.values())[1:]
    ran.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    return ran
