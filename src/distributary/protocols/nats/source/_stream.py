r"""Reads a stream of JetStream by a durable pull consumer.

::

    pull (as many as may be unsettled) -> message -> take ... settle -> +ACK | +TERM
                                             \_ while it is not settled: +WPI (in progress)
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
"""Time without an acknowledgement or +WPI after which the server redelivers a message, also after a
crash. +WPI is sent three times as often, as long as a message is unsettled.

A run that ends sends no -NAK, which would be quicker: nats-server 2.9 then redelivers some messages
twice and others only after this time."""

UNACKNOWLEDGED_MAX: Final = 10_000
"""``max_ack_pending`` of the consumer, for all processes that share it. Each pulls no more than it
may hold; messages of a killed one count until ``ACK_WAIT_S`` is over, and must not block the
others."""

PULL_S: Final = 30
"""Expiry of one pull request; then a new one is sent."""

HEARTBEAT_S: Final = 5
"""Idle heartbeat of a pull request; a server that misses two has dropped the request."""

_SECOND: Final = 1_000_000_000
"""JetStream counts in nanoseconds."""

_SETTLEMENTS: Final = {
    Settlement.TAKEN: b"+ACK",
    Settlement.REFUSED: b"+TERM",
}
_IN_PROGRESS: Final = b"+WPI"
_CONSUMER_NOT_FOUND: Final = 10014


class StreamReading:
    """One run of a durable pull consumer of one stream.

    Args:
        talk: The connection.
        spec: What to read.
        stream: Name of the stream.
        take: Called with each message.
        unsettled_max: Limit of unsettled messages.
        clock: For heartbeats.
        reads: Called with the name of the consumer, and the part of the subject that it reads;
            empty: it reads all of it.
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
        reads: Callable[[str, str], None],
    ) -> None:
        self._talk = talk
        self._spec = spec
        self._stream = stream
        self._take = take
        self._max = unsettled_max
        self._clock = clock
        self._reads = reads
        self._durable = str(spec.options.get("durable", spec.name))
        self._inbox = talk.new_inbox()
        self._number = 0
        self._pulls: dict[str, int] = {}  # by token: messages still due
        self._unsettled: dict[str, None] = {}  # reply subjects, oldest first
        self._heard_s = 0.0

    async def read(self) -> None:
        """Read until the connection or the consumer ends.

        Raises:
            TransportError: The cause.
        """
        ack_wait_s = await self._have_consumer()
        self._talk.subscribe(f"{self._inbox}.*", self._came)
        self._heard_s = self._clock.monotonic_s()
        self._pull()
        while True:
            await self._talk.wait(min(ack_wait_s / 3, HEARTBEAT_S))
            self._report_progress()

    async def _have_consumer(self) -> float:
        """Find or create the durable consumer. Returns its ``ack_wait``, seconds."""
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
        place = self._spec.place
        # An operator's own consumer may have no filter, or read a part of the place; so does ours
        # once the place has been widened.
        found_filter = settings.get("filter_subjects") or [settings.get("filter_subject") or place]
        subjects = [str(subject) for subject in found_filter]
        read = ", ".join(subjects)[:TEXT_CHARS_MAX]
        if not all(_lies_within(subject, place) for subject in subjects):
            text = f"The consumer {self._durable} reads {read}: delete it, or set another durable"
            raise TransportError("protocol", f"{text} to read {place}")
        self._reads(self._durable, "" if place in subjects else read)
        ack_wait = settings.get("ack_wait")
        return ack_wait / _SECOND if isinstance(ack_wait, int) and ack_wait > 0 else ACK_WAIT_S

    def _pull(self) -> None:
        """Pull as many messages as the limit allows, once that is over half of it."""
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
        """Handle a message, or the status of a pull request.

        A message keeps the subject of its publisher; only a status has the inbox as its subject.
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
        """Count one message of the oldest request; requests are served in order."""
        for token, left in self._pulls.items():
            if left > 1:
                self._pulls[token] = left - 1
            else:
                del self._pulls[token]
            return

    def _status(self, token: str, headers: bytes) -> None:
        """Handle a status. 100: heartbeat. 404, 408: the request has ended. Others end the run."""
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
        self._unsettled.pop(reply, None)  # absent if redelivered meanwhile
        self._talk.publish(reply, _SETTLEMENTS[outcome])
        self._pull()

    def _report_progress(self) -> None:
        for reply in self._unsettled:
            self._talk.publish(reply, _IN_PROGRESS)
        silent_s = self._clock.monotonic_s() - self._heard_s
        if self._pulls and silent_s > 2 * HEARTBEAT_S + 1:
            text = "The server has forgotten our request for messages"
            self._talk.fail(TransportError("reset", text))


def _lies_within(subject: str, place: str) -> bool:
    """Whether *place* matches all that *subject* matches; both may have wildcards."""
    narrow, wide = subject.split("."), place.split(".")
    if wide[-1] == ">":  # one token or more
        wide.pop()
        if len(narrow) <= len(wide):
            return False
    elif len(narrow) != len(wide):
        return False
    pairs = zip(narrow, wide, strict=False)
    return all(one == other or (other == "*" and one != ">") for one, other in pairs)


def _where(reply: str, stream: str) -> str:
    """Returns stream and sequence of a message, from its reply subject (NATS ADR-15)."""
    tokens = reply.split(".")
    sequence = {9: 5, 11: 7, 12: 7}.get(len(tokens))
    return stream if sequence is None else f"{stream}@{tokens[sequence]}"
