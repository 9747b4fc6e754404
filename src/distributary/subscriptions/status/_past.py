"""What happened lately, for charts: a point each five seconds, and a point each minute."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

FINE_S: Final = 5.0
"""Interval of the points of the last two minutes."""
COARSE_S: Final = 60.0
"""Interval of the points of the last hour."""
FINE_COUNT: Final = 24
"""Points each ``FINE_S``: two minutes."""
COARSE_COUNT: Final = 60
"""Points each ``COARSE_S``: an hour."""
NAMESPACES_MAX: Final = 200
"""Most namespaces with a past, some 20 KB each; the one that was busy longest ago is forgotten."""


class Totals(NamedTuple):
    """Numbers that only rise, of one namespace, since the process began.

    Attributes:
        accepted: Events published.
        delivered: Matches delivered.
        dead_lettered: Matches that became dead letters.
        dropped: Matches dropped.
        failed: Attempts failed.
    """

    accepted: float = 0
    delivered: float = 0
    dead_lettered: float = 0
    dropped: float = 0
    failed: float = 0


class Point(NamedTuple):
    """What happened within an interval. Rates are per second.

    Attributes:
        wall_ms: Its end, wall clock, milliseconds.
        rates: Of each of the totals.
        failing: Routes that failed at its end.
        waiting: Retry rows at its end.
        backlog: Records of the log, of all namespaces, that the pipeline had not taken.
        p50_s: Half of the deliveries, of all namespaces, took no longer, seconds; None: there were
            none.
        p99_s: The same of 99 in 100.
    """

    wall_ms: int
    rates: Totals
    failing: int
    waiting: int
    backlog: int
    p50_s: float | None
    p99_s: float | None


class Now(NamedTuple):
    """What is measured at the end of an interval, of all namespaces.

    Attributes:
        wall_ms: When.
        now_s: The same, monotonic.
        backlog: See ``Point``.
        bounds: Upper bounds of the buckets of latency, seconds.
        counts: Deliveries by bucket, since ever; one more than bounds.
    """

    wall_ms: int
    now_s: float
    backlog: int
    bounds: Sequence[float]
    counts: Sequence[int]


class _Series:
    """Points of one interval."""

    def __init__(self, every_s: float, count: int) -> None:
        self.points: deque[Point] = deque(maxlen=count)
        self._every_s = every_s
        self._before: tuple[Now, Totals] | None = None

    def take(self, now: Now, totals: Totals, failing: int, waiting: int) -> None:
        if self._before is None:
            self._before = now, totals
            return
        then, before = self._before
        passed_s = now.now_s - then.now_s
        if passed_s < self._every_s * 0.99:
            return
        self._before = now, totals
        rates = (max(0.0, a - b) / passed_s for a, b in zip(totals, before, strict=True))
        since = (
            [max(0, a - b) for a, b in zip(now.counts, then.counts, strict=True)]
            if len(now.counts) == len(then.counts)
            else list(now.counts)
        )
        p50_s, p99_s = (quantile(share, now.bounds, since) for share in (0.5, 0.99))
        point = Point(now.wall_ms, Totals(*rates), failing, waiting, now.backlog, p50_s, p99_s)
        self.points.append(point)


def quantile(share: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The time within which *share* of the observations lie, between the bounds of its bucket.

    Args:
        share: From 0 to 1.
        bounds: Upper bounds of the buckets, seconds, rising.
        counts: By bucket; the last one has no bound, and counts as its lower one.

    Returns:
        Seconds; None: there are no observations.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, running, low = share * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and running + count >= wanted:
            return low + (bound - low) * (wanted - running) / count
        running, low = running + count, bound
    return low


class Past:
    """The past of each namespace. For one thread at a time."""

    def __init__(self) -> None:
        self._series: dict[str, tuple[_Series, _Series]] = {}

    def take(
        self, now: Now, totals: Mapping[str, Totals], standing: Mapping[str, tuple[int, int]]
    ) -> None:
        """Note how things are now; called about once in ``FINE_S``.

        Args:
            now: What is measured of all namespaces.
            totals: By namespace.
            standing: Failing routes and waiting rows, by namespace.
        """
        for namespace, mine in totals.items():
            series = self._series.get(namespace)
            if series is None:
                series = _Series(FINE_S, FINE_COUNT), _Series(COARSE_S, COARSE_COUNT)
                self._series[namespace] = series
            failing, waiting = standing.get(namespace, (0, 0))
            for one in series:
                one.take(now, mine, failing, waiting)
        while len(self._series) > NAMESPACES_MAX:
            del self._series[min(self._series, key=self._busy_ms)]

    def _busy_ms(self, namespace: str) -> int:
        fine, coarse = self._series[namespace]
        busy = [point.wall_ms for one in (fine, coarse) for point in one.points if any(point.rates)]
        return max(busy, default=0)

    def fine(self, namespace: str) -> list[Point]:
        """Points of the last two minutes, the oldest first."""
        found = self._series.get(namespace)
        return [] if found is None else list(found[0].points)

    def coarse(self, namespace: str) -> list[Point]:
        """Points of the last hour, the oldest first."""
        found = self._series.get(namespace)
        return [] if found is None else list(found[1].points)
