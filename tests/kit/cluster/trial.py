"""Traffic through a server or a cluster while things fail, with a verdict and the times it took.

Half of the events have keys, with a publisher of their own, so that a partition that takes none
holds up no event that could go elsewhere. Sinks are the witnesses: what was lost, what came twice,
and when deliveries went on, is seen there and not asked of the server.

Callers: tests of the cluster, the soak run. Hides: publishers, sinks, ledgers, measuring.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.cli.ledger import Sent, read_arrivals, read_sent
from distributary.core.event import Event
from distributary.testing.ledger_checker import Report, RouteEvidence, check
from kit.running_server import wait_until
from kit.traffic import Traffic

__all__ = ["RATE_PER_S", "Seen", "Trial", "TrialReport", "table"]

RATE_PER_S: Final = 500.0
"""Events of both publishers together."""

ANSWER_S_MAX: Final = 3.0
"""A publisher that has no answer for so long turns to the next node."""

PAUSE_S_MAX: Final = 0.25
"""Longest pause of a publisher before it tries again: the times that are measured are the
server's, not those of a patient client."""

PROBES: Final = 100
"""Events of each publisher that were sent after a fault and have arrived: enough for every
partition to be among them."""

RECOVER_S_MAX: Final = 240.0
"""A recovery that takes longer hangs, also where other tests run. The caller judges the figures."""

WATCH_S: Final = 3.0
"""A fault is watched for so long at least: none is felt later, except by a lease that runs out."""

DURABLE_S: Final = 2.0
"""An outcome that is not durable so long after its answer is late by any measure."""

ORPHAN_S: Final = 1.5
"""Who lost his lease, or the processes around him, may finish attempts for so long."""

KEYS: Final = 23
RARE: Final = 50
"""One event in so many is of the type that a sink refuses."""

REFUSE: Final = Behaviour(statuses=(StatusChance(400),))
PATIENT: Final = {"retry": 1000, "backoffDelay": "PT0.1S", "backoffMax": "PT0.5S"}
SOURCE: Final = "/trial"

FILTERS: Final[dict[str, list[dict[str, Any]]]] = {
    "everything": [],
    "filtered": [{"any": [{"exact": {"type": "b"}}, {"suffix": {"id": "7"}}]}],
    "refused": [{"exact": {"type": "rare"}}],
}
"""Route -> its filters; that of ``refused`` has a dead letter sink."""

Subscribe = Callable[..., str]
"""Makes a subscription to a sink, with more members of the object; its id."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the witnesses saw of one fault.

    Attributes:
        fault: Its name.
        at_s: When it happened, monotonic seconds.
        delivering_s: Longest that an acknowledged event waited for its delivery since then, until
            everything was as before: partitions may move for a second time.
        publishing_s: Longest that a publisher of events without keys tried since then.
        keyed_s: The same for events with keys.
        over_s: When the last event that it could have touched had arrived, monotonic seconds.
        copies: Events that arrived again, and whose first arrival was about its time.
        outlived: Owners that had their partitions before it, and when deliveries went on.
    """

    fault: str
    at_s: float
    delivering_s: float
    publishing_s: float
    keyed_s: float
    over_s: float
    copies: int = 0
    outlived: int = 0

    def __str__(self) -> str:
        """A line for people."""
        return (
            f"delivering after {self.delivering_s:.2f} s, publishing after {self.publishing_s:.2f}"
            f" s, with keys after {self.keyed_s:.2f} s"
        )


@dataclass(slots=True)
class TrialReport:
    """The result.

    Attributes:
        seen: Of each fault, in order.
        acked: Acknowledged events.
        verdict: Of the checker of ledgers.
        unexplained: Copies whose first arrival was not about the time of any fault.
    """

    seen: list[Seen] = field(default_factory=list)
    acked: int = 0
    verdict: Report = field(default_factory=Report)
    unexplained: list[tuple[str, float, float]] = field(default_factory=list)


