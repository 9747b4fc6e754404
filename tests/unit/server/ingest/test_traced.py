"""Traces of publishing: who begins one, what is recorded, and that no event changes."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from distributary.core.clock import SystemClock
from distributary.core.errors import LogError
from distributary.core.event import Event, trace_context
from distributary.core.event import record as event_record
from distributary.core.event.trace_context import TraceContext
from distributary.core.flow import Logged, Received, RecordKind, events_of
from distributary.protocols.http.plain import PlainRequests
from distributary.server.ingest import IngestSettings, PublishTracing
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._received import received
from distributary.server.ingest._traced import LEFT_TO_PARSER, traced_connections

OUTSIDE = TraceContext(0xAAAA, 0xBB, sampled=True)
OTHER = TraceContext(0xCCCC, 0xDD, sampled=True)


def _text(context: TraceContext) -> str:
    return context.line().decode().partition(": ")[2].strip()


def _event(number: int = 1, **more: str) -> Event:
    return Event(
        {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", **more}, b"d"
    )


def _tracing(ratio: float) -> PublishTracing:
    def record(*_arguments: Any, **_more: Any) -> None:
        pytest.fail("nothing has ended")

    return PublishTracing(record, record, ratio, Random(7))


def _held(made: Received) -> Any:
    return events_of(Logged(0, 0, 0, made.kind, made.body))


@pytest.mark.parametrize(
    ("ratio", "header", "attribute", "traced"),
    [
        pytest.param(0.0, None, None, False, id="none begun"),
        pytest.param(1.0, None, None, True, id="all begun"),
        pytest.param(0.0, OUTSIDE, None, True, id="the publisher traces it"),
        pytest.param(1.0, OUTSIDE._replace(sampled=False), None, False, id="or does not"),
        pytest.param(0.0, None, OUTSIDE, True, id="by the extension"),
        pytest.param(1.0, None, OUTSIDE._replace(sampled=False), False, id="or not"),
        pytest.param(0.0, OUTSIDE._replace(sampled=False), OTHER, False, id="the header counts"),
    ],
)
def test_who_is_traced(
    ratio: float, header: TraceContext | None, attribute: TraceContext | None, traced: bool
) -> None:
    """Whoever sends a context has decided; else the ratio does."""
    event = _event() if attribute is None else _event(traceparent=_text(attribute))
    lines = b"" if header is None else header.line()
    found = _tracing(ratio).begin(received([event], "", None, lines))
    assert (found is not None) is traced
    if found is not None:
        expected = header or attribute
        assert found.parent == expected
        assert found.append.trace_id == found.receive.trace_id
        assert expected is None or found.receive.trace_id == expected.trace_id
        assert len({found.append.span_id, found.receive.span_id, OUTSIDE.span_id}) == 3


@pytest.mark.parametrize("address", ["", "uid-of-a-broker"])
@pytest.mark.parametrize(
    "lines", [b"", b"knative-a: 1\r\n", OUTSIDE.line() + b"tracestate: v=1\r\n"]
)
@pytest.mark.parametrize("count", [1, 3])
def test_the_context_travels_beside_the_events(address: str, lines: bytes, count: int) -> None:
    """Their bytes, address, key, TTLs and sender stay; one carried line is new."""
    events = [_event(number, partitionkey="k", traceparent=_text(OTHER)) for number in range(count)]
    before = msgspec.structs.replace(received(events, address, [3] * count, lines), by="me")
    found = _tracing(1.0).begin(before)
    assert found is not None
    assert found.received.kind is RecordKind.CARRIED
    assert (found.received.event_count, found.received.partition_key) == (count, "k")
    assert found.received.by == "me"
    held, was = _held(found.received), _held(before)
    assert (held.address, held.ttls) == (was.address, was.ttls)
    assert event_record.encode(held.events) == event_record.encode(was.events)
    assert trace_context.of_lines(held.carried) == found.append
    assert set(lines.splitlines()) - set(held.carried.splitlines()) <= {OUTSIDE.line().strip()}


def test_events_of_other_traces_are_linked() -> None:
    """A batch is one request: the traces that its events bring are links, each once."""
    events = [_event(number, traceparent=_text(OTHER)) for number in range(3)]
    found = _tracing(0.0).begin(received([*events, _event(9)], "", None, OUTSIDE.line()))
    assert found is not None
    assert found.links == [OTHER]
    assert found.attributes["messaging.batch.message_count"] == 4
    assert found.attributes["cloudevents.event_id"] == "0"


def test_the_share_is_that_of_the_ratio() -> None:
    """And the draw is the half of the trace id by which other samplers would choose alike."""
    tracing = _tracing(0.2)
    found = [tracing.begin(received([_event()], "", None)) for _ in range(2_000)]
    ids: Sequence[int] = [one.receive.trace_id for one in found if one is not None]
    assert 300 < len(ids) < 500
    assert len(set(ids)) == len(ids)
    drawn = [(each & (2**64 - 1)) / 2**64 for each in ids]
    assert 0.19 < max(drawn) < 0.2
    assert min(drawn) < 0.01


def test_data_that_looks_like_a_context_begin_nothing() -> None:
    """Only the attribute of that name counts."""
    event = Event(_event().attributes, b"traceparent: " + _text(OUTSIDE).encode())
    assert _tracing(0.0).begin(received([event], "", None)) is None


class Wire(asyncio.Transport):
    """Keeps what the receiver answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes] = []

    def write(self, data: Any) -> None:
        self.answers.append(bytes(data))


