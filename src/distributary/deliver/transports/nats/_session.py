r"""One session: publishes events, and finds the answer to each.

Called by ``BrokerTransport``. Hides JetStream and core NATS. No task and no future for an event:

::

    which stream holds the subject?  (asked once for a subject, and again after a while)
        one does  -> HPUB with a reply subject of our inbox -> PubAck, or 503        -> answer
        none does -> HPUB, and one PING behind all of this turn of the loop -> PONG  -> answer

Nobody but a stream answers a publish, so one whose subject no stream holds must not wait for an
answer: a subscriber of core NATS would take it and say nothing.
"""

import asyncio
import json
import re
from typing import Final

from distributary.clock import Clock
from distributary.deliver._connector import Connector
from distributary.deliver._destination import Destination
from distributary.deliver._session import Flight, Lost
from distributary.deliver.transports.nats import _answers, _wire
from distributary.deliver.transports.nats._connection import Connection
from distributary.errors import EventError, TransportError
from distributary.event import nats
from distributary.policy import Acknowledgement, Answer
from distributary.resource import NatsSettings

WINDOW: Final = 1_024
"""Most messages without an answer: JetStream acknowledges 20,000 a second or more, so that this is
a twentieth of a second's worth, and waiting for the disk does not make it idle."""

FLYING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most bytes without an answer, beyond one message: events of a megabyte must not make a gigabyte
of what waits to be written."""

LOOK_AGAIN_S: Final = 5.0
"""How long the answer stands which stream holds a subject: streams are made and deleted while we
run, and one question in so many seconds costs nothing."""

SUBJECTS_MAX: Final = 10_000
"""Subjects whose stream is remembered; as many as there are destinations."""

FLUSH_S_MAX: Final = 10
"""Longest time for the answer to a PING: attempts have deadlines of their own."""

_LOOK_UP: Final = "$JS.API.STREAM.NAMES"
_SUBJECT: Final = re.compile(r"[^\s\x00-\x20*>]+")


class _Holder:
    """What is known about who holds a subject.

    Attributes:
        held: Whether a stream does; None: the first answer is not there yet.
        asked_s: When it was last asked; monotonic.
        token: Of the question that has no answer yet.
        waiting: Events that wait for the first answer, in their order.
    """

    __slots__ = ("asked_s", "held", "subject", "token", "waiting")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.held: bool | None = None
        self.asked_s = 0.0
        self.token = b""
        self.waiting: list[Flight] = []


class NatsSession:
    """See ``Session``; also the listener of its connection.

    Args:
        clock: For what is asked again.
        lost: Told when the connection ends by itself.
    """

    def __init__(self, clock: Clock, lost: Lost) -> None:
        self.window = WINDOW
        self._clock = clock
        self._tell_lost = lost
        self._connection: Connection | None = None
        self._inbox = b""  # with the dot before the token; empty: not subscribed yet
        self._deaf: Acknowledgement | None = None  # why no acknowledgement can reach us
        self._may_ask = True
        self._number = 0
        self._flying: dict[bytes, tuple[Flight, int]] = {}  # by token, until the stream answers
        self._flying_bytes = 0
        self._holders: dict[str, _Holder] = {}
        self._asked: dict[bytes, _Holder] = {}
        self._unflushed: list[tuple[Flight, int]] = []
        self._flushed_next: list[tuple[Flight, int]] = []  # a PING is on its way behind these
        self._flusher: asyncio.Task[None] | None = None

    def start(self, connection: Connection) -> None:
        """Use *connection*."""
        self._connection = connection

    # -- publishing ---------------------------------------------------------------------------

    def publish(self, flight: Flight) -> None:
        """See ``Session``."""
        settings = flight.destination.settings
        assert isinstance(settings, NatsSettings)
        if settings.jetstream is False:
            self._publish_core(flight, settings.subject)
            return
        if self._deaf is not None:
            flight.answer(self._deaf)
            return
        holder = self._holders.get(settings.subject)
        if holder is None or flight.sent_s - holder.asked_s >= LOOK_AGAIN_S:
            holder = self._ask(settings.subject, flight.sent_s)
        if holder.held is None:
            self._count(_data_bytes(flight))
            holder.waiting.append(flight)
        else:
            self._publish_held(flight, settings, held=holder.held)

    def _publish_held(self, flight: Flight, settings: NatsSettings, *, held: bool) -> None:
        if held:
            self._publish_to_stream(flight, settings.subject)
        elif settings.jetstream:
            flight.answer(_answers.NO_STREAM)
        else:
            self._publish_core(flight, settings.subject)

    def _publish_to_stream(self, flight: Flight, subject: str) -> None:
        encoded = self._encode(flight, subject)
        if encoded is None:
            return
        fields, payload = encoded
        self._number += 1
        token = b"%d" % self._number
        if fields and flight.identity:
            fields += b"Nats-Msg-Id: " + flight.identity.encode() + b"\r\n"
        size = self._write(subject.encode() + b" " + self._inbox + token, fields, payload)
        self._flying[token] = flight, size
        self._count(size)

    def _publish_core(self, flight: Flight, subject: str) -> None:
        encoded = self._encode(flight, subject)
        if encoded is None:
            return
        size = self._write(subject.encode(), *encoded)
        self._unflushed.append((flight, size))
        self._count(size)
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush())

    def _encode(self, flight: Flight, subject: str) -> tuple[bytes, bytes] | None:
        """Header lines and payload; None: the flight has its answer, it cannot be sent."""
        assert self._connection is not None
        binary = flight.destination.format == "binary"
        fields, payload = (nats.encode_binary if binary else nats.encode_structured)(flight.event)
        if not self._connection.headers:
            if binary:
                flight.answer(_answers.NO_HEADERS)
                return None
            fields = b""  # JSON stands for itself
        size = len(fields) + len(payload) + _HEADER_BYTES + len(flight.identity)
        if size > self._connection.message_bytes_max:
            flight.answer(_answers.too_large(self._connection.message_bytes_max))
            return None
        if not _SUBJECT.fullmatch(subject):
            flight.answer(_answers.BAD_SUBJECT)
            return None
        return fields, payload

    def _write(self, subjects: bytes, fields: bytes, payload: bytes) -> int:
        """Send one message; its size in bytes."""
        assert self._connection is not None
        if fields:
            block = nats.VERSION_LINE + fields + b"\r\n"
            total = len(block) + len(payload)
            frame = b"HPUB %b %d %d\r\n%b%b\r\n" % (subjects, len(block), total, block, payload)
        else:
            frame = b"PUB %b %d\r\n%b\r\n" % (subjects, len(payload), payload)
        self._connection.send(frame)
        return len(frame)

    def _count(self, size: int) -> None:
        self._flying_bytes += size
        self.window = WINDOW if self._flying_bytes < FLYING_BYTES_MAX else 1

    # -- core NATS: one PING for many ---------------------------------------------------------

    async def _flush(self) -> None:
        assert self._connection is not None
        while self._unflushed:
            self._flushed_next, self._unflushed = self._unflushed, []
            flushed = await self._connection.flush(FLUSH_S_MAX)
            batch, self._flushed_next = self._flushed_next, []
            answer: Answer = _answers.FLUSHED if flushed else _NOT_FLUSHED
            for flight, size in batch:
                self._count(-size)
                flight.answer(answer)
        self._flusher = None

    # -- who holds a subject ------------------------------------------------------------------

    def _ask(self, subject: str, now_s: float) -> _Holder:
        assert self._connection is not None
        if not self._inbox:
            inbox = self._connection.new_inbox()
            self._connection.subscribe(f"{inbox}.*")
            self._inbox = f"{inbox}.".encode()
        holder = self._holders.get(subject)
        if holder is None:
            if len(self._holders) >= SUBJECTS_MAX:
                self._forget_holders()
            holder = self._holders[subject] = _Holder(subject)
        holder.asked_s = now_s
        if not self._may_ask:
            holder.held = True  # whoever answers shows it
            return holder
        self._asked.pop(holder.token, None)
        self._number += 1
        holder.token = b"%d" % self._number
        self._asked[holder.token] = holder
        question = json.dumps({"subject": subject}).encode()
        self._write(_LOOK_UP.encode() + b" " + self._inbox + holder.token, b"", question)
        return holder

    def _forget_holders(self) -> None:
        """Forget what is known, but not who waits for it."""
        self._holders = {
            subject: holder for subject, holder in self._holders.items() if holder.waiting
        }

    def _found(self, holder: _Holder, found: list[str] | Acknowledgement) -> None:
        waiting, holder.waiting = holder.waiting, []
        self._count(-sum(map(_data_bytes, waiting)))
        if isinstance(found, Acknowledgement):
            if holder.held is None:  # else what was known stands
                self._holders.pop(holder.subject, None)
            for flight in waiting:
                flight.answer(found)
            return
        holder.held = bool(found)
        for flight in waiting:
            settings = flight.destination.settings
            assert isinstance(settings, NatsSettings)
            if flight.answered:  # its time is over; this frees its place
                flight.answer(_answers.NO_STREAM)
            else:
                self._publish_safely(flight, settings, held=holder.held)

    def _publish_safely(self, flight: Flight, settings: NatsSettings, *, held: bool) -> None:
        try:
            self._publish_held(flight, settings, held=held)
        except EventError as error:
            text = f"Cannot encode: {error}"
            flight.answer(TransportError("protocol", text, retryable=False))

    # -- what the server says -----------------------------------------------------------------

    def taken(
        self, _sid: int, subject: bytes, _reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """An answer has come to our inbox; see ``Listener``."""
        token = subject[len(self._inbox) :]
        flying = self._flying.pop(token, None)
        if flying is not None:
            flight, size = flying
            self._count(-size)
            answer = _answers.of_reply(headers, payload)
            if answer is _answers.NO_RESPONDERS:
                self._forget(flight)
            flight.answer(answer)
            return
        holder = self._asked.pop(token, None)
        if holder is not None:
            self._found(holder, _answers.of_look_up(headers, payload))

    def _forget(self, flight: Flight) -> None:
        """The stream is gone: the next event asks again before it is sent."""
        settings = flight.destination.settings
        assert isinstance(settings, NatsSettings)
        holder = self._holders.get(settings.subject)
        if holder is not None and self._may_ask:
            del self._holders[settings.subject]

    def denied(self, text: str) -> None:
        """A publish or the inbox was refused; see ``Listener``."""
        answer = _answers.of_error(text)
        subject = _answers.denied_subject(text)
        inbox = self._inbox.decode().lower()
        if answer.code == _answers.SUBSCRIPTION_DENIED:
            self._be_deaf(answer)
        elif subject == _LOOK_UP.lower():
            self._ask_no_more()
        elif inbox and subject.startswith(inbox):
            self._deny(self._flying.pop(subject[len(inbox) :].encode(), None), answer)
        else:
            self._deny_oldest(subject, answer)

    def _be_deaf(self, answer: Acknowledgement) -> None:
        self._deaf = answer
        holders, self._holders = self._holders, {}
        self._asked.clear()
        for holder in holders.values():
            self._found(holder, answer)
        for token in tuple(self._flying):
            self._deny(self._flying.pop(token, None), answer)

    def _ask_no_more(self) -> None:
        """We may not ask: publish as if a stream were there, and see who answers."""
        self._may_ask = False
        asked, self._asked = self._asked, {}
        for holder in asked.values():
            self._found(holder, ["?"])

    def _deny_oldest(self, subject: str, answer: Acknowledgement) -> None:
        """One of the messages to *subject* was refused: the server reads them in their order."""
        held = [
            (token, entry)
            for token, entry in self._flying.items()
            if _subject(entry[0]).lower() == subject
        ]
        others = [
            entry
            for entry in (*self._flushed_next, *self._unflushed)
            if not entry[0].answered and _subject(entry[0]).lower() == subject
        ]
        spellings = {_subject(flight) for _, (flight, _) in held}
        spellings.update(_subject(flight) for flight, _ in others)
        if len(spellings) > 1:
            return  # nobody can tell which of them: they run out of time, and are sent again
        if held:
            self._deny(self._flying.pop(held[0][0]), answer)
        elif others:
            others[0][0].answer(answer)  # its place in the batch frees the rest

    def _deny(self, flying: tuple[Flight, int] | None, answer: Acknowledgement) -> None:
        if flying is not None:
            self._count(-flying[1])
            flying[0].answer(answer)

    # -- the end ------------------------------------------------------------------------------

    def lost(self, answer: Answer) -> None:
        """The connection has ended; see ``Listener``."""
        self._tell_lost(answer)

    async def close(self) -> None:
        """See ``Session``."""
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        if self._connection is not None:
            await self._connection.close()


def _data_bytes(flight: Flight) -> int:
    return len(flight.event.data or b"")


def _subject(flight: Flight) -> str:
    settings = flight.destination.settings
    assert isinstance(settings, NatsSettings)
    return settings.subject


_NOT_FLUSHED: Final = TransportError("timeout", "The server did not answer a PING")

_HEADER_BYTES: Final = len(nats.VERSION_LINE) + len(b"Nats-Msg-Id: \r\n\r\n")
"""What is added to the header lines of an event, beside the name of its delivery."""


async def open_session(
    connector: Connector, destination: Destination, clock: Clock, lost: Lost
) -> NatsSession | Acknowledgement:
    """A session with the server of *destination*, or what it answered to the login.

    Raises:
        TransportError: There is no connection.
    """
    session = NatsSession(clock, lost)
    connection = await _wire.connect(connector, destination, session)
    if isinstance(connection, Acknowledgement):
        return connection
    session.start(connection)
    return session
