r"""Reads a stream of JetStream by a durable pull consumer.

::

    pull (as many as may be unsettled) -> message -> take ... settle -> +ACK | +TERM
                                             \_ while it is not settled: +WPI, it is worked on
"""

import json
from collections.abc import Callable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.errors import TransportError
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX
from distributary.core.source import Message, Settlement, SourceSpec
from distributary.protocols.nats.source._talk import Talk, error_code, error_text, message_of

ACK_WAIT_S: Final = 10
"""How long the server waits for word of a message before it gives it again, which is how long
what was in hand waits after a crash. We send word three times as often, for as long as it takes.

A run that ends leaves it at that: -NAK for each would be quicker, but nats-server 2.9 then gives
some of them twice and others not before this time is over."""

UNACKNOWLEDGED_MAX: Final = 10_000
"""Messages that the server gives to all that share a consumer before one is acknowledged. Each asks
for no more than it may hold; what one held that was killed counts until ``ACK_WAIT_S`` is over, and
must not keep the others waiting."""

PULL_S: Final = 30
"""How long one request for messages stands; then the server ends it and we ask again."""

HEARTBEAT_S: Final = 5
"""The server shows so often that a request stands; one that is silent for two has forgotten it."""

_SECOND: Final = 1_000_000_000
"""JetStream counts in nanoseconds."""

_SETTLEMENTS: Final = {
    Settlement.TAKEN: b"+ACK",
    Settlement.REFUSED: b"+TERM",
}
_IN_PROGRESS: Final = b"+WPI"
_CONSUMER_NOT_FOUND: Final = 10014


class StreamReading:
    """One run over one stream.

    Args:
        talk: The connection.
        spec: What to read.
        stream: Where.
        take: Takes each message.
        unsettled_max: Most messages taken and not settled.
        clock: For what falls silent.
    """

    def __init__(
        self,
        talk: Talk,
        spec: SourceSpec,
        stream: str,
        take: Callable[[Message], None],
        *,
        unsettled_max: int,
        clock: Clock,
    ) -> None:
        self._talk = talk
        self._spec = spec
        self._stream = stream
        self._take = take
        self._max = unsettled_max
        self._clock = clock
        self._durable = str(spec.options.get("durable", spec.name))
        self._inbox = talk.new_inbox()
        self._number = 0
        self._pulls: dict[str, int] = {}  # by token: messages that are still to come
        self._unsettled: dict[str, None] = {}  # where to answer, oldest first
        self._heard_s = 0.0

    async def read(self) -> None:
        """Read until the connection or the consumer ends.

        Raises:
            TransportError: Why it has ended.
        """
        ack_wait_s = await self._have_consumer()
        self._talk.subscribe(f"{self._inbox}.*", self._came)
        self._heard_s = self._clock.monotonic_s()
        self._pull()
        while True:
            await self._talk.wait(min(ack_wait_s / 3, HEARTBEAT_S))
            self._report_progress()

    async def _have_consumer(self) -> float:
        """Have the durable consumer; how long it waits for word of a message, seconds."""
        found = await self._talk.ask(f"CONSUMER.INFO.{self._stream}.{self._durable}")
        if error_code(found) == _CONSUMER_NOT_FOUND:
            wanted = {
                "durable_name": self._durable,
                "deliver_policy": "all",
                "ack_policy": "explicit",
                "ack_wait": ACK_WAIT_S * _SECOND,
                "max_ack_pending": UNACKNOWLEDGED_MAX,
                "filter_subject": self._spec.place,
            }
            what = f"CONSUMER.DURABLE.CREATE.{self._stream}.{self._durable}"
            found = await self._talk.ask(what, {"stream_name": self._stream, "config": wanted})
        settings = found.get("config")
        if not isinstance(settings, dict):
            raise TransportError("protocol", f"No consumer {self._durable}: {error_text(found)}")
        if settings.get("deliver_subject") or settings.get("ack_policy") != "explicit":
            text = f"The consumer {self._durable} must be a pull consumer that acknowledges each"
            raise TransportError("protocol", text)
        ack_wait = settings.get("ack_wait")
        return ack_wait / _SECOND if isinstance(ack_wait, int) and ack_wait > 0 else ACK_WAIT_S

    def _pull(self) -> None:
        """Ask for as many messages as may come, once that is a good many."""
        room = self._max - len(self._unsettled) - sum(self._pulls.values())
        if room <= self._max // 2:
            return
        self._number += 1
        token = str(self._number)
        self._pulls[token] = room
        request = {
            "batch": room,
            "expires": PULL_S * _SECOND,
            "idle_heartbeat": HEARTBEAT_S * _SECOND,
        }
        self._talk.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}",
            json.dumps(request).encode(),
            f"{self._inbox}.{token}",
        )

    def _came(self, subject: str, reply: str, headers: bytes, payload: bytes) -> None:
        """A message has come, or word of the request that it names.

        A message keeps its own subject: only its request's status comes to the inbox by name.
        """
        self._heard_s = self._clock.monotonic_s()
        if not reply:
            self._status(subject.rpartition(".")[2], headers)
            return
        self._count_down()
        self._unsettled[reply] = None
        where = _where(reply, self._stream)
        self._take(message_of(headers, payload, where, lambda said: self._settle(reply, said)))
        self._pull()

    def _count_down(self) -> None:
        """One message less is to come; requests are served in their order."""
        for token, left in self._pulls.items():
            if left > 1:
                self._pulls[token] = left - 1
            else:
                del self._pulls[token]
            return

    def _status(self, token: str, headers: bytes) -> None:
        """100: the request stands. 404, 408: it has ended. Everything else ends the run."""
        line = headers.partition(b"\r\n")[0].removeprefix(b"NATS/1.0").strip()
        code = line[:3]
        if code == b"100":
            return
        self._pulls.pop(token, None)
        if code in {b"404", b"408"}:
            self._pull()
            return
        text = line.decode("latin-1")[:TEXT_CHARS_MAX]
        self._talk.fail(TransportError("reset", f"The consumer has ended: {text}"))

    def _settle(self, reply: str, outcome: Settlement) -> None:
        self._unsettled.pop(reply, None)  # a server may have given the same one twice
        self._talk.publish(reply, _SETTLEMENTS[outcome])
        self._pull()

    def _report_progress(self) -> None:
        for reply in self._unsettled:
            self._talk.publish(reply, _IN_PROGRESS)
        silent_s = self._clock.monotonic_s() - self._heard_s
        if self._pulls and silent_s > 2 * HEARTBEAT_S + 1:
            text = "The server has forgotten our request for messages"
            self._talk.fail(TransportError("reset", text))


def _where(reply: str, stream: str) -> str:
    """Stream and sequence of a message, from the subject that acknowledges it (NATS ADR-15)."""
    tokens = reply.split(".")
    sequence = {9: 5, 11: 7, 12: 7}.get(len(tokens))
    return stream if sequence is None else f"{stream}@{tokens[sequence]}"
