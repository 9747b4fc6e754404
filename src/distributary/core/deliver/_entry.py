"""What stands in a destination queue: tasks, and the queues with a rate limit that feed it.

Called by ``_queue`` and ``_paced``.
"""

from typing import Protocol

import msgspec

from distributary.core.deliver.destination import Destination
from distributary.core.flow import Task
from distributary.core.policy import Answer


class Answered(Protocol):
    """The queue of an entry, as the entry uses it."""

    def answered(self, entry: "QueuedTask", answer: Answer) -> None:
        """Take the answer of the attempt."""


class QueuedTask(msgspec.Struct, eq=False):
    """A task in a queue, first waiting, then in flight; its ``answered`` is the ``Done``."""

    queue: Answered
    task: Task
    destination: Destination
    bytes: int
    started_s: float = 0.0
    probe: bool = False

    def answered(self, answer: Answer) -> None:
        self.queue.answered(self, answer)


class Paced(Protocol):
    """A queue with a rate limit that feeds the sink's queue."""

    uri: str

    @property
    def queued(self) -> int:
        """Waiting tasks."""

    def take(self, now_s: float) -> QueuedTask:
        """Remove and return the next task, which starts now."""

    def check_drained(self) -> None:
        """Report room if a task was refused: the breaker may have closed."""
