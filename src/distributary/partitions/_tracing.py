"""The spans of attempts: one for each, from its start to its answer.

Called by the queues of the dispatcher (``core.deliver.tracing``), and by the consumer with each
verdict; only where tracing is on. An attempt's parent is the append of its event, whose context is
in the record. A retry is linked to the attempt before it, an event of a batch to the trace that it
brought itself.
"""

import functools
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from distributary.core.deliver import Destination, Done
from distributary.core.deliver.origins import origin_of
from distributary.core.engine.ports import RouteTarget
from distributary.core.errors import SettingsError
from distributary.core.event import trace_context
from distributary.core.event.trace_context import TraceContext
from distributary.core.flow import Attempt, Position, Stage, Task
from distributary.core.policy import DELIVERED, Answer, Decision, Reply, Verdict, delivered
from distributary.core.policy.acknowledgements import Acknowledgement
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.net.otlp import OtlpSettings, Tell

if TYPE_CHECKING:
    from distributary.net.otlp.spans import Spans

BEFORE_MAX: Final = 10_000
"""Failed attempts that are remembered, so that the next one is linked to it: of sampled events
alone. Those of more, or of an owner before this one, stay unlinked."""

_NAMES: Final = {
    Stage.PRIMARY: "deliver",
    Stage.DEAD_LETTER: "deliver dead letter",
    Stage.REPLY: "deliver reply",
}

_Key = tuple[Position, str, Stage]
Attempted = Callable[[Attempt, Verdict, int], None]


class RecordSpan(Protocol):
    """Records a span that has ended: ``net.otlp.spans.Spans.add``, of one kind."""

    def __call__(
        self,
        name: str,
        context: TraceContext,
        parent: TraceContext | None,
        times_ns: tuple[int, int],
        attributes: Mapping[str, Any],
        *,
        links: Sequence[TraceContext] = (),
        error: str | None = None,
    ) -> None: ...


class AttemptSpans:
    """Traces the attempts of one partition. For the thread of its event loop.

    Args:
        record: Records a span.
        new_id: Makes the id of a span.
        target: Finds the target of a route; None: deleted, or unknown.
    """

    def __init__(
        self,
        record: RecordSpan,
        new_id: Callable[[], int],
        target: Callable[[str], RouteTarget | None],
    ) -> None:
        self._record = record
        self._new_id = new_id
        self._target = target
        self._before: OrderedDict[_Key, TraceContext] = OrderedDict()
        self._answered: _Span | None = None

    def start(self, task: Task, destination: Destination) -> "_Span | _Passed | None":
        """Begin the span of an attempt; see ``AttemptTracing``."""
        parent = trace_context.of_lines(task.carried)
        if parent is None:
            return None
        knative = destination.namespace is not None
        if not parent.sampled:
            return None if knative else _Passed(parent.line())
        context = TraceContext(parent.trace_id, self._new_id(), sampled=True)
        # Who subscribes by the Subscriptions API gets the place in the trace, and nothing else of
        # what a publisher sent beside its event (decision record 0035).
        lines = trace_context.replaced(task.carried, context) if knative else context.line()
        return _Span(self, task, destination, (parent, context), lines)

    def judging(self, attempted: Attempted) -> Attempted:
        """Returns *attempted*, which also tells the span under way what follows."""

        def judged(attempt: Attempt, verdict: Verdict, now_ms: int) -> None:
            attempted(attempt, verdict, now_ms)
            if self._answered is not None and self._answered.task is attempt.task:
                self._answered.verdict = verdict

        return judged

    def end(self, span: "_Span", done: Done, answer: Answer) -> None:
        """Pass *answer* on, and record *span*."""
        end_ns = time.time_ns()
        self._answered = span
        try:
            done(answer)
        finally:
            self._answered = None
            self._finish(span, answer, end_ns)

    def _finish(self, span: "_Span", answer: Answer, end_ns: int) -> None:
        task, verdict = span.task, span.verdict
        key = task.position, task.route, task.stage
        found = self._before.pop(key, None), _brought(task, span.parent)
        if verdict is not None and verdict.decision is Decision.RETRY:
            self._before[key] = span.context
            if len(self._before) > BEFORE_MAX:
                self._before.popitem(last=False)
        attributes = self._attributes(span)
        error = None if delivered(answer) else _reason(answer)
        if isinstance(answer, Reply):
            attributes["http.response.status_code"] = answer.status
        if error is not None:
            attributes["error.type"] = error
        if verdict is not None and verdict is not DELIVERED:
            attributes["distributary.decision"] = verdict.decision.value
            attributes["distributary.reason"] = verdict.reason
        self._record(
            _NAMES[task.stage],
            span.context,
            span.parent,
            (span.start_ns, end_ns),
            attributes,
            links=[each for each in found if each is not None],
            error=error,
        )

    def _attributes(self, span: "_Span") -> dict[str, Any]:
        """What a span says; each attribute takes 2 us to encode, so no more than is needed."""
        task, destination = span.task, span.destination
        # Scheme, host and port alone: what follows them may be a secret of the subscriber.
        host, port = origin_of(destination.uri).hosts[0]
        found: dict[str, Any] = {
            "distributary.position": "-".join(map(str, task.position)),
            "distributary.attempt": task.attempt,
            "server.address": host,
            "server.port": port,
        }
        if destination.protocol != "HTTP":
            found["network.protocol.name"] = destination.protocol.lower()
        target = self._target(task.route)
        if target is None or target.name is None:
            found["distributary.route"] = task.route
            return found
        found["distributary.subscription"] = target.name
        if target.namespace not in (None, DEFAULT_NAMESPACE):
            found["distributary.namespace"] = target.namespace
        return found


