"""Attempts that were not made: what the operator's settings forbid, and echoes at their end.

Called by ``_settle``. Nothing of this is the sink's answer: it costs a match none of its attempts.
"""

from typing import Final

from distributary.core.deliver import BLOCKED, HOP_LIMIT
from distributary.core.engine._failing import Failing
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import TransportError
from distributary.core.flow import Attempt, Leg
from distributary.core.policy import Decision, Verdict

REFUSED_LOOK_S: Final = 60.0
"""What is refused is looked at again so often: settings change at a start, a name within minutes.
Its lane closes meanwhile, so that all but a few matches wait as their route's lag."""


class NotMade:
    """Judges attempts that were not made.

    Args:
        around: Ports of the owner.
        failing: Remembers which routes are refused, also from one owner to the next.
    """

    def __init__(self, around: Surroundings, failing: Failing) -> None:
        self._warn = around.warn
        self._failing = failing

    def verdict(self, attempt: Attempt, uri: str) -> Verdict | None:
        """What *attempt* at *uri* means; None: it was made, or no setting would allow it.

        ``RETRY`` goes on with the same attempt, however often: an address that a stricter setting
        refuses makes no dead letters (decision 22). ``DROPPED``: an event has come back to this
        server as often as it may (decision 17). Its dead letter is no echo: it is kept.
        """
        answer, task = attempt.answer, attempt.task
        if not isinstance(answer, TransportError):
            return None
        if answer.reason == HOP_LIMIT and task.leg is Leg.EVENT:
            return Verdict(Decision.DROPPED, HOP_LIMIT)
        if answer.reason != BLOCKED or not answer.retryable:
            return None
        if self._failing.refused(task.route, uri, BLOCKED):
            self._warn("sink-refused", {"route": task.route, "reason": str(answer)})
        return Verdict(Decision.RETRY, BLOCKED, REFUSED_LOOK_S)
