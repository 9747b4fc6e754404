"""Traces of publishing: the spans of receiving and appending the events of a sampled request.

Called by ``_server``, which makes connections of this kind where tracing is on; others pay
nothing. Hides how the context of a trace gets into the record: as a carried header line, so that
no byte of an event changes.
"""

import time
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from distributary.core.errors import LogError
from distributary.core.event import record as event_record
from distributary.core.event import trace_context
from distributary.core.event.trace_context import TraceContext
from distributary.core.flow import (
    TTL_DEFAULT,
    AddressedEvents,
    Received,
    RecordKind,
    decode_addressed,
    encode_carried,
)
from distributary.server.ingest._context import IngestContext, Taken
from distributary.server.ingest._pending_response import PendingResponse
from distributary.server.ingest._protocol import IngestConnection
from distributary.server.ingest._secure import SecureConnection

LEFT_TO_PARSER: Final = frozenset((trace_context.ATTRIBUTE,))
"""Attributes that no plain request has where tracing is on: so these need not be searched."""

_LOOKED_AT: Final = 16 * 1024
"""First bytes of a record in which a context is looked for: all carried lines, and the attributes
of the first event. Looking through whole bodies would cost more than the trace."""

_BITS: Final = 64
_DRAWN_LEAVES: Final = 11  # bits of these that a draw leaves 0: it has 53
_NAME: Final = b"traceparent"
_CARRIED: Final = RecordKind.CARRIED
_append, _settle = PendingResponse.append, PendingResponse.settle  # ``super`` takes three calls
_MESSAGES_OF: Final = "messaging.batch.message_count"


class RecordSpan(Protocol):
    """Records a span of one kind that has ended: ``net.otlp.spans.Spans.add``."""

    def __call__(
        self,
        context: TraceContext,
        parent: TraceContext | None,
        times_ns: tuple[int, int],
        attributes: dict[str, Any],
        *,
        links: Sequence[TraceContext] = (),
        error: str | None = None,
    ) -> None: ...


class Publishing(NamedTuple):
    """A sampled request.

    Attributes:
        received: Its events, with the context of ``append``.
        parent: The publisher's span; None: the trace begins here.
        receive: The span of the whole request.
        append: The span of its append, the parent of each attempt.
        links: Contexts that its events bring from other traces.
        attributes: Of the span ``receive``.
    """

    received: Received
    parent: TraceContext | None
    receive: TraceContext
    append: TraceContext
    links: list[TraceContext]
    attributes: dict[str, Any]


class PublishTracing:
    """Decides which requests are traced: those whose publisher traces them, and a share of others.

    Args:
        receive: Records the span of a request.
        append: Records the span of its append.
        ratio: Share of requests without a context that begin a trace, from 0 to 1.
        random: Draws it, and ids of spans.

    Source:
        OpenTelemetry, sampling: parent-based, by trace id; the draw is the lower half of the id,
        so that other services with this sampler choose alike.
    """

    def __init__(
        self, receive: RecordSpan, append: RecordSpan, ratio: float, random: Random
    ) -> None:
        self.receive = receive
        self.append = append
        self.ratio = ratio
        self.draw = random.random
        self._bits = random.getrandbits

    def begin(self, received: Received) -> Publishing | None:
        """The trace of *received*, by what its request or its first event brings; None: none."""
        if received.body.find(_NAME, 0, _LOOKED_AT) < 0:
            drawn = self.draw()
            return None if drawn >= self.ratio else self.begin_root(received, drawn)
        held = _events(received)
        parent = trace_context.of_lines(held.carried)
        if parent is None:
            parent = trace_context.of_text(held.events[0].text(trace_context.ATTRIBUTE))
        drawn = self.draw() if parent is None else 0.0
        if drawn >= self.ratio if parent is None else not parent.sampled:
            return None
        return self._begin(received, held, parent, drawn)

    def begin_root(self, received: Received, drawn: float) -> Publishing:
        """A new trace of *received*, which brings none, as *drawn* from 0 to 1."""
        return self._begin(received, _events(received), None, drawn)

    def _begin(
        self,
        received: Received,
        held: AddressedEvents,
        parent: TraceContext | None,
        drawn: float,
    ) -> Publishing:
        if parent is None:
            lower = int(drawn * (1 << _BITS)) | self._bits(_DRAWN_LEAVES)
            trace_id = self._id() << _BITS | lower
        else:
            trace_id = parent.trace_id
        receive = TraceContext(trace_id, self._id(), sampled=True)
        append = TraceContext(trace_id, self._id(), sampled=True)
        lines = trace_context.replaced(held.carried, append)
        record = _record_of(received, held)
        carried = Received(
            encode_carried(held.address, held.ttls, record, lines),
            received.event_count,
            received.partition_key,
            RecordKind.CARRIED,
            received.by,
        )
        found = [trace_context.of_text(e.text(trace_context.ATTRIBUTE)) for e in held.events]
        links = dict.fromkeys(one for one in found if one and one.trace_id != trace_id)
        attributes = _described(held)
        return Publishing(carried, parent, receive, append, list(links), attributes)

    def _id(self) -> int:
        return self._bits(_BITS) or 1


