"""Completes attempts: turns each answer into an outcome, a retry, or a parked route."""

from typing import Final

from distributary.core.deliver.transport import BLOCKED, HOP_LIMIT
from distributary.core.engine._outcomes import Outcomes
from distributary.core.engine._parking import GONE, Parking, is_gone
from distributary.core.engine._refusals import Refusals
from distributary.core.engine._replies import Replies
from distributary.core.engine.dead_letter import failure_of
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.reservations import key_of
from distributary.core.engine.sending import Sending
from distributary.core.engine.state import PartitionState
from distributary.core.errors import TransportError
from distributary.core.flow import Attempt, Stage, Task
from distributary.core.outcome.dead_letter import Failure
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict, classify, delivered

# A constant: in Python 3.11 a member read from its enumeration costs as much as several calls.
_REPLY: Final = Stage.REPLY


class Completion:
    """Classifies answers and records what they mean for their matches.

    Args:
        state: Of the partition.
        outcomes: Records outcomes and rows.
        replies: Takes reply events from sinks.
        refusals: Judges attempts that settings refuse.
        sending: Takes back queued tasks of a parked route.
        parking: Parks routes.
    """

    def __init__(
        self,
        state: PartitionState,
        outcomes: Outcomes,
        replies: Replies,
        refusals: Refusals,
        *,
        sending: Sending,
        parking: Parking,
    ) -> None:
        self._state = state
        self._effects = state.effects
        self._targets = state.targets
        self._attempted = state.effects.attempted
        self._duration = state.meter.histogram("attempt_duration_seconds")
        self._outcomes = outcomes
        self._delivered = outcomes.delivered
        self._replies = replies
        self._sending = sending
        self._parking = parking
        self._refusals = refusals

    def take(self, attempt: Attempt) -> None:
        """Complete one attempt."""
        task = attempt.task
        answer = attempt.answer
        self._duration.observe(attempt.duration_s)
        if task.stage is _REPLY:
            self._replies.answered(attempt)
            return
        if type(answer) is Reply:  # Nearly every answer is one: ``delivered`` inlined.
            status = answer.status
            if 200 <= status < 300:
                if answer.event is None and answer.event_fault is None:
                    self._delivered(task, status, attempt)
                else:
                    self._attempted(attempt, DELIVERED, self._state.now_ms)
                    assert task.stage is Stage.PRIMARY  # Only this stage requests replies.
                    self._note_status(task.route, status)
                    self._replies.take(task, answer, self._targets.get(task.route))
                return
        elif delivered(answer):
            self._delivered(task, 0, attempt)
            return
        target = self._targets.get(task.route)
        if target is None:
            self._outcomes.drop(task)
        elif is_gone(task, answer, target):
            self._gone(attempt, target)
        else:
            self._failed(attempt, target)

    def _failed(self, attempt: Attempt, target: RouteTarget) -> None:
        task, answer, now_ms = attempt.task, attempt.answer, self._state.now_ms
        dest = (task.stage is Stage.DEAD_LETTER and target.dead_letter) or target.sink
        uri, jitter = dest.uri, self._effects.chance()
        unmade = self._unmade(attempt, target, uri)
        verdict = unmade or classify(answer, task.attempt, dest.policy, jitter, now_ms)
        self._attempted(attempt, verdict, now_ms)
        self._count_failed(attempt, verdict, uri)
        failure = failure_of(answer, verdict.reason, uri)
        if verdict.decision is Decision.RETRY:
            if task.stage is Stage.DEAD_LETTER:
                failure = self._failure_before(task) or failure
            attempt_next = task.attempt + (verdict.reason != BLOCKED)
            self._outcomes.retry(task, failure, verdict, attempt=attempt_next)
        elif verdict.decision is Decision.DROPPED:
            self._outcomes.drop(task, verdict.reason)
        else:
            self._outcomes.failed(task, target, failure)

    def _count_failed(self, attempt: Attempt, verdict: Verdict, uri: str) -> None:
        route = attempt.task.route
        if not attempt.task.about_route:
            self._state.failing.failed(route, verdict, uri, self._state.now_ms)
        self._state.tallies.of(route).failed += 1
        if isinstance(attempt.answer, Reply):
            self._note_status(route, attempt.answer.status)

    def _note_status(self, route: str, status: int) -> None:
        tally = self._state.tallies.of(route)
        tally.answer_ms, tally.answer_status = self._state.now_ms, status

    def _failure_before(self, task: Task) -> Failure | None:
        row = self._state.rows.rows.get(key_of(task))
        return row.failure if row else None

    def _gone(self, attempt: Attempt, target: RouteTarget) -> None:
        """Park the route, whose sink responded 410; this match waits with the others.

        If the subscription has a new sink by now, that sink gets the match.
        """
        route = attempt.task.route
        now_ms = self._state.now_ms
        verdict = Verdict(Decision.RETRY, f"status-{GONE}")
        self._attempted(attempt, verdict, now_ms)
        self._count_failed(attempt, verdict, attempt.sink)
        failure = failure_of(attempt.answer, verdict.reason, attempt.sink)
        self._outcomes.wait(attempt.task, failure, 0.0, attempt=1)
        if attempt.sink == target.sink.uri and self._parking.park(route, target, failure):
            self._sending.take_back(target.sink.queue)

    def _unmade(self, attempt: Attempt, target: RouteTarget, uri: str) -> Verdict | None:
        """The verdict on an attempt that was not made; None: it was made, or can never be.

        Without an answer of the sink no attempt is used up. ``DROPPED``: the event has reached its
        hop limit (decision 17). A dead letter is exempt and is kept.
        """
        answer, task = attempt.answer, attempt.task
        if not isinstance(answer, TransportError):
            return None
        if answer.reason == HOP_LIMIT and task.stage is Stage.PRIMARY:
            return Verdict(Decision.DROPPED, HOP_LIMIT)
        return self._refusals.verdict(task, answer, target, uri)
