"""The checker of the routes: was each event met by exactly the routes that stood before it?

Walks over the records of a log: applies the route records of each partition in log order,
evaluates every event against every route that stands there by the plain walk (never the compiled
matcher), and holds the result against what sinks got and what the server dropped with a reason.
Both directions are exact:

==========  ===============================================================================
finding     what is wrong
==========  ===============================================================================
missing     a route stood before the event and matches it; yet nothing came of it
extra       something came of it for a route that did not stand there, or does not match
dropped     dropped as deleted, although the route was never deleted
stranger    a sink got an event that the log does not hold
skew        the partitions do not hold the same changes in the same order
late        an event was sent after a change was answered, and stands before the change
copies      more deliveries than the log holds events, beyond what was declared
==========  ===============================================================================

Sinks are told apart by the path of their requests. A route says which path is its own by a
*mark*: an expression that is always true, ``{"not": {"exact": {"churnmark": path}}}``.

Callers: ``check_routes`` (the program), ``churn``. Hides: the walk. Pure: reads no file, no clock.
"""

import collections
import enum
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from distributary.cli.ledger import Arrival
from distributary.core.event import AttributeValue, Event, canonical
from distributary.core.flow import (
    Logged,
    Position,
    RecordKind,
    RouteRecord,
    decode_route,
    encode_route,
)
from distributary.testing.ledger_checker import Key
from kit.simulation.naive_routes import matches, published

__all__ = [
    "ActiveRoutes",
    "BackfillDrop",
    "Drop",
    "Evidence",
    "Finding",
    "FindingKind",
    "Report",
    "Verdicts",
    "check",
    "mark",
    "path_of",
]

EXAMPLES_MAX: Final = 20
"""Findings of one kind that are kept whole; the counts go on."""

_WORD: Final = re.compile(r"[a-z0-9]+")
"""What can be the name of an attribute."""

MARK: Final = "churnmark"
"""The attribute of marks. No event has it."""

SENT_NS: Final = "sentns"
"""The attribute that says when an event's sending began, nanoseconds of the monotonic clock."""


EventKind: TypeAlias = tuple[tuple[str, type, AttributeValue], ...]
"""Names, types and values of attributes: events that share them match the same routes. (Types,
since Python takes ``True`` and ``1`` for the same key.)"""


def mark(path: str) -> dict[str, Any]:
    """The filter expression that tells a route's *path*, and that every event passes."""
    return {"not": {"exact": {MARK: path}}}


def path_of(record: RouteRecord) -> str | None:
    """The path that the mark of a route tells; None where it has none."""
    for expression in record.filters:
        compared = expression.get("not", {}).get("exact", {})
        if MARK in compared:
            path: str = compared[MARK]
            return path
    return None


class FindingKind(enum.StrEnum):
    """What is wrong; the table above says more."""

    MISSING = "missing"
    EXTRA = "extra"
    DROPPED = "dropped"
    STRANGER = "stranger"
    SKEW = "skew"
    LATE = "late"
    COPIES = "copies"


class Finding(NamedTuple):
    """One thing that is wrong.

    Attributes:
        kind: What.
        route: Path or uid of the route.
        place: Of the event: its position, or its source and id.
        detail: For people.
    """

    kind: FindingKind
    route: str
    place: str
    detail: str


class Drop(NamedTuple):
    """A match that the server ended with a reason, as its log tells."""

    partition: int
    offset: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which no drop needs
    route: str


