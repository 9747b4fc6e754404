r"""The ``Session`` of a ``BrokerTransport`` over one NATS connection.

Hides JetStream and core NATS. An event costs no task and no future:

::

    which stream holds the subject?  (cached, see ``_holders``)
        one does  -> HPUB with a reply subject of our inbox -> PubAck, or 503        -> answer
        none does -> HPUB, and one PING after all of this loop iteration    -> PONG  -> answer

Only a stream replies to a publish. So without a stream for the subject no reply is awaited:
subscribers of core NATS send none.
"""

import asyncio
import itertools
import json
import operator
import re
from typing import Final, TypeAlias

from distributary.core.clock import Clock
from distributary.core.errors import EventError, TransportError
from distributary.core.event import Event
from distributary.core.policy import Acknowledgement, Answer
from distributary.net.link import Flight, Lost
from distributary.protocols.nats import binding as nats
from distributary.protocols.nats.settings import NatsSettings
from distributary.protocols.nats.sink import _answers
from distributary.protocols.nats.sink._connection import NatsConnection
from distributary.protocols.nats.sink._holders import DENIED_S, Holder, Holders

WINDOW: Final = 1_024
"""Messages in flight: JetStream acknowledges 20,000 a second or more, so this is a twentieth of a
second's worth, and it stays busy while it waits for its disk."""

