"""Attempts that the operator's settings refuse: nothing is sent, and no attempt is used up.

Called for sinks, dead letter sinks and destinations of replies alike.
"""

from typing import Final

from distributary.core.deliver.transport import BLOCKED
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.state import PartitionState
from distributary.core.errors import TransportError
from distributary.core.flow import Task
from distributary.core.policy import Answer, Decision, Verdict

REFUSED_LOOK_S: Final = 60.0
"""Retry delay of an address that the settings refuse: settings change at a start, DNS within
minutes. What changes in between (a secret, the sink) does not wait for it:
``Refusals.take_mended``. Its queue's breaker opens meanwhile, so all but a few matches wait in
their route's backfill."""


class Refusals:
    """Routes whose attempts were refused.

    Args:
        state: Of the partition.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._targets = state.targets
        self._refused: dict[str, RouteTarget] = {}

    def take_mended(self) -> set[str]:
        """Routes whose attempts were refused, and whose targets have changed since; once each."""
        get, refused = self._targets.get, self._refused
        mended = {route for route, target in refused.items() if get(route) is not target}
        for route in mended:
            del refused[route]
        return mended

    def verdict(self, task: Task, answer: Answer, target: RouteTarget, dest: str) -> Verdict | None:
        """The verdict on an attempt that was refused, and may be made later; None: it was not.

        ``RETRY`` keeps the attempt number, however often it happens: an address that a stricter
        setting refuses causes no dead letters (decision 22, private addresses). Warns once of
        each route.

        Args:
            task: The match.
            answer: To the attempt.
            target: Of the route.
            dest: URI of the sink, or of the destination of the reply.
        """
        if not isinstance(answer, TransportError):
            return None
        if answer.reason != BLOCKED or not answer.retryable:
            return None
        if self._state.failing.refused(task.route, dest, self._state.now_ms, BLOCKED):
            fields: dict[str, object] = {"route": task.route, "reason": str(answer)}
            self._state.effects.warn("sink-refused", fields)
        self._refused[task.route] = target
        return Verdict(Decision.RETRY, BLOCKED, REFUSED_LOOK_S)