def _events(received: Received) -> AddressedEvents:
    if received.kind is not RecordKind.EVENTS:
        return decode_addressed(received.body)
    events = event_record.decode(received.body)
    return AddressedEvents("", (TTL_DEFAULT,) * len(events), events)


def _record_of(received: Received, held: AddressedEvents) -> bytes:
    """The events as they are encoded in *received*: their bytes stay."""
    if received.kind is RecordKind.EVENTS:
        return received.body
    return event_record.encode(held.events)


def _described(held: AddressedEvents) -> dict[str, Any]:
    """Attributes of a span, of the first event.

    Source:
        OpenTelemetry semantic conventions for CloudEvents and for messaging.
    """
    event = held.events[0]
    found: dict[str, Any] = {
        f"cloudevents.event_{name}": event.text(name) or "" for name in ("id", "source", "type")
    }
    if len(held.events) > 1:
        found[_MESSAGES_OF] = len(held.events)
    if held.address:
        found["distributary.address"] = held.address
    return found


class TracedResponse(PendingResponse):
    """The response to a publishing request that may be traced."""

    __slots__ = ("_began", "_publishing")

    tracing: ClassVar[PublishTracing]
    _publishing: Publishing | None
    _began: tuple[int, int]

    def append(self, context: IngestContext, taken: Taken, since_s: float) -> None:
        """As for others, in plain form: nearly all cost a draw and no more."""
        tracing, received = self.tracing, taken[0]
        if received.kind is _CARRIED:
            publishing = tracing.begin(received)
        else:
            drawn = tracing.draw()
            if drawn >= tracing.ratio:
                self._publishing = None
                _append(self, context, taken, since_s)
                return
            publishing = tracing.begin_root(received, drawn)
        self._append_traced(publishing, context, taken, since_s)

    def append_parsed(self, context: IngestContext, taken: Taken, since_s: float) -> None:
        """As for others; an event may bring a context."""
        self._append_traced(self.tracing.begin(taken[0]), context, taken, since_s)

    def _append_traced(
        self, publishing: Publishing | None, context: IngestContext, taken: Taken, since_s: float
    ) -> None:
        self._publishing = publishing
        if publishing is not None:
            taken = (publishing.received, *taken[1:])
            now_ns = time.time_ns()
            self._began = now_ns - int((context.now_s() - since_s) * 1e9), now_ns
        _append(self, context, taken, since_s)

    def settle(self, result: int | LogError | None) -> None:
        """As for others; records the spans."""
        _settle(self, result)
        publishing = self._publishing
        if publishing is None:
            return
        received_ns, append_ns = self._began
        end_ns = time.time_ns()
        tracing, reason = self.tracing, result.code if isinstance(result, LogError) else None
        _, parent, receive, append, links, attributes = publishing
        tracing.append(append, receive, (append_ns, end_ns), {}, error=reason)
        times_ns = received_ns, end_ns
        if reason is not None:
            attributes["error.type"] = reason
        tracing.receive(receive, parent, times_ns, attributes, links=links, error=reason)


def traced_connections(
    publishing: PublishTracing,
) -> tuple[type[IngestConnection], type[SecureConnection]]:
    """Returns the classes of connections whose requests may be traced: plain, and by TLS."""

    class Response(TracedResponse):
        __slots__ = ()
        tracing = publishing

    class Plain(IngestConnection):
        __slots__ = ()
        response = Response

    class Secure(SecureConnection):
        __slots__ = ()
        response = Response

    return Plain, Secure