FLYING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes in flight, beyond one message: events of a megabyte must not make a write buffer of a
gigabyte."""

FLUSH_S_MAX: Final = 10
"""Longest wait for the PONG after messages; without it the connection is ended."""

LOOK_UP_S_MAX: Final = 2.0
"""Longest wait for a lookup at a server that supports no headers, seconds: it does not say that
nobody answers. Such a server, unless it says that it has JetStream, then counts as one without; a
stream that answers later is used from then on."""

_HEADERS_BYTES_MAX: Final = 65_535
"""Longest header block that a stream takes: its length has two bytes there."""

_LOOK_UP: Final = "$JS.API.STREAM.NAMES"
_SUBJECT: Final = re.compile(r"[^\s\x00-\x20*>]+")


_Sent: TypeAlias = tuple[int, Flight, int]
"""A message in flight: its number in the order of sending, the event, its bytes."""


class NatsSession:
    """A ``Session``, and the listener of its connection.

    Args:
        clock: Tells when the server denied something.
        lost: Called when the connection is lost.
    """

    def __init__(self, clock: Clock, lost: Lost) -> None:
        self.window = WINDOW
        self._clock = clock
        self._tell_lost = lost
        self._connection: NatsConnection | None = None
        self._inbox = b""  # with the dot before the token; empty: not subscribed yet
        self._deaf: Acknowledgement | None = None  # refusal of the inbox: no reply can reach us
        self._denied_s = 0.0  # when it came
        self._number = 0  # of the latest message
        self._flying: dict[bytes, _Sent] = {}  # by token, until the stream answers
        self._flying_bytes = 0
        self._holders = Holders(self._ask)
        self._unflushed: list[_Sent] = []
        self._flushed_next: list[_Sent] = []  # followed by a PING in flight
        self._flusher: asyncio.Task[None] | None = None
        self._over = False

    def start(self, connection: NatsConnection) -> None:
        """Use *connection*."""
        self._connection = connection

    # -- publishing ---------------------------------------------------------------------------

    def publish(self, flight: Flight) -> None:
        settings = flight.destination.settings
        assert isinstance(settings, NatsSettings)
        if settings.jetstream is False:
            self._publish_core(flight, settings.subject)
            return
        if self._deaf is not None:
            if flight.sent_s - self._denied_s < DENIED_S:
                flight.answer(self._deaf)
                return
            self._deaf, self._inbox, self._holders = None, b"", Holders(self._ask)
        holder = self._holders.of(settings.subject, flight.sent_s)
        if holder.held is None or holder.old:
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
        self._number += 1
        token = b"%d" % self._number
        subjects = subject.encode() + b" " + self._inbox + token
        size = self._write_event(flight, subjects, flight.identity)
        if size:
            self._flying[token] = self._number, flight, size

    def _publish_core(self, flight: Flight, subject: str) -> None:
        size = self._write_event(flight, subject.encode())
        if not size:
            return
        self._number += 1
        self._unflushed.append((self._number, flight, size))
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush())

    def _write_event(self, flight: Flight, subjects: bytes, identity: str = "") -> int:
        """Send an event. Returns its bytes; 0: it cannot be sent, and was answered."""
        assert self._connection is not None
        binary = flight.destination.format == "binary"
        if binary and not self._connection.headers:
            flight.answer(_answers.NO_HEADERS)
            return 0
        block, payload = self._encoded(flight.event, identity, binary=binary)
        bytes_max = self._connection.message_bytes_max
        if len(block) + len(payload) > bytes_max:
            flight.answer(_answers.too_large(bytes_max))
            return 0
        if not _SUBJECT.fullmatch(_subject(flight)):
            flight.answer(_answers.BAD_SUBJECT)
            return 0
        self._connection.expect()
        size = self._write(subjects, block, payload)
        self._count(size)
        return size

    def _encoded(self, event: Event, identity: str, *, binary: bool) -> tuple[bytes, bytes]:
        """The header block and the payload of a message; structured if the block is too long."""
        assert self._connection is not None
        fields, payload = (nats.encode_binary if binary else nats.encode_structured)(event)
        if not self._connection.headers:
            return b"", payload  # the JSON payload is sufficient
        if identity:
            fields += b"Nats-Msg-Id: " + identity.encode() + b"\r\n"
        block = nats.VERSION_LINE + fields + b"\r\n"
        if binary and len(block) > _HEADERS_BYTES_MAX:
            return self._encoded(event, identity, binary=False)
        return block, payload

    def _write(self, subjects: bytes, block: bytes, payload: bytes) -> int:
        """Send one message, with a header block or without. Returns its bytes."""
        assert self._connection is not None
        if block:
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
            for _, flight, size in batch:
                self._count(-size)
                flight.answer(answer)
            if not flushed:
                # A late PONG must not be taken for that of a later PING.
                self._tell_lost(_NOT_FLUSHED)
                return
        self._flusher = None

    # -- who holds a subject ------------------------------------------------------------------

    def _ask(self, subject: str) -> bytes:
        """Send the lookup of *subject*; see ``Holders``."""
        assert self._connection is not None
        if not self._inbox:
            inbox = self._connection.new_inbox()
            self._connection.subscribe(f"{inbox}.*")
            self._inbox = f"{inbox}.".encode()
        self._number += 1
        self._connection.expect()
        token = b"%d" % self._number
        question = json.dumps({"subject": subject}).encode()
        self._write(_LOOK_UP.encode() + b" " + self._inbox + token, b"", question)
        if not self._connection.headers and not self._connection.jetstream:
            loop = asyncio.get_running_loop()
            loop.call_later(LOOK_UP_S_MAX, self._unanswered, token)
        return token

    def _unanswered(self, token: bytes) -> None:
        holder = None if self._over else self._holders.unanswered(token)
        if holder is not None:
            self._found(holder, [])

    def _found(self, holder: Holder, found: list[str] | Acknowledgement) -> None:
        """Publish the events that waited for the lookup, before any newer ones."""
        if isinstance(found, Acknowledgement):
            if holder.held is None:
                self._holders.forget(holder.subject)
                while holder.waiting:
                    flight = holder.waiting.popleft()
                    self._count(-_data_bytes(flight))
                    flight.answer(found)
                return
            held = holder.held  # keep the older result
        else:
            held = bool(found)
        while holder.waiting:
            flight = holder.waiting.popleft()
            self._count(-_data_bytes(flight))
            if flight.answered:  # timed out; this frees its place
                flight.answer(_answers.NO_STREAM)
            else:
                self._publish_safely(flight, held=held)
        holder.held = held
        holder.old = False
        holder.known_s = holder.asked_s

    def _publish_safely(self, flight: Flight, *, held: bool) -> None:
        settings = flight.destination.settings
        assert isinstance(settings, NatsSettings)
        try:
            self._publish_held(flight, settings, held=held)
        except EventError as error:
            text = f"Cannot encode: {error}"
            flight.answer(TransportError("protocol", text, retryable=False))

    # -- NatsListener -------------------------------------------------------------------------

    def taken(
        self, _sid: int, subject: bytes, _reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Handle a reply in our inbox; see ``NatsListener``."""
        token = subject[len(self._inbox) :]
        sent = self._flying.pop(token, None)
        if sent is not None:
            answer = _answers.of_reply(headers, payload)
            if answer is _answers.NO_RESPONDERS:  # the stream was deleted
                self._holders.forget(_subject(sent[1]))
            self._answer(sent, answer)
            return
        holder = self._holders.answered(token)
        if holder is None:
            self._unasked()
        else:
            self._found(holder, _answers.of_look_up(headers, payload))

    def denied(self, text: str) -> None:
        """Handle the refusal of a publish or of the inbox; see ``NatsListener``."""
        answer = _answers.of_error(text)
        subject = _answers.denied_subject(text)
        inbox = self._inbox.decode()
        if answer.code == _answers.SUBSCRIPTION_DENIED:
            self._unasked()
            self._be_deaf(answer)
        elif subject == _LOOK_UP:
            self._unasked()
            for holder in self._holders.ask_no_more(self._clock.monotonic_s()):
                self._found(holder, ["?"])  # publish, and wait for a reply or 503
        elif inbox and subject.startswith(inbox):
            sent = self._flying.pop(subject[len(inbox) :].encode(), None)
            if sent is None:
                self._unasked()
            else:
                self._answer(sent, answer)
        else:
            self._deny_oldest(subject, answer)

    def _unasked(self) -> None:
        assert self._connection is not None
        self._connection.unasked()

    def _be_deaf(self, answer: Acknowledgement) -> None:
        self._deaf, self._denied_s = answer, self._clock.monotonic_s()
        for holder in self._holders.clear():
            holder.held = None  # what it says is of no use without acknowledgements
            self._found(holder, answer)
        flying, self._flying = self._flying, {}
        for sent in flying.values():
            self._answer(sent, answer)

    def _deny_oldest(self, subject: str, answer: Acknowledgement) -> None:
        """Answer the oldest message to *subject*, which was refused: the server reads in order."""
        everywhere = itertools.chain(self._flying.values(), self._flushed_next, self._unflushed)
        there = [sent for sent in everywhere if _subject(sent[1]) == subject]
        if not there:
            self._unasked()
            return
        sent = min(there, key=operator.itemgetter(0))
        self._flying.pop(b"%d" % sent[0], None)
        for batch in (self._flushed_next, self._unflushed):
            if sent in batch:
                batch.remove(sent)
        self._answer(sent, answer)

    def _answer(self, sent: _Sent, answer: Answer) -> None:
        _, flight, size = sent
        self._count(-size)
        flight.answer(answer)

    # -- the end ------------------------------------------------------------------------------

    def lost(self, answer: Answer) -> None:
        """Called when the connection was lost; see ``NatsListener``."""
        self._over = True
        self._tell_lost(answer)

    async def close(self) -> None:
        self._over = True
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        if self._connection is not None:
            await self._connection.close()


def _data_bytes(flight: Flight) -> int:
    return flight.event.data_bytes()


def _subject(flight: Flight) -> str:
    settings = flight.destination.settings
    assert isinstance(settings, NatsSettings)
    return settings.subject


_NOT_FLUSHED: Final = TransportError("timeout", "The server did not answer a PING")
