"""Rows of the delivery store (retries, backfills, parked routes), and what one flush changes."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome.dead_letter import DeadLetter, Failure

IN_STORE = b""
"""``RetryRow.event`` where the bytes stand in the store and are not at hand: up to 1 MiB each, so
they are read when the row is due."""


class RetryRow(NamedTuple):
    """A match that waits for its next attempt, durable.

    Attributes:
        key: The match.
        checksum: Of its record; the row is void where the log holds another record.
        stage: Destination of the next attempt.
        attempt: Number of the next attempt on that stage, from 1.
        not_before_ms: Wall clock of the next attempt, milliseconds.
        failure: What failed last; None for a match that was only moved out of the cursor's way.
        done: True for a finished row that stays until the cursor has passed it.
        event: What is sent instead of the event in the log (a reply that became a dead letter),
            ``event.record.encode`` of it; ``IN_STORE``: what the store holds stays. None: the
            event in the log.
    """

    key: DoneKey
    checksum: int
    stage: Stage
    attempt: int
    not_before_ms: int
    failure: Failure | None
    done: bool
    event: bytes | None = None


class BackfillRow(NamedTuple):
    """A route that is backfilled: from here on the backfill delivers, not the live one.

    Attributes:
        route: Uid of the route.
        start: The record where this backfill began; with the route its name (a route can have an
            old backfill that is being finished and a new one).
        start_index: In that record, the first event that is this backfill's; those before are the
            live reader's.
        from_offset: The first record that may hold an undelivered match.
        to_offset: The live reader has the route again from here on; None while it is backfilled.
        record: ``flow.encode_route`` of the route as it stood at ``from_offset``.
    """

    route: str
    start: int
    start_index: int
    from_offset: int
    to_offset: int | None
    record: bytes

    def covers(self, offset: int, index: int) -> bool:
        """True where a match of the route at this place is, or was, its own to deliver."""
        if (offset, index) < (self.start, self.start_index):
            return False
        return self.to_offset is None or offset < self.to_offset

    def holds(self, offset: int, index: int) -> bool:
        """True where a match of the route at this place may still have to be delivered by it."""
        return offset >= self.from_offset and self.covers(offset, index)

    @property
    def name(self) -> tuple[str, int]:
        """What names this backfill within its partition."""
        return self.route, self.start


class ParkedRow(NamedTuple):
    """A route to which nothing is sent: its sink said that it is gone.

    Attributes:
        route: Uid of the route.
        revision: Of its resource then: a newer one goes on.
        demand_seq: The newest demand then: one to resume that is newer goes on.
        since_ms: Wall clock when it was parked, milliseconds.
        reason: Why, for people.
        dest: URI of the sink, without its query.
    """

    route: str
    revision: int
    demand_seq: int
    since_ms: int
    reason: str
    dest: str


class RunRow(NamedTuple):
    """How far a run of kept dead letters is.

    Attributes:
        seq: Number of the demand that asked for it.
        at: The last dead letter that was looked at.
        through: The last that is this run's.
        handled: Dead letters that were sent again, or deleted.
        passed: Those that were left as they are: the newest filters do not match them.
        done: It is over.
    """

    seq: int
    at: int
    through: int
    handled: int
    passed: int
    done: bool


class FailingRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One route of one partition whose last attempts failed.

    Attributes:
        route: Uid of the route.
        since_ms: Wall clock of the first of these failures, milliseconds.
        last_ms: Of the last one.
        count: Failed attempts since the last delivery, from 1.
        reason: The short reason of the last one (``status-503``, ``timeout``...).
        dest: URI of the destination that failed: the sink, the reply's, or the dead letter sink;
            without its query (``shown_uri``).
    """

    route: str
    since_ms: int
    last_ms: int
    count: int
    reason: str
    dest: str


@dataclass(slots=True)
class Changes:
    """What one flush changes; later entries for the same match replace earlier ones."""

    rows: dict[DoneKey, RetryRow] = field(default_factory=dict)
    forget: list[DoneKey] = field(default_factory=list)
    backfills: dict[tuple[str, int], BackfillRow | None] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    parked: dict[str, ParkedRow | None] = field(default_factory=dict)
    taken: list[DoneKey] = field(default_factory=list)
    runs: dict[int, RunRow] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """True where there is something to write."""
        return bool(
            self.rows
            or self.forget
            or self.backfills
            or self.dead_letters
            or self.parked
            or self.runs
        )