class Trial:
    """Publishers and sinks around servers; a context manager.

    Args:
        folder: For the ledgers.
        urls: Nodes to publish to.
        rate_per_s: Events a second.
    """

    def __init__(
        self, folder: Path, urls: Sequence[str], *, rate_per_s: float = RATE_PER_S
    ) -> None:
        sinks = {"everything": Behaviour(), "filtered": Behaviour(), "refused": REFUSE}
        self._urls = list(urls)
        self._rate_per_s = rate_per_s
        self._open = Traffic(_made(folder / "open"), sinks | {"dead": Behaviour()})
        self._keyed = Traffic(_made(folder / "keyed"), {})
        self._report = TrialReport()
        # What came before is not looked through once more for each fault: runs take hours.
        self._settled = (0, 0)
        self._settled_before = (0, 0)

    @property
    def seen(self) -> list[Seen]:
        """Of each fault so far, in order; their copies are counted at the end."""
        return self._report.seen

    @property
    def acked(self) -> int:
        """How many events have been acknowledged."""
        return sum(len(traffic.acked) for traffic in self._both)

    @property
    def _both(self) -> tuple[Traffic, Traffic]:
        return self._open, self._keyed

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for traffic in self._both:
                stack.enter_context(traffic)
            stack.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        for traffic in self._both:
            traffic.close()

    def begin(self, subscribe: Subscribe) -> None:
        """Subscribe the sinks, publish, and wait until events arrive."""
        for name, filters in FILTERS.items():
            delivery: dict[str, Any] = dict(PATIENT)
            if name == "refused":
                delivery["deadLetterSink"] = self._open.sinks["dead"].url
            settings = {"delivery": delivery}
            subscribe(self._open.sinks[name].url, filters=filters, protocolsettings=settings)
        for traffic, make in ((self._open, _event), (self._keyed, _keyed_event)):
            traffic.publish(
                self._urls,
                make,
                self._rate_per_s / 2,
                answer_s_max=ANSWER_S_MAX,
                pause_s_max=PAUSE_S_MAX,
            )
        self._wait_arrived((0, 0), "events arrive")

    @contextlib.contextmanager
    def fault(
        self, name: str, *, watch_s: float = WATCH_S, touches_s: float = ORPHAN_S
    ) -> Iterator[None]:
        """The body makes something fail; then wait until everything is well again, and measure.

        Args:
            name: Of the fault.
            watch_s: How long to watch at least: some faults are felt late.
            touches_s: Events that arrive so long after the fault may be those in flight.
        """
        first = self._open.begun, self._keyed.begun
        self._settled_before = self._settled
        at_s = time.monotonic()
        yield
        time.sleep(max(0.0, at_s + watch_s - time.monotonic()))
        try:
            self._wait_arrived(first, f"deliveries go on after {name}")
        finally:
            self._report.seen.append(self._measured(name, at_s, touches_s))

    def whole_again(self, outlived: int) -> None:
        """Everything is as it was before the last fault, which so many owners outlived."""
        seen = self._report.seen[-1]
        waits = self._waits(seen.at_s)
        self._report.seen[-1] = replace(seen, outlived=outlived, **waits)

    def _measured(self, name: str, at_s: float, touches_s: float) -> Seen:
        """What has been seen of a fault until now."""
        over_s = max(time.monotonic(), at_s + touches_s)
        return Seen(fault=name, at_s=at_s, over_s=over_s, **self._waits(at_s))

    def _waits(self, at_s: float) -> dict[str, Any]:
        """The longest waits since *at_s*."""
        waits = (came_s - max(acked_s, at_s) for acked_s, came_s in self._deliveries(at_s))
        return {
            "delivering_s": max(waits, default=0.0),
            "publishing_s": _longest(self._open, self._settled_before[0], at_s),
            "keyed_s": _longest(self._keyed, self._settled_before[1], at_s),
        }

    def _deliveries(self, since_s: float) -> Iterator[tuple[float, float]]:
        """When each event was acknowledged and when it came, of those that came after *since_s*."""
        taken = self._open.sinks["everything"].taken
        names = (_name, _keyed_name)
        for traffic, start, name in zip(self._both, self._settled_before, names, strict=True):
            for number in range(start, traffic.begun):
                acked_s, came_s = traffic.acked.get(number), taken.get(name(number))
                if acked_s is not None and came_s is not None and came_s > since_s:
                    yield acked_s, came_s

    def _wait_arrived(self, first: tuple[int, int], what: str) -> None:
        """Wait until many events of both publishers, and all acknowledged by then, came."""
        wait_until(lambda: self._enough(first), RECOVER_S_MAX, what)
        begun = self._open.begun, self._keyed.begun
        settled = tuple(map(_all_acked, self._both, self._settled, begun))
        owed = self._owed(since=self._settled)
        taken = self._open.sinks["everything"].taken
        wait_until(lambda: owed <= taken.keys(), RECOVER_S_MAX, f"{what}: all events come")
        self._settled = settled[0], settled[1]

    def _enough(self, first: tuple[int, int]) -> bool:
        taken = self._open.sinks["everything"].taken
        names = (_name, _keyed_name)
        for traffic, start, name in zip(self._both, first, names, strict=True):
            numbers = range(start, traffic.begun)
            if sum(n in traffic.acked and name(n) in taken for n in numbers) < PROBES:
                return False
        return True

    def _owed(
        self,
        matches: Callable[[int, str], bool] = lambda _n, _name: True,
        since: tuple[int, int] = (0, 0),
    ) -> set[str]:
        """Ids of all acknowledged events that match, from the numbers *since* on."""
        return {
            name(number)
            for traffic, start, name in zip(self._both, since, (_name, _keyed_name), strict=True)
            for number in range(start, traffic.begun)
            if number in traffic.acked and matches(number, name(number))
        }

    def missing(self) -> set[str]:
        """Ids of acknowledged events that have not come where they must."""
        sinks = self._open.sinks
        owed = {
            "everything": self._owed(),
            "filtered": self._owed(lambda n, name: _type(n) == "b" or name.endswith("7")),
            "dead": self._owed(lambda n, _name: _type(n) == "rare"),
        }
        return {each for sink, names in owed.items() for each in names - sinks[sink].taken.keys()}

    def copies_since(self, since_s: float) -> list[tuple[str, float, float]]:
        """Events that came again after *since_s*: id, first time and this one."""
        found = tuple(self._open.sinks["everything"].copies)
        return [copy for copy in found if copy[2] > since_s]

    def conclude(self) -> TrialReport:
        """End the traffic, wait for the last event, and judge."""
        for traffic in self._both:
            traffic.finish()
        report = self._report
        report.acked = self.acked
        with contextlib.suppress(Exception):  # what is missing is found by the checker
            wait_until(lambda: not self.missing(), RECOVER_S_MAX, "the last event comes")
        time.sleep(DURABLE_S)  # for copies
        self.__exit__()
        self._explain()
        sent = itertools.chain.from_iterable(read_sent(traffic.sent) for traffic in self._both)
        report.verdict = check(sent, self._evidence(), duplicates_max=1 << 30)
        return report

    def _explain(self) -> None:
        """Say which fault each copy belongs to."""
        report, counts = self._report, [0] * len(self._report.seen)
        resent = {name for traffic in self._both for name in traffic.resent}
        for copy in self._open.sinks["everything"].copies:
            if copy[0] in resent:
                continue
            for index, seen in reversed(list(enumerate(report.seen))):
                if seen.at_s - DURABLE_S <= copy[1] <= seen.over_s:
                    counts[index] += 1
                    break
            else:
                report.unexplained.append(copy)
        report.seen = [
            replace(seen, copies=count) for seen, count in zip(report.seen, counts, strict=True)
        ]

    def _evidence(self) -> Mapping[str, RouteEvidence]:
        sinks = self._open.sinks

        def filtered(sent: Sent) -> bool:
            return sent.attributes["type"] == "b" or sent.id.endswith("7")

        def rare(sent: Sent) -> bool:
            return sent.attributes["type"] == "rare"

        return {
            "everything": RouteEvidence(
                lambda _sent: True, read_arrivals(sinks["everything"].ledger)
            ),
            "filtered": RouteEvidence(filtered, read_arrivals(sinks["filtered"].ledger)),
            "refused": RouteEvidence(
                rare,
                read_arrivals(sinks["refused"].ledger),
                dead=read_arrivals(sinks["dead"].ledger),
            ),
        }


