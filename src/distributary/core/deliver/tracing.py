"""The port by which attempts are traced, and the queue that asks it.

``partitions`` implements the port. Without tracing nothing here is used, and deliveries pay
nothing for it: the dispatcher makes other queues.
"""

import functools
from typing import Protocol

from distributary.core.deliver._entry import QueuedTask
from distributary.core.deliver._queue import DestinationQueue
from distributary.core.deliver._shared import Shared
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.transport import Done
from distributary.core.flow import Task
from distributary.core.policy import Answer


class TracedAttempt(Protocol):
    """One attempt whose event belongs to a trace.

    Attributes:
        carried: Header lines to send with it, with its own place in the trace.
    """

    carried: bytes

    def answered(self, done: Done, answer: Answer) -> None:
        """Note the end of the attempt, and pass *answer* to *done*."""


class AttemptTracing(Protocol):
    """Traces attempts; on the event loop's thread."""

    def start(self, task: Task, destination: Destination) -> TracedAttempt | None:
        """Begin to trace an attempt; None: its event belongs to no trace.

        Called for tasks with carried header lines alone: a trace is one of them.
        """


_start = DestinationQueue._start  # noqa: SLF001 - of the base class; ``super`` takes three calls


class TracedQueue(DestinationQueue):
    """A destination queue whose attempts are traced.

    Args:
        tracing: Traces them.
        uri: As for ``DestinationQueue``.
        shared: Likewise.
        broker: Likewise.
    """

    __slots__ = ("_tracing",)

    def __init__(
        self, tracing: AttemptTracing, uri: str, shared: Shared, *, broker: bool = False
    ) -> None:
        super().__init__(uri, shared, broker=broker)
        self._tracing = tracing

    def _start(self, entry: QueuedTask, now_s: float) -> None:
        task = entry.task
        traced = self._tracing.start(task, entry.destination) if task.carried else None
        if traced is None:
            _start(self, entry, now_s)
            return
        done = functools.partial(traced.answered, entry.answered)
        self._send(entry, now_s, done, traced.carried)
