"""Rows of the delivery store (retries, backfills, parked routes), and what one flush changes."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome.dead_letter import DeadLetter, Failure

IN_STORE = b""
"""``RetryRow.event`` if the bytes are in the store and not loaded: up to 1 MiB each, so they are
read when the row is due."""


class RetryRow(NamedTuple):
    """A match that waits for its next attempt, durable.

    Attributes:
        key: The match.
        checksum: Of its record; the row is void if the log holds another record.
        stage: Destination of the next attempt.
        attempt: Number of the next attempt on that stage, from 1.
        not_before_ms: Wall clock of the next attempt, milliseconds.
        failure: The last failure; None for a match that only had to let the cursor pass.
        done: True for a finished row that stays until the cursor has passed it.
        event: Sent instead of the event in the log (a reply that became a dead letter),
            ``event.record.encode`` of it; ``IN_STORE``: unchanged in the store. None: the event
            in the log.
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
    """A backfill of a route: from its start on it delivers for the route, not the live reader.

    Attributes:
        route: Uid of the route.
        start: The record where this backfill began; with the route it is the key (a route can
            have an old backfill that is being finished and a new one).
        start_index: In that record, the first event of this backfill; those before are the live
            reader's.
        from_offset: The first record that may hold an undelivered match.
        to_offset: The live reader delivers from here on; None while the backfill has no end.
        record: ``flow.encode_route`` of the route in force at ``from_offset``.
    """

    route: str
    start: int
    start_index: int
    from_offset: int
    to_offset: int | None
    record: bytes

    def covers(self, offset: int, index: int) -> bool:
        """True if this backfill delivers, or delivered, a match of the route at this position."""
        if (offset, index) < (self.start, self.start_index):
            return False
        return self.to_offset is None or offset < self.to_offset

    def holds(self, offset: int, index: int) -> bool:
        """True if this backfill may still have to deliver a match of the route at this position."""
        return offset >= self.from_offset and self.covers(offset, index)

    @property
    def name(self) -> tuple[str, int]:
        """The key of this backfill within its partition."""
        return self.route, self.start


class ParkedRow(NamedTuple):
    """A route to which nothing is sent: its sink responded 410.

    Attributes:
        route: Uid of the route.
        revision: Of its resource then: a newer one resumes it.
        demand_seq: The newest demand then: a newer one to resume resumes it.
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
    """Progress of a run in one partition.

    Attributes:
        seq: Number of the demand for it.
        at: How far it is: the last dead letter that it looked at, or the record below which each
            match of a replay has an outcome or a row.
        through: Its end: the last dead letter that it looks at, or the record after the last.
        handled: Sent again, deleted, or made due; in a dry run, what would be.
        passed: Chosen and left as they are: the newest filters do not match them, they wait
            for an attempt already, or they are damaged.
        done: The run is over here.
        selected: Dead letters, matches or retries that it chose.
        looked: Dead letters or records that it looked at.
        total: Dead letters or records to look at.
        cancelled: It ended early, since it was cancelled.
        oldest_ms: Of a replay: the log begins only with a record of this wall-clock time,
            milliseconds, after the time that was asked for; None: nothing is missing.
        missing: Of a replay: records that it passed since their events are missing, in the middle
            of what is there. Some of them may be no events.
        missing_from: The first of these records; None: none is missing.
        missing_to: After the last of them.
        route_deleted: It ended early, since its route was deleted.
    """

    seq: int
    at: int
    through: int
    handled: int
    passed: int
    done: bool
    selected: int = 0
    looked: int = 0
    total: int = 0
    cancelled: bool = False
    oldest_ms: int | None = None
    missing: int = 0
    missing_from: int | None = None
    missing_to: int | None = None
    route_deleted: bool = False

    def passing(self, from_offset: int, to_offset: int) -> "RunRow":
        """Returns the progress after the run passed these records, whose events are missing."""
        return self._replace(
            missing=self.missing + to_offset - from_offset,
            missing_from=from_offset if self.missing_from is None else self.missing_from,
            missing_to=to_offset,
        )


class FailingRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route whose last attempts failed, in one partition.

    Attributes:
        route: Uid of the route.
        since_ms: Wall clock of the first of these failures, milliseconds.
        last_ms: Of the last one.
        count: Failed attempts since the last delivery, from 1.
        reason: The short reason of the last failure (``status-503``, ``timeout``...).
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
    """The rows that one flush changes; later entries for the same match replace earlier ones."""

    rows: dict[DoneKey, RetryRow] = field(default_factory=dict)
    forget: list[DoneKey] = field(default_factory=list)
    backfills: dict[tuple[str, int], BackfillRow | None] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    parked: dict[str, ParkedRow | None] = field(default_factory=dict)
    taken: list[DoneKey] = field(default_factory=list)
    runs: dict[int, RunRow] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """True if there is something to write."""
        return bool(
            self.rows
            or self.forget
            or self.backfills
            or self.dead_letters
            or self.parked
            or self.runs
        )