def table(report: TrialReport) -> str:
    """What was seen, for people."""
    lines = [
        f"{'fault':<44}{'delivering':>12}{'publishing':>12}{'with keys':>12}{'copies':>8}",
    ]
    lines += [
        f"{seen.fault:<44}{seen.delivering_s:>10.2f} s{seen.publishing_s:>10.2f} s"
        f"{seen.keyed_s:>10.2f} s{seen.copies:>8}"
        for seen in report.seen
    ]
    counts = {kind.value: count for kind, count in report.verdict.counts.items()} or "none broken"
    lines.append(
        f"{report.acked:,} events acknowledged; promises: {counts};"
        f" copies that no fault explains: {len(report.unexplained)}"
    )
    return "\n".join(lines)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _all_acked(traffic: Traffic, start: int, end: int) -> int:
    """Up to which number, *end* at most, all events from *start* on have been acknowledged."""
    return next((number for number in range(start, end) if number not in traffic.acked), end)


def _longest(traffic: Traffic, start: int, since_s: float) -> float:
    """Longest time from the first attempt to the acknowledgement, of those that came since.

    Those before the number *start* came earlier.
    """
    now_s = time.monotonic()
    waits = [0.0]
    for number in range(start, traffic.begun):
        begun_s, acked_s = traffic.begun_s.get(number), traffic.acked.get(number, now_s)
        if begun_s is not None and acked_s > since_s:
            waits.append(acked_s - max(begun_s, since_s))
    return max(waits)


def _name(number: int) -> str:
    return f"o-{number}"


def _keyed_name(number: int) -> str:
    return f"k-{number}"


def _type(number: int) -> str:
    return "rare" if number % RARE == 0 else "abac"[number % 4]


def _event(number: int, name: Callable[[int], str] = _name, **more: str) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": name(number),
        "source": SOURCE,
        "type": _type(number),
        "datacontenttype": "application/json",
        **more,
    }
    return Event(attributes, b'{"n": %d, "pad": "%s"}' % (number, b"x" * (number % 700)))


def _keyed_event(number: int) -> Event:
    return _event(number, _keyed_name, partitionkey=str(number % KEYS))
