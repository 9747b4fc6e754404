"""The spans of attempts: parents, links, what they say, and what sinks get."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from distributary.core.deliver import Destination
from distributary.core.engine.ports import RouteTarget
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.event.trace_context import TraceContext
from distributary.core.flow import Attempt, Origin, Position, Stage, Task
from distributary.core.policy import DELIVERED, Answer, Decision, Reply, Verdict
from distributary.partitions import _tracing
from distributary.partitions._tracing import AttemptSpans

APPEND = TraceContext(0xAA, 0xBB, sampled=True)
OTHER = TraceContext(0xCC, 0xDD, sampled=True)
STATE = b"tracestate: v=1\r\n"
OF_API = Destination("https://sink.example:8443/secret?key=s3cret")
OF_KNATIVE = Destination("http://sink.example/", namespace="shop")
AGAIN = Verdict(Decision.RETRY, "status-503", 1.0)


class Recorded(NamedTuple):
    """One span."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    attributes: Mapping[str, Any]
    links: Sequence[TraceContext]
    error: str | None


class World:
    """What ends with attempts: spans, and what was recorded besides."""

    def __init__(self) -> None:
        self.spans: list[Recorded] = []
        self.attempted: list[Attempt] = []
        numbers = itertools.count(1)
        target = RouteTarget(1, OF_API, None, namespace="shop", name="orders")
        self.tracing = AttemptSpans(self._record, lambda: next(numbers), {"r1": target}.get)
        self._judge = self.tracing.judging(lambda attempt, _v, _ms: self.attempted.append(attempt))

    def _record(
        self,
        name: str,
        context: TraceContext,
        parent: TraceContext | None,
        _times_ns: tuple[int, int],
        attributes: Mapping[str, Any],
        *,
        links: Sequence[TraceContext] = (),
        error: str | None = None,
    ) -> None:
        self.spans.append(Recorded(name, context, parent, attributes, list(links), error))

    def send(self, task: Task, answer: Answer, verdict: Verdict | None, to: Destination) -> bytes:
        """Make one attempt; returns what goes along with it."""
        traced = self.tracing.start(task, to)
        assert traced is not None

        def done(given: Answer) -> None:
            if verdict is not None:
                self._judge(Attempt(task, given, 0.1, to.uri), verdict, 0)

        traced.answered(done, answer)
        return traced.carried


def _task(
    lines: bytes | None = None, attempt: int = 1, stage: Stage = Stage.PRIMARY, **more: str
) -> Task:
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **more}, None)
    carried = APPEND.line() + STATE if lines is None else lines
    place = Position(2, 5, 1)
    return Task(place, 9, "r1", event, stage, attempt, 0, Origin.LIVE, carried=carried)


def _reply(status: int) -> Reply:
    return Reply(status, None, None, b"text of the sink")


def test_an_attempt_is_a_child_of_the_append() -> None:
    """Its span says which event, subscription and attempt, and what came of it."""
    world = World()
    world.send(_task(), _reply(202), DELIVERED, OF_API)
    (span,) = world.spans
    assert (span.name, span.parent, span.error) == ("deliver", APPEND, None)
    assert span.context == TraceContext(APPEND.trace_id, 1, sampled=True)
    assert span.links == []
    assert span.attributes == {
        "distributary.position": "2-5-1",
        "distributary.attempt": 1,
        "distributary.subscription": "orders",
        "distributary.namespace": "shop",
        "server.address": "sink.example",
        "server.port": 8443,
        "http.response.status_code": 202,
    }
    assert len(world.attempted) == 1, "what else takes note of attempts does so"


def test_an_attempt_at_several_brokers_names_one_of_them() -> None:
    """A sink of Kafka may name several hosts, with ports, names and addresses."""
    world = World()
    brokers = Destination("kafka://[2001:db8::2]:9093,one.example/orders", protocol="KAFKA")
    world.send(_task(), _reply(200), DELIVERED, brokers)
    said = world.spans[0].attributes
    assert (said["server.address"], said["server.port"]) == ("2001:db8::2", 9093)
    assert said["network.protocol.name"] == "kafka"


def test_a_retry_is_linked_to_the_attempt_before_it() -> None:
    """All have one parent; each but the first a link."""
    world = World()
    world.send(_task(), _reply(503), AGAIN, OF_API)
    world.send(_task(attempt=2), TransportError("timeout", "s3cret"), AGAIN, OF_API)
    world.send(_task(attempt=3), _reply(200), DELIVERED, OF_API)
    world.send(_task(attempt=1), _reply(200), DELIVERED, OF_API)  # sent again by somebody
    assert [span.parent for span in world.spans] == [APPEND] * 4
    first, second, third, again = world.spans
    assert (first.links, second.links, third.links) == ([], [first.context], [second.context])
    assert again.links == []
    assert [span.error for span in world.spans] == ["503", "timeout", None, None]
    assert "s3cret" not in repr(world.spans)


def test_an_event_of_a_batch_is_linked_to_its_own_trace() -> None:
    """The extension says where the event was made; the batch was sent in another trace."""
    text = OTHER.line().decode().partition(": ")[2].strip()
    world = World()
    world.send(_task(traceparent=text), _reply(200), DELIVERED, OF_API)
    assert world.spans[0].links == [OTHER]


def test_sinks_get_the_place_of_their_attempt() -> None:
    """Subscribers of the Subscriptions API get ``traceparent`` alone, Knative's all that goes."""
    world = World()
    lines = APPEND.line() + STATE + b"knative-a: 1\r\n"
    to_api = world.send(_task(lines), _reply(200), DELIVERED, OF_API)
    to_knative = world.send(_task(lines), _reply(200), DELIVERED, OF_KNATIVE)
    first, second = world.spans
    assert to_api == first.context.line()
    assert to_knative == second.context.line() + STATE + b"knative-a: 1\r\n"


def test_a_trace_that_is_not_recorded_goes_on() -> None:
    """No span; sinks get the context of the publisher."""
    unsampled = APPEND._replace(sampled=False)
    world = World()
    task = _task(unsampled.line() + STATE)
    assert world.send(task, _reply(200), DELIVERED, OF_API) == unsampled.line()
    assert world.tracing.start(task, OF_KNATIVE) is None, "it goes along as it came"
    assert world.tracing.start(_task(b"x-request-id: 1\r\n"), OF_API) is None
    assert world.spans == []


def test_an_attempt_without_a_verdict_ends_its_span() -> None:
    """The route was deleted meanwhile, or the owner ends."""
    world = World()
    world.send(_task(), TransportError("closed", ""), None, OF_API)
    assert world.spans[0].error == "closed"
    assert "distributary.decision" not in world.spans[0].attributes


def test_dead_letters_and_replies_have_names_of_their_own() -> None:
    """They are attempts of the same event, at other destinations."""
    world = World()
    for stage in (Stage.DEAD_LETTER, Stage.REPLY):
        world.send(_task(stage=stage), _reply(200), DELIVERED, OF_API)
    assert [span.name for span in world.spans] == ["deliver dead letter", "deliver reply"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many failures the oldest are forgotten: their retries have no link."""
    monkeypatch.setattr(_tracing, "BEFORE_MAX", 1)
    world = World()
    other = msgspec.structs.replace(_task(), position=Position(2, 6, 0))
    world.send(_task(), _reply(503), AGAIN, OF_API)
    world.send(other, _reply(503), AGAIN, OF_API)
    world.send(_task(attempt=2), _reply(200), DELIVERED, OF_API)
    world.send(other, _reply(200), DELIVERED, OF_API)
    assert [len(span.links) for span in world.spans] == [0, 0, 0, 1]