class Appends:
    """A log that takes everything at once, or nothing."""

    open = True
    splits = False

    def __init__(self, error: LogError | None = None) -> None:
        self.received: list[Received] = []
        self._error = error

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        self.received.append(received)
        done(self._error)


class Recorded(NamedTuple):
    """A span."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    times_ns: tuple[int, int]
    attributes: dict[str, Any]
    error: str | None


class Receiver:
    """A connection whose requests are traced."""

    def __init__(self, ratio: float, error: LogError | None = None) -> None:
        self.spans: list[Recorded] = []
        self.appends, self.wire = Appends(error), Wire()
        tracing = PublishTracing(self._adding("receive"), self._adding("append"), ratio, Random(7))
        context = IngestContext(self.appends, IngestSettings(), SystemClock(), None)
        context.plain = PlainRequests(LEFT_TO_PARSER)
        plain, _ = traced_connections(tracing)
        self.connection = plain(context)
        self.connection.connection_made(self.wire)

    def _adding(self, name: str) -> Any:
        def add(
            context: TraceContext,
            parent: TraceContext | None,
            times_ns: tuple[int, int],
            attributes: dict[str, Any],
            *,
            links: Sequence[TraceContext] = (),
            error: str | None = None,
        ) -> None:
            del links
            self.spans.append(Recorded(name, context, parent, times_ns, attributes, error))

        return add

    def publish(self, *lines: str) -> int:
        """Send an event with more lines in its head; returns the status."""
        head = [
            "POST /events HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Length: 1",
            *ATTRIBUTES,
            *lines,
        ]
        self.connection.data_received("\r\n".join((*head, "", "x")).encode())
        return int(self.wire.answers[-1].split(b" ", 2)[1])


ATTRIBUTES = ("ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "ce-type: t")


def test_requests_are_traced_in_plain_form_and_parsed() -> None:
    """The first ones of a publisher are parsed, later ones are not: all have both spans."""
    receiver = Receiver(1.0)
    assert {receiver.publish() for _ in range(5)} == {202}
    assert [span.name for span in receiver.spans] == ["append", "receive"] * 5
    for append, receive in zip(receiver.spans[::2], receiver.spans[1::2], strict=True):
        assert (append.parent, receive.parent) == (receive.context, None)
        assert receive.times_ns[0] <= append.times_ns[0] <= append.times_ns[1]
        assert receive.attributes["cloudevents.event_type"] == "t"
        assert (append.error, receive.error) == (None, None)
    held = [_held(each) for each in receiver.appends.received]
    assert [trace_context.of_lines(one.carried) for one in held] == [
        span.context for span in receiver.spans[::2]
    ]


def test_requests_that_are_not_drawn_are_published_without_a_trace() -> None:
    """Parsed, and in plain form."""
    receiver = Receiver(0.0)
    assert [receiver.publish() for _ in range(5)] == [202] * 5
    assert len(receiver.wire.answers) == len(receiver.appends.received) == 5
    assert receiver.spans == []


@pytest.mark.parametrize("name", ["traceparent", "ce-traceparent"])
def test_a_publishers_context_counts_in_any_form(name: str) -> None:
    """As a header field, and as an attribute, in each of many equal requests."""
    receiver = Receiver(0.0)
    for _ in range(5):
        assert receiver.publish(f"{name}: {_text(OUTSIDE)}") == 202
        assert receiver.publish() == 202
    assert [span.name for span in receiver.spans] == ["append", "receive"] * 5
    assert {span.parent for span in receiver.spans[1::2]} == {OUTSIDE}


def test_what_the_log_refuses_is_an_error_in_the_trace() -> None:
    """Both spans have the code of the answer."""
    receiver = Receiver(1.0, LogError("the disk is full"))
    assert receiver.publish() == 503
    assert {span.error for span in receiver.spans} == {"log-unavailable"}
    assert receiver.spans[1].attributes["error.type"] == "log-unavailable"
