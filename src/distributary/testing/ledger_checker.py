"""The ledger checker: compares what clients sent with what sinks got, and lists broken promises.

Used by every test that kills, disconnects or overloads something. The promises (per event and
route; source and id identify an event):

==========  ============================================================================
finding     the broken promise
==========  ============================================================================
lost        acknowledged and matching, yet neither delivered, dead-lettered, dropped with a
            recorded reason, nor still pending
phantom     reached a sink, but was never sent, or was refused for good
changed     payload or attributes differ from what was sent
misrouted   reached a route that it does not match
duplicate   more copies than sendings and the declared bound allow
==========  ============================================================================

An event whose sending has an unknown outcome may appear zero or more times. A delivery without a
2xx is an attempt, and proves only that the event exists.

Callers: ``check_ledgers`` (the program), crash and soak tests, the demo through the program. Pure:
reads no file, no clock.
"""

import collections
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.cli.ledger import Arrival, Sent, attributes_sha256

__all__ = [
    "EXAMPLES_MAX",
    "Finding",
    "FindingKind",
    "Key",
    "Report",
    "RouteEvidence",
    "check",
    "expects_keys",
]

EXAMPLES_MAX = 100
"""Findings of one kind that are kept; further ones are only counted."""


class Key(NamedTuple):
    """The identity of an event."""

    source: str
    id: str


class FindingKind(enum.StrEnum):
    """Which promise is broken; see the table above."""

    LOST = "lost"
    PHANTOM = "phantom"
    CHANGED = "changed"
    MISROUTED = "misrouted"
    DUPLICATE = "duplicate"


class Finding(NamedTuple):
    """One broken promise.

    Attributes:
        kind: Which promise.
        route: Route of the finding.
        source: Source of the event.
        id: Id of the event.
        detail: What was expected and what was found.
    """

    kind: FindingKind
    route: str
    source: str
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class RouteEvidence:
    """The evidence about one route.

    Attributes:
        matches: Whether this route must get a sent event.
        arrivals: Lines of its sink's ledger.
        dead: Lines of its dead letter sink's ledger.
        pending: Events that wait for an attempt, by the state dump.
        settled: Events kept as dead letters or dropped with a reason, by the state dump.
    """

    matches: Callable[[Sent], bool]
    arrivals: Iterable[Arrival] = ()
    dead: Iterable[Arrival] = ()
    pending: Iterable[Key] = ()
    settled: Iterable[Key] = ()