class BackfillDrop(NamedTuple):
    """Matches of a backfill that went with its route: some in ``from_offset`` to ``to_offset``."""

    partition: int
    route: str
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known besides the log.

    Attributes:
        arrivals: Ledger lines of all sinks; only those answered 2xx count.
        drops: What the server dropped.
        answered: Path of a mark -> when each change of its routes was answered, in their order,
            nanoseconds of the monotonic clock; empty: not known.
        copies_max: Deliveries beyond one an event that are allowed in all: attempts under way at
            kills.
    """

    arrivals: Iterable[Arrival]
    drops: Iterable[Drop | BackfillDrop] = ()
    answered: Mapping[str, Sequence[int]] = field(default_factory=dict)
    copies_max: int = 0


@dataclass(slots=True)
class Report:
    """What the check found.

    Attributes:
        events: In the log.
        changes: Route records, each counted once however many partitions there are.
        verdicts: Decided: for each event, one for each route that stood before it.
        matches: Of them, those that are true.
        delivered: Matches whose sink got the event.
        dropped: Matches that were dropped with a reason instead.
        copies: Deliveries beyond the first of each match.
        counts: Findings by kind.
        examples: The first findings of each kind.
    """

    events: int = 0
    changes: int = 0
    verdicts: int = 0
    matches: int = 0
    delivered: int = 0
    dropped: int = 0
    copies: int = 0
    counts: dict[FindingKind, int] = field(default_factory=dict)
    examples: list[Finding] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """True when nothing was found."""
        return not self.counts

    def add(self, kind: FindingKind, route: str, place: object, detail: str) -> None:
        """Count a finding, and keep it while there is room for its kind."""
        self.counts[kind] = count = self.counts.get(kind, 0) + 1
        if count <= EXAMPLES_MAX:
            self.examples.append(Finding(kind, route, str(place), detail))


class Verdicts:
    """What the plain walk says of every route that ever stood and every event.

    A verdict depends on the values of the attributes that the filters name and on nothing else,
    so events with the same values are one *kind*, and each route is asked about each kind once.
    Which names those are is taken from the texts in the filters: too many make it slower, and
    none can be forgotten. Where an event was published is no matter of kinds; a route is asked of
    events at its own address alone.

    Args:
        changes: Every change.
        events: Every event.
    """

    def __init__(self, changes: Iterable[RouteRecord], events: Iterable[Event]) -> None:
        puts = {encode_route(change): change for change in changes if change.op == "put"}
        words = " ".join(
            text for change in puts.values() for text in (*_texts(change.filters), *change.present)
        )
        self._names = {"source", "type", *_WORD.findall(words.lower())}
        kinds = {self.kind(event): event.attributes for event in events}
        self._matching = {
            body: frozenset(
                kind for kind, attributes in kinds.items() if matches(change, attributes)
            )
            for body, change in puts.items()
        }

    def kind(self, event: Event) -> EventKind:
        """The values of *event* that a filter may look at."""
        names = self._names
        return tuple(
            [
                (name, type(value), value)
                for name, value in event.attributes.items()
                if name in names
            ]
        )

    def matching(self, put: RouteRecord) -> frozenset[EventKind]:
        """The kinds of events that match the route as *put* made it."""
        return self._matching[encode_route(put)]


class ActiveRoutes:
    """The routes that stand at one place of the log, by the kinds of events that match them."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._standing: dict[str, RouteRecord] = {}
        self._by_kind: dict[tuple[str, EventKind], set[str]] = collections.defaultdict(set)

    def __len__(self) -> int:
        return len(self._standing)

    def apply(self, change: RouteRecord) -> None:
        """Apply the next change of the log."""
        old = self._standing.pop(change.uid, None)
        if old is not None:
            for kind in self._verdicts.matching(old):
                self._by_kind[old.address, kind].discard(change.uid)
        if change.op == "put":
            self._standing[change.uid] = change
            for kind in self._verdicts.matching(change):
                self._by_kind[change.address, kind].add(change.uid)

    def match(self, event: Event, address: str = "") -> list[str]:
        """Uids of the routes that *event*, published to *address*, matches."""
        return list(self._by_kind.get((address, self._verdicts.kind(event)), ()))


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value, names of members included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def check(partitions: Sequence[Iterable[Logged]], evidence: Evidence) -> Report:
    """Hold the log against the evidence.

    Args:
        partitions: Every record of each partition from the first one on, in log order.
        evidence: What sinks and the server say.

    Raises:
        ValueError: A route begins in the past: what it replays has no place in the log.
        EventError: A record cannot be read.
    """
    checking = _Check(evidence)
    logs = [checking.read(number, records) for number, records in enumerate(partitions)]
    verdicts = Verdicts(
        [entry for log in logs for entry in log if isinstance(entry, RouteRecord)],
        [entry.event for log in logs for entry in log if isinstance(entry, _Placed)],
    )
    for log in logs:
        checking.walk(log, ActiveRoutes(verdicts))
    checking.compare([[entry for entry in log if isinstance(entry, RouteRecord)] for log in logs])
    checking.judge()
    return checking.report


