"""Messages of a broker to the receiver: each until the log has it, or until it is refused.

Called by ``_source``, one for each source. Hides what the receiver's answers mean, the window of
requests under way, and the pause while the receiver takes nothing. Runs on one event loop and by
callbacks.

==================================================  ==============================================
what comes of a message                             then
==================================================  ==============================================
it is no event, or larger than the receiver takes   ``REFUSED``
2xx: the log has the event                          ``TAKEN``
400, 413, 415, and 431 in structured mode           ``REFUSED``: it would be refused again
431 in binary mode                                  the same event at once, in structured mode
any other answer (404: there is no such Broker now  nothing is sent for a pause, then the same
or yet; 429, 503), or none                          event again: the broker gets its messages
                                                    settled late, and gives fewer
==================================================  ==============================================
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from distributary.core.deliver import Answer, Destination, TimerHandle, Timers, Transport
from distributary.core.errors import EventError, Fault, TransportError
from distributary.core.event import Event, json_format
from distributary.core.policy import Reply
from distributary.core.source import Message, Settlement

IN_FLIGHT_MAX: Final = 64
"""Requests of one source under way at the receiver: the log's commits are shared by what is under
way, and a hundred of them would not be taken any faster."""

PUBLISH_S_MAX: Final = 30.0
"""Longest wait for the receiver's answer, which comes when the disk has the event: as the attempts
of deliveries (decision 21). What is sent again may be in the log twice."""

PAUSE_S_FIRST: Final = 0.1
PAUSE_S_MAX: Final = 5.0
"""Pauses while the receiver takes nothing, doubled each time: it is on this machine, and back
within a second after a restart; a Broker that is not there may be made any minute."""

_REFUSED: Final = frozenset({400, 413, 415})
_HEADERS_TOO_LARGE: Final = 431
_CLOUDEVENTS: Final = "application/cloudevents"
_FAULTS_TOLD_MAX: Final = 5


class Watcher(Protocol):
    """Is told what happens, to count it and to tell people."""

    def taken(self) -> None:
        """The log has an event."""

    def refused(self, message: Message, why: str) -> None:
        """A message was refused for good; *why* holds nothing of its content."""

    def retried(self, why: str) -> None:
        """The receiver did not take an event that will be sent again."""


@dataclass(slots=True, order=True)
class _Pending:
    """A message that is not settled; earlier ones are less."""

    number: int
    run: int = field(compare=False)
    message: Message = field(compare=False)
    event: Event = field(compare=False)
    structured: bool = field(compare=False)


class Handover:
    """Takes the messages of one source to one path of the receiver.

    Events are sent in the order of their arrival, ``IN_FLIGHT_MAX`` at a time, so they may
    overtake each other, and the receiver spreads them over its partitions: no order is promised.

    Args:
        transport: HTTP.
        uri: Where events are published at; on this machine.
        body_bytes_max: Largest body that the receiver takes.
        timers: For pauses.
        watcher: Is told what happens.
    """

    def __init__(
        self,
        transport: Transport,
        uri: str,
        body_bytes_max: int,
        timers: Timers,
        watcher: Watcher,
    ) -> None:
        self._transport = transport
        self._body_bytes_max = body_bytes_max
        self._binary = Destination(uri=uri, own=True)
        self._structured = Destination(uri=uri, own=True, format="structured")
        self._timers = timers
        self._watcher = watcher
        self._numbers = itertools.count()
        self._waiting: list[_Pending] = []  # a heap: what comes back from the receiver goes first
        self._run = 0
        self._pause_s = PAUSE_S_FIRST
        self._pause: TimerHandle | None = None
        self._closed = False
        self.in_flight = 0
        """Requests under way."""
        self.idle: Callable[[], None] = lambda: None
        """Called when no request is under way any more."""

    @property
    def waiting(self) -> int:
        """Messages that wait to be sent."""
        return len(self._waiting)

    def take(self, message: Message) -> None:
        """Settle *message* once it is known what becomes of it."""
        event = message.event
        if event is None:
            assert message.fault is not None
            self._refuse(message, _told(message.fault.faults))
            return
        structured = _is_misread_in_binary(event) or (
            _has_types(event) and self._fits(event, structured=True)
        )
        if not self._fits(event, structured=structured):
            self._refuse(message, self._too_large)
            return
        pending = _Pending(next(self._numbers), self._run, message, event, structured)
        heapq.heappush(self._waiting, pending)
        self._pump()

    def forget(self) -> None:
        """The run that gave the messages is over: the broker gives them again.

        Requests under way go on, but nobody is told what comes of them.
        """
        self._run += 1
        self._waiting.clear()

    def close(self) -> None:
        """Send nothing any more; requests under way are settled as they end."""
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _pump(self) -> None:
        while (
            self._waiting
            and self.in_flight < IN_FLIGHT_MAX
            and self._pause is None
            and not self._closed
        ):
            self._send(heapq.heappop(self._waiting))

    def _send(self, pending: _Pending) -> None:
        self.in_flight += 1
        destination = self._structured if pending.structured else self._binary

        def answered(answer: Answer) -> None:
            self.in_flight -= 1
            self._answered(pending, answer)
            self._pump()
            if not self.in_flight:
                self.idle()

        self._transport.send(pending.event, destination, PUBLISH_S_MAX, answered)

    def _answered(self, pending: _Pending, answer: Answer) -> None:
        if isinstance(answer, Reply) and 200 <= answer.status < 300:
            self._pause_s = PAUSE_S_FIRST
            self._watcher.taken()
            if pending.run == self._run:
                pending.message.settle(Settlement.TAKEN)
        elif pending.run != self._run:
            return  # the broker gives it again
        elif _too_long_for_headers(answer) and not pending.structured:
            self._in_json(pending)
        elif _refuses(answer):
            self._refuse(pending.message, _said(answer))
        else:
            heapq.heappush(self._waiting, pending)
            self._wait(answer)

    def _in_json(self, pending: _Pending) -> None:
        if self._fits(pending.event, structured=True):
            pending.structured = True
            heapq.heappush(self._waiting, pending)
        else:
            self._refuse(pending.message, self._too_large)

    def _fits(self, event: Event, *, structured: bool) -> bool:
        """Whether the receiver takes a body of that size.

        Asked before, since it ends the connection of one that goes on sending too much, perhaps
        before its answer was read.
        """
        try:
            body = json_format.encode(event) if structured else event.data
        except EventError:  # no event of a decoder; the transport says why it cannot be sent
            return True
        return body is None or len(body) <= self._body_bytes_max

    @property
    def _too_large(self) -> str:
        return f"larger than {self._body_bytes_max:,} bytes (event_bytes_max)"

    def _refuse(self, message: Message, why: str) -> None:
        self._watcher.refused(message, why)
        message.settle(Settlement.REFUSED)

    def _wait(self, answer: Answer) -> None:
        self._watcher.retried(_said(answer))
        if self._pause is not None or self._closed:
            return

        def go_on() -> None:
            self._pause = None
            self._pump()

        self._pause = self._timers.call_later(self._pause_s, go_on)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)


def _has_types(event: Event) -> bool:
    """Whether headers would not say all of *event*: they have strings alone."""
    return not all(type(value) is str for value in event.attributes.values())


def _is_misread_in_binary(event: Event) -> bool:
    """Whether headers would say something else.

    Where the data are an event themselves, their content type says structured mode.
    """
    return str(event.attributes.get("datacontenttype", "")).lower().startswith(_CLOUDEVENTS)


def _too_long_for_headers(answer: Answer) -> bool:
    return isinstance(answer, Reply) and answer.status == _HEADERS_TOO_LARGE


def _refuses(answer: Answer) -> bool:
    """Whether the receiver would say the same to the same event again."""
    if isinstance(answer, Reply):
        return answer.status in _REFUSED or answer.status == _HEADERS_TOO_LARGE
    assert isinstance(answer, TransportError)
    return _is_of_the_event(answer)


def _is_of_the_event(error: TransportError) -> bool:
    """Whether it cannot be written; all else is of the receiver, and no reason to drop anything."""
    return error.reason == "protocol" and not error.retryable


def _said(answer: Answer) -> str:
    """What the receiver said, without what it repeats of the event."""
    if isinstance(answer, Reply):
        return f"the receiver answered {answer.status}"
    assert isinstance(answer, TransportError)
    if _is_of_the_event(answer):
        return "it cannot be sent"
    return f"no answer of the receiver: {answer.reason}"


def _told(faults: tuple[Fault, ...]) -> str:
    """Places and kinds of *faults*: their messages may repeat what the sender wrote."""
    told = ", ".join(f"{fault.path} {fault.code}" for fault in faults[:_FAULTS_TOLD_MAX])
    more = len(faults) - _FAULTS_TOLD_MAX
    return f"no event: {told}" + (f" and {more} more" if more > 0 else "")