@dataclass(slots=True)
class Report:
    """The result of the check.

    Attributes:
        sent: Sent events by state.
        routes: By route, counts of: expected, delivered, dead, pending, settled, attempts (not
            answered 2xx), extra (copies beyond one for each sending).
        counts: Findings by kind.
        examples: The first findings of each kind.
    """

    sent: dict[str, int] = field(default_factory=dict)
    routes: dict[str, dict[str, int]] = field(default_factory=dict)
    counts: dict[FindingKind, int] = field(default_factory=dict)
    examples: list[Finding] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no promise was broken."""
        return not self.counts

    def add(self, finding: Finding) -> None:
        """Count *finding*, and keep it unless ``EXAMPLES_MAX`` of its kind are kept."""
        count = self.counts.get(finding.kind, 0) + 1
        self.counts[finding.kind] = count
        if count <= EXAMPLES_MAX:
            self.examples.append(finding)


def expects_keys(keys: Iterable[Key]) -> Callable[[Sent], bool]:
    """Returns a predicate that holds for the events in *keys*."""
    wanted = frozenset(keys)
    return lambda sent: Key(sent.source, sent.id) in wanted


def _may_exist(sent: Sent) -> bool:
    """True where the log may hold the event: a 5xx promises nothing, but rules nothing out."""
    if sent.state != "refused" or sent.ambiguous:
        return True
    return sent.status is not None and sent.status >= 500


def check(
    sent: Iterable[Sent], routes: Mapping[str, RouteEvidence], *, duplicates_max: int = 0
) -> Report:
    """Compare *sent* with the evidence of every route.

    Args:
        sent: Lines of all client ledgers.
        routes: Evidence by route name.
        duplicates_max: Copies beyond one for each sending that a route may have in all: the
            attempts in flight at each crash, times the number of crashes.

    Returns:
        The report; ``passed`` only if every promise held.
    """
    facts: dict[Key, list[Sent]] = collections.defaultdict(list)
    report = Report(sent={"acked": 0, "refused": 0, "unknown": 0})
    for line in sent:
        facts[Key(line.source, line.id)].append(line)
        report.sent[line.state] += 1
    for name, evidence in routes.items():
        _Route(name, evidence, facts, report).check(duplicates_max)
    return report


class _Route:
    """The check of one route."""

    def __init__(
        self, name: str, evidence: RouteEvidence, facts: Mapping[Key, list[Sent]], report: Report
    ) -> None:
        self._name = name
        self._evidence = evidence
        self._facts = facts
        self._report = report
        self._copies: collections.Counter[Key] = collections.Counter()
        self._digests: dict[Key, frozenset[tuple[str, str]]] = {}
        self._counts = dict.fromkeys(
            ("expected", "delivered", "dead", "pending", "settled", "attempts", "extra"), 0
        )
        report.routes[name] = self._counts

    def check(self, duplicates_max: int) -> None:
        """Check every arrival, then look for lost events and for duplicates."""
        self._take_arrivals("delivered", self._evidence.arrivals)
        self._take_arrivals("dead", self._evidence.dead)
        accounted = set(self._copies)
        for what in ("pending", "settled"):
            keys = frozenset(getattr(self._evidence, what))
            self._counts[what] = len(keys)
            accounted |= keys
        self._find_lost(accounted)
        self._find_duplicates(duplicates_max)

    def _take_arrivals(self, what: str, arrivals: Iterable[Arrival]) -> None:
        for arrival in arrivals:
            key = Key(arrival.source, arrival.id)
            self._judge(key, arrival)
            if 200 <= arrival.status < 300:
                self._copies[key] += 1
                self._counts[what] += 1
            else:
                self._counts["attempts"] += 1

    def _judge(self, key: Key, arrival: Arrival) -> None:
        """Check one arrival."""
        sendings = self._facts.get(key, [])
        if not any(map(_may_exist, sendings)):
            detail = "refused for good when it was sent" if sendings else "never sent"
            self._find(FindingKind.PHANTOM, key, detail)
            return
        if not any(map(self._evidence.matches, sendings)):
            self._find(FindingKind.MISROUTED, key, "does not match this route")
        if arrival.data_sha256 not in {sent.data_sha256 for sent in sendings}:
            self._find(FindingKind.CHANGED, key, "the payload is not the one sent")
        elif not self._has_attributes(key, sendings, arrival):
            self._find(FindingKind.CHANGED, key, "the attributes are not those sent")

    def _has_attributes(self, key: Key, sendings: list[Sent], arrival: Arrival) -> bool:
        known = self._digests.get(key)
        if known is None:
            known = frozenset(
                (sent.data_sha256, attributes_sha256(sent.attributes)) for sent in sendings
            )
            self._digests[key] = known
        return (arrival.data_sha256, arrival.attributes_sha256) in known

    def _find_lost(self, accounted: set[Key]) -> None:
        for key, sendings in self._matching():
            if not any(sent.state == "acked" for sent in sendings):
                continue
            self._counts["expected"] += 1
            if key not in accounted:
                detail = "acknowledged, then neither delivered, dead-lettered nor pending"
                self._find(FindingKind.LOST, key, detail)

    def _matching(self) -> Iterator[tuple[Key, list[Sent]]]:
        matches = self._evidence.matches
        for key, all_sendings in self._facts.items():
            sendings = [sent for sent in all_sendings if matches(sent)]
            if sendings:
                yield key, sendings

    def _find_duplicates(self, duplicates_max: int) -> None:
        """Copies that no sending explains, once the bound of the whole route is used up."""
        for key, copies in self._copies.items():
            explained = self._copies_max(key)
            extra = copies - explained
            if explained == 0 or extra <= 0:
                continue  # a phantom or misrouted event: reported for each copy already
            self._counts["extra"] += extra
            if self._counts["extra"] > duplicates_max:
                detail = f"{copies} copies; {duplicates_max} extra allowed for the whole route"
                self._find(FindingKind.DUPLICATE, key, detail)

    def _copies_max(self, key: Key) -> int:
        """Most times that the log may hold the event for this route."""
        sendings = filter(self._evidence.matches, self._facts.get(key, ()))
        return sum(_may_exist(sent) + sent.ambiguous for sent in sendings)

    def _find(self, kind: FindingKind, key: Key, detail: str) -> None:
        self._report.add(Finding(kind, self._name, key.source, key.id, detail))
