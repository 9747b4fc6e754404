"""The response to a publishing request, pending until its events are durable.

Caller: ``_protocol``, which queues one for each response it owes. Hides the accounting of appends.
"""

from typing import Protocol

from distributary.core.errors import LogError, RecordTooLargeError
from distributary.server.ingest._context import IngestContext, Taken
from distributary.server.ingest._limits import RECORD_BYTES_MIN
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
        "_connection",
        "_context",
        "_event_count",
        "_held_bytes",
        "_share",
        "_since_s",
        "_unseen",
        "answer",
        "persistence",
    )

    def __init__(self, connection: Flushes, persistence: Persistence) -> None:
        self._connection = connection
        self.persistence = persistence
        self.answer: bytes | None = None

    def append(self, context: IngestContext, taken: Taken, since_s: float) -> None:
        """Append *taken* to the log; ``settle`` is called when it is durable or has failed.

        Args:
            context: State that all connections share.
            taken: Events of one request. A new type or source is recorded once they are durable.
            since_s: When the last byte of the request was read: start of the ack time.
        """
        received, self._unseen, share, records = taken
        held_bytes = len(received.body) + RECORD_BYTES_MIN * records
        counters = context.counters
        counters.appends_in_flight += 1
        counters.held_bytes += held_bytes
        if share is not None:
            share.bytes += held_bytes
        self._context = context
        self._event_count = received.event_count
        self._held_bytes = held_bytes
        self._share = share
        self._since_s = since_s
        context.appends.submit(received, self.settle)

    def append_parsed(self, context: IngestContext, taken: Taken, since_s: float) -> None:
        """As ``append``, for events of a request that was not in plain form."""
        self.append(context, taken, since_s)

    def settle(self, result: int | LogError | None) -> None:
        """Respond: 202, 503 where nothing is promised, or 413 where a retry would fail too."""
        assert self.answer is None
        context = self._context
        counters = context.counters
        counters.appends_in_flight -= 1
        counters.held_bytes -= self._held_bytes
        if self._share is not None:
            self._share.bytes -= self._held_bytes
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
