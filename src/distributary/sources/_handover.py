"""Publishes messages of a broker to the receiver, each until it is stored or refused.

Called by ``_source``, one for each source. Hides what the receiver's responses mean, the window of
requests in flight, and the backoff while the receiver is unavailable. Runs on one event loop, with
callbacks.

==================================================  ==============================================
result of a message                                 then
==================================================  ==============================================
it is no event, or larger than the receiver takes   ``REFUSED``
2xx: the log has the event                          ``TAKEN``
400, 413, 415, and 431 in structured mode           ``REFUSED``: a retry would not help
431 in binary mode                                  the same event at once, in structured mode
any other response (404: no such Broker now or      after a pause, the same event again; late
yet; 429, 503), or none                             settlements make the broker send less
                                                    meanwhile
==================================================  ==============================================
"""

import dataclasses
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from distributary.core.deliver import Answer, Destination, TimerHandle, Timers, Transport, signed
from distributary.core.errors import EventError, Fault, TransportError
from distributary.core.event import Event, content, json_format
from distributary.core.policy import Reply
from distributary.core.source import Message, Settlement

IN_FLIGHT_MAX: Final = 64
"""Requests of one source in flight at the receiver. They share the log's commits; a hundred would
not be stored any faster."""

PUBLISH_S_MAX: Final = 30.0
"""Longest wait for the receiver's response, which comes once the event is on disk; the same as for
an attempt of a delivery (decision 21, defaults). A retried event may be in the log twice."""

PAUSE_S_FIRST: Final = 0.1
"""First pause, doubled up to ``PAUSE_S_MAX``: most refusals are of one busy moment."""
PAUSE_S_MAX: Final = 5.0
"""Backoff while the receiver is unavailable, doubled each time: it is on this machine and back
within a second after a restart; a missing Broker may be created any minute."""

_REFUSED: Final = frozenset({400, 413, 415})
_HEADERS_TOO_LARGE: Final = 431
_FORBIDDEN: Final = 403
_BY_POLICY: Final = b'"code":"policy"'
"""In the receiver's answer where filters of EventPolicies refuse the event itself. Any other 403 is
about the source, which may be allowed again."""
_FAULTS_TOLD_MAX: Final = 5


class Watcher(Protocol):
    """Callbacks for metrics and log lines."""

    def taken(self) -> None:
        """Called when the log has an event."""

    def refused(self, message: Message, why: str) -> None:
        """Called when a message was refused for good; *why* holds nothing of its content."""

    def retried(self, why: str) -> None:
        """Called when the receiver did not store an event; it will be sent again."""


@dataclass(slots=True, order=True)
class _Pending:
    """A message that is not settled yet, ordered by arrival."""

    number: int
    run: int = field(compare=False)
    message: Message = field(compare=False)
    event: Event = field(compare=False)
    structured: bool = field(compare=False)


class Handover:
    """Publishes the messages of one source to one path of the receiver.

    Order is not kept: events are sent as they arrive, up to ``IN_FLIGHT_MAX`` at a time, and the
    receiver spreads them over its partitions.

    Args:
        transport: HTTP.
        uri: Publish events to this URI, on this machine.
        dial: Where that is; see ``Destination``.
        body_bytes_max: Largest body that the receiver accepts.
        timers: For pauses.
        watcher: Called for metrics and log lines.
        token: Shows the receiver on whose behalf events are published.
    """

    def __init__(
        self,
        transport: Transport,
        uri: str,
        body_bytes_max: int,
        timers: Timers,
        watcher: Watcher,
        *,
        token: str = "",
        dial: str | None = None,
    ) -> None:
        self._transport = transport
        self._body_bytes_max = body_bytes_max
        self._binary = signed(Destination(uri=uri, dial=dial, own=True), token)
        self._structured = dataclasses.replace(self._binary, format="structured")
        self._timers = timers
        self._watcher = watcher
        self._numbers = itertools.count()
        self._waiting: list[_Pending] = []  # a heap: earlier messages first, when retried
        self._run = 0
        self._pause_s = PAUSE_S_FIRST
        self._pause: TimerHandle | None = None
        self._closed = False
        self.in_flight = 0
        """Requests in flight."""
        self.idle: Callable[[], None] = lambda: None
        """Called when the last request in flight ends."""

    @property
    def waiting(self) -> int:
        """Messages in the queue."""
        return len(self._waiting)

    def take(self, message: Message) -> None:
        """Publish *message*, and settle it by the result."""
        event = message.event
        if event is None:
            assert message.fault is not None
            self._refuse(message, _told(message.fault.faults))
            return
        structured = content.is_an_event(event) or (
            _has_types(event) and self._fits(event, structured=True)
        )
        if not self._fits(event, structured=structured):
            self._refuse(message, self._too_large)
            return
        pending = _Pending(next(self._numbers), self._run, message, event, structured)
        heapq.heappush(self._waiting, pending)
        self._pump()

    def forget(self) -> None:
        """Drop all messages when the consumer has ended; the broker redelivers them.

        Requests in flight continue, but do not settle their messages.
        """
        self._run += 1
        self._waiting.clear()

    def close(self) -> None:
        """Stop sending; requests in flight still settle their messages."""
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
            return  # the broker redelivers it
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
        """Whether the receiver accepts a body of that size.

        Checked before sending: on a larger body the receiver closes the connection, perhaps before
        its response was read.
        """
        try:
            body = json_format.encode(event) if structured else event.data
        except EventError:  # not made by a decoder; the transport reports why it cannot be sent
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
    """Whether binary mode would lose types of *event*: headers hold strings only."""
    return not all(type(value) is str for value in event.attributes.values())


def _too_long_for_headers(answer: Answer) -> bool:
    return isinstance(answer, Reply) and answer.status == _HEADERS_TOO_LARGE


def _refuses(answer: Answer) -> bool:
    """Whether the receiver would refuse the same event again."""
    if isinstance(answer, Reply):
        by_policy = answer.status == _FORBIDDEN and _BY_POLICY in answer.body
        return by_policy or answer.status in _REFUSED or answer.status == _HEADERS_TOO_LARGE
    assert isinstance(answer, TransportError)
    return _is_of_the_event(answer)


def _is_of_the_event(error: TransportError) -> bool:
    """Whether the event cannot be encoded; any other error is the receiver's and drops nothing."""
    return error.reason == "protocol" and not error.retryable


def _said(answer: Answer) -> str:
    """Describes the receiver's response, without content of the event."""
    if isinstance(answer, Reply):
        return f"the receiver answered {answer.status}"
    assert isinstance(answer, TransportError)
    if _is_of_the_event(answer):
        return "it cannot be sent"
    return f"no answer from the receiver: {answer.reason}"


def _told(faults: tuple[Fault, ...]) -> str:
    """Paths and codes of *faults*, without their messages, which may repeat content."""
    told = ", ".join(f"{fault.path} {fault.code}" for fault in faults[:_FAULTS_TOLD_MAX])
    more = len(faults) - _FAULTS_TOLD_MAX
    return f"no event: {told}" + (f" and {more} more" if more > 0 else "")