class _Passed:
    """An attempt whose event belongs to a trace that is not recorded: its sink learns of it."""

    __slots__ = ("carried",)

    def __init__(self, carried: bytes) -> None:
        self.carried = carried

    def answered(self, done: Done, answer: Answer) -> None:
        done(answer)


class _Span:
    """An attempt under way that is recorded."""

    __slots__ = (
        "_spans",
        "carried",
        "context",
        "destination",
        "parent",
        "start_ns",
        "task",
        "verdict",
    )

    def __init__(
        self,
        spans: AttemptSpans,
        task: Task,
        destination: Destination,
        contexts: tuple[TraceContext, TraceContext],
        carried: bytes,
    ) -> None:
        self._spans = spans
        self.task = task
        self.destination = destination
        self.parent, self.context = contexts
        self.carried = carried
        self.start_ns = time.time_ns()
        self.verdict: Verdict | None = None

    def answered(self, done: Done, answer: Answer) -> None:
        self._spans.end(self, done, answer)


def _brought(task: Task, parent: TraceContext) -> TraceContext | None:
    """The context that the event itself brought, if it is of another trace."""
    text = task.event.text(trace_context.ATTRIBUTE)
    found = trace_context.of_text(text if isinstance(text, str) else None)
    return None if found is None or found.trace_id == parent.trace_id else found


def _reason(answer: Answer) -> str:
    """Why *answer* is none of success: a code or a name, and no text of the sink."""
    if isinstance(answer, Reply):
        return str(answer.status)
    return answer.code if isinstance(answer, Acknowledgement) else answer.reason


class Tracing(NamedTuple):
    """The tracing of one owner.

    Attributes:
        attempts: Traces attempts.
        spans: Records and sends their spans; outlives the session.
    """

    attempts: AttemptSpans
    spans: "Spans"

    @classmethod
    def open(
        cls,
        settings: OtlpSettings,
        role: str,
        tell: Tell,
        target: Callable[[str], RouteTarget | None],
    ) -> "Tracing | None":
        """Returns the tracing of an owner; None: nothing is traced, and no SDK is imported.

        What prevents it is told, and stops no delivery.

        Args:
            settings: What is sent.
            role: Of the process, as in log lines.
            tell: Writes a line when the collector takes nothing, and when it does again.
            target: As for ``AttemptSpans``.
        """
        if not settings.sends("traces"):
            return None
        try:
            from distributary.net.otlp import spans  # noqa: PLC0415 - takes 90 ms, and much memory

            sent = spans.shared(settings, role, tell)
        except (ImportError, SettingsError) as error:
            tell("no-traces", {"reason": str(error)})
            return None
        record = functools.partial(sent.add, kind=spans.CLIENT)
        return cls(AttemptSpans(record, spans.new_span_id, target), sent)