class _Placed(NamedTuple):
    """An event, where it stands, and where it was published."""

    position: Position
    event: Event
    address: str


class _Check:
    """One check."""

    def __init__(self, evidence: Evidence) -> None:
        self.report = Report()
        self._evidence = evidence
        self._expected: dict[Position, list[str]] = {}
        self._positions: dict[Key, list[Position]] = collections.defaultdict(list)
        self._sent: list[tuple[int, int, Position]] = []
        self._paths: dict[str, str] = {}
        self._deleted: set[str] = set()

    # -- the log ------------------------------------------------------------------------------

    def read(self, partition: int, records: Iterable[Logged]) -> list[RouteRecord | _Placed]:
        """Changes and events of *partition*, in order; what was rolled forward twice, once."""
        entries: list[RouteRecord | _Placed] = []
        last_seq = 0
        for logged in records:
            if logged.kind == RecordKind.ROUTE:
                change = decode_route(logged.body)
                if change.seq > last_seq:
                    last_seq = change.seq
                    self._note_change(change)
                    entries.append(change)
            address, events = published(logged)
            for index, event in enumerate(events):
                position = Position(partition, logged.offset, index)
                entries.append(_Placed(position, event, address))
        return entries

    def walk(self, log: Iterable[RouteRecord | _Placed], routes: ActiveRoutes) -> None:
        """Note what every event of a partition must meet."""
        seq = 0
        for entry in log:
            if isinstance(entry, RouteRecord):
                routes.apply(entry)
                seq = entry.seq
                continue
            uids = routes.match(entry.event, entry.address)
            self._note_event(entry.position, entry.event, seq)
            self._expected[entry.position] = uids
            self.report.verdicts += len(routes)
            self.report.matches += len(uids)

    def _note_change(self, change: RouteRecord) -> None:
        if change.begin_ms is not None:
            raise ValueError(f"route {change.uid} begins in the past; this checker cannot judge it")
        if change.op == "delete":
            self._deleted.add(change.uid)
            return
        path = path_of(change)
        if path is not None:
            self._paths[change.uid] = path

    def _note_event(self, position: Position, event: Event, seq: int) -> None:
        attributes = event.attributes
        self.report.events += 1
        key = Key(canonical(attributes["source"]), canonical(attributes["id"]))
        self._positions[key].append(position)
        if SENT_NS in attributes:
            self._sent.append((int(attributes[SENT_NS]), seq, position))

    def compare(self, histories: Sequence[list[RouteRecord]]) -> None:
        """The partitions hold the same changes; and none of them came late."""
        first = histories[0] if histories else []
        self.report.changes = len(first)
        for number, history in enumerate(histories[1:], 1):
            if history != first:
                pairs = itertools.zip_longest(first, history)
                at = next(place for place, pair in enumerate(pairs) if pair[0] != pair[1])
                detail = f"partitions 0 and {number} differ from change {at} on"
                self.report.add(FindingKind.SKEW, "", f"partition {number}", detail)
        self._find_late(first)

    def _find_late(self, history: Sequence[RouteRecord]) -> None:
        """No event stands before a change that was answered before the event was sent."""
        counts: collections.Counter[str] = collections.Counter()
        answered_ns: dict[int, int] = {}
        for change in history:
            path = self._path(change.uid)
            answers = self._evidence.answered.get(path, ())
            if counts[path] < len(answers):
                answered_ns[change.seq] = answers[counts[path]]
            counts[path] += 1
        # the earliest answer to any change that comes after the change with this number
        earliest, after = sys.maxsize, dict[int, int]()
        for change in reversed(history):
            after[change.seq] = earliest
            earliest = min(earliest, answered_ns.get(change.seq, sys.maxsize))
        after[0] = earliest
        for sent_ns, seq, position in self._sent:
            if after[seq] < sent_ns:
                self.report.add(
                    FindingKind.LATE, "", position, f"a change after {seq} was answered before"
                )

    # -- what came of it ----------------------------------------------------------------------

    def judge(self) -> None:
        """Compare what was expected with what arrived and what was dropped."""
        arrived = self._arrived()
        dropped, backfill_drops = self._drops()
        for key, positions in self._positions.items():
            expected = collections.Counter(
                self._path(uid)
                for position in positions
                for uid in self._expected.get(position, ())
            )
            found = arrived.pop(key, collections.Counter())
            for path, count in found.items():
                self._judge_arrivals(key, path, count, expected[path])
            for position in positions:
                for uid in self._expected.get(position, ()):
                    self._judge_match(position, uid, found, dropped, backfill_drops)
        for key, found in arrived.items():
            self.report.add(FindingKind.STRANGER, next(iter(found)), key, "not in the log")
        if self.report.copies > self._evidence.copies_max:
            detail = f"{self.report.copies} copies, {self._evidence.copies_max} allowed"
            self.report.add(FindingKind.COPIES, "", "all", detail)

    def _arrived(self) -> dict[Key, collections.Counter[str]]:
        arrived: dict[Key, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for line in self._evidence.arrivals:
            if 200 <= line.status < 300:
                arrived[Key(line.source, line.id)][line.route] += 1
        return arrived

    def _drops(self) -> tuple[set[tuple[Position, str]], dict[tuple[int, str], list[BackfillDrop]]]:
        """Matches that were dropped, and backfills; each must be of a route that was deleted."""
        dropped: set[tuple[Position, str]] = set()
        backfill_drops: dict[tuple[int, str], list[BackfillDrop]] = collections.defaultdict(list)
        for drop in self._evidence.drops:
            if drop.route not in self._deleted:
                detail = "the route was never deleted"
                self.report.add(FindingKind.DROPPED, self._path(drop.route), drop, detail)
            if isinstance(drop, BackfillDrop):
                backfill_drops[drop.partition, drop.route].append(drop)
                continue
            position = Position(drop.partition, drop.offset, drop.index)
            dropped.add((position, drop.route))
            if drop.route not in self._expected.get(position, ()):
                detail = "dropped, although it is no match"
                self.report.add(FindingKind.EXTRA, self._path(drop.route), position, detail)
        return dropped, backfill_drops

    def _judge_arrivals(self, key: Key, path: str, count: int, expected: int) -> None:
        if not expected:
            detail = "delivered, although no route of this path stood there and matches"
            self.report.add(FindingKind.EXTRA, path, key, detail)
        else:
            self.report.copies += max(0, count - expected)

    def _judge_match(
        self,
        position: Position,
        uid: str,
        found: collections.Counter[str],
        dropped: set[tuple[Position, str]],
        backfill_drops: Mapping[tuple[int, str], list[BackfillDrop]],
    ) -> None:
        """One match: an arrival stands for it, or a drop."""
        path = self._path(uid)
        if found[path] > 0:
            found[path] -= 1
            self.report.delivered += 1
            return
        backfills = backfill_drops.get((position.partition, uid), ())
        if (position, uid) in dropped or any(
            backfill.from_offset <= position.offset < backfill.to_offset for backfill in backfills
        ):
            self.report.dropped += 1
            return
        detail = f"route {uid} stood before the event and matches it; nothing came of it"
        self.report.add(FindingKind.MISSING, path, position, detail)

    def _path(self, uid: str) -> str:
        return self._paths.get(uid, uid)
