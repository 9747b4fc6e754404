"""The response to a publishing request, pending until its events are durable.

Caller: ``_protocol``, which queues one for each response it owes. Hides the accounting of appends.
"""

from collections.abc import Sequence
from typing import Protocol

from distributary.core.errors import LogError, RecordTooLargeError
from distributary.core.event import Event
from distributary.core.flow import Received
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._responses import Persistence


class Flushes(Protocol):
    """What a pending response needs of its connection."""

    def flush(self) -> None:
        """Write the responses that are ready, in order."""


class PendingResponse:
    """The place of one response in the order of responses.

    Args:
        connection: Flushed when the response is ready.
        persistence: Whether the connection stays open.

    Attributes:
        answer: Bytes of the response; None: not ready.
        persistence: As given.
    """

    __slots__ = (
        "_body_bytes",
        "_connection",
        "_context",
        "_event_count",
        "_since_s",
        "_unseen",
        "answer",
        "persistence",
    )

    def __init__(self, connection: Flushes, persistence: Persistence) -> None:
        self._connection = connection
        self.persistence = persistence
        self.answer: bytes | None = None

    def append(
        self,
        context: IngestContext,
        received: Received,
        since_s: float,
        unseen: Sequence[Event] | None = None,
    ) -> None:
        """Append *received* to the log; ``settle`` is called when it is durable or has failed.

        Args:
            context: State that all connections share.
            received: Events of one request.
            since_s: When the last byte of the request was read: start of the ack time.
            unseen: Events whose type or source is new: recorded once they are durable.
        """
        body_bytes = len(received.body)
        counters = context.counters
        counters.appends_in_flight += 1
        counters.held_bytes += body_bytes
        self._context = context
        self._event_count = received.event_count
        self._body_bytes = body_bytes
        self._since_s = since_s
        self._unseen = unseen
        context.appends.submit(received, self.settle)

    def append_parsed(
        self,
        context: IngestContext,
        received: Received,
        since_s: float,
        unseen: Sequence[Event] | None,
    ) -> None:
        """As ``append``, for events of a request that was not in plain form."""
        self.append(context, received, since_s, unseen)

    def settle(self, result: int | LogError | None) -> None:
        """Respond: 202, 503 where nothing is promised, or 413 where a retry would fail too."""
        assert self.answer is None
        context = self._context
        counters = context.counters
        counters.appends_in_flight -= 1
        counters.held_bytes -= self._body_bytes
        if not isinstance(result, LogError):
            self.answer = context.answers.accepted[self.persistence]
            counters.accepted(self._event_count, context.now_s() - self._since_s)
            if self._unseen is not None:
                context.seen.add(self._unseen)
        elif isinstance(result, RecordTooLargeError):
            self.answer = context.answers.problem(
                "content-too-large",
                "The events take more room than a record has.",
                self.persistence,
            )
            counters.refused("content-too-large", 413)
        else:
            # The ingest process logs why; the sender needs to know only that nothing was kept.
            self.answer = context.answers.problem(
                "log-unavailable", "The log did not take the events.", self.persistence
            )
            counters.refused("log-unavailable", 503)
        self._connection.flush()
