"""The metrics of subscriptions: of the busiest each, of the others their sums."""

import heapq
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from distributary.subscriptions.store.demands import RouteName

OTHERS: Final = "(others)"
"""Label of the sum over those without metrics of their own; no id has a bracket."""
COUNTED: Final = ("delivered", "dead_lettered", "dropped", "attempts_failed")
STANDING: Final = ("failing", "waiting")
HOLD: Final = 1.1
"""A route keeps metrics of its own until another is so many times as busy: two that are about as
busy must not take turns, since Prometheus would see the growth of either in both series."""

Counts = tuple[int, int, int, int]
"""As ``COUNTED``."""
_NOTHING: Final = (0, 0, 0, 0)


class SubscriptionMetrics:
    """Sums them, look by look, so that no counter falls when a route gets or loses its own.

    The counters of a route with metrics of its own are its totals. Those of the others are what
    they have grown by since the first look: a sum of totals would fall when one gets metrics of
    its own or is deleted, which Prometheus takes for a restart, and the whole sum for growth.

    Args:
        own_max: So many have metrics of their own.
    """

    def __init__(self, own_max: int) -> None:
        self._own_max = own_max
        self._own: set[str] = set()
        self._summed: set[str] = set()
        self._seen: dict[str, Counts] | None = None
        self._grown: Counts | None = None

    def look(
        self,
        names: Mapping[str, RouteName],
        counts: Mapping[str, Counts],
        *,
        waiting: Mapping[str, int],
        failing: AbstractSet[str],
    ) -> tuple[dict[str, float], dict[str, float]]:
        """The counters and gauges now.

        Args:
            names: Of all routes that have had an outcome, by uid.
            counts: Matches of each.
            waiting: Waiting rows of the routes that have some.
            failing: Routes whose deliveries fail.
        """
        own = self._own = self._busiest(names, counts)
        others = names.keys() - own
        self._grow(counts, others)
        counters: dict[str, float] = {}
        gauges: dict[str, float] = {}

        def add(namespace: str, text: str, values: Iterable[int], now: Iterable[int]) -> None:
            labels = f'{{namespace="{namespace}",subscription="{text}"}}'
            for counter, value in zip(COUNTED, values, strict=True):
                key = f"subscription_{counter}_total{labels}"
                counters[key] = counters.get(key, 0) + value
            for gauge, number in zip(STANDING, now, strict=True):
                key = f"subscription_{gauge}{labels}"
                gauges[key] = gauges.get(key, 0) + number

        for uid in own:
            name = names[uid]
            add(name.namespace, name.text, counts[uid], (uid in failing, waiting.get(uid, 0)))
        if self._grown is not None:  # once there were others
            fails = sum(uid in others for uid in failing)
            waits = sum(count for uid, count in waiting.items() if uid in others)
            add(OTHERS, OTHERS, self._grown, (fails, waits))
        return counters, gauges

    def _busiest(self, names: Mapping[str, RouteName], counts: Mapping[str, Counts]) -> set[str]:
        totals = zip(map(sum, counts.values()), counts, strict=True)
        found: list[tuple[float, str]] = [
            one for one in heapq.nlargest(self._own_max, totals) if one[1] not in self._own
        ]
        found += [(HOLD * sum(counts[uid]), uid) for uid in self._own if uid in counts]
        return {uid for _, uid in heapq.nlargest(self._own_max, found) if uid in names}

    def _grow(self, counts: Mapping[str, Counts], others: set[str]) -> None:
        """Add what those without metrics of their own have grown by since the last look."""
        if others and self._grown is None:
            self._grown = _NOTHING
        before, self._summed = self._summed, others
        if self._seen is None:  # their past is of unknown length
            self._seen = dict(counts)
            return
        seen = self._seen
        for uid in seen.keys() - counts.keys():
            del seen[uid]
        for uid, now in counts.items():
            then = seen.get(uid, _NOTHING)
            # One without a name is deleted, or is counted when it has a name.
            if now == then or not (uid in others or uid in self._own):
                continue
            # Not below what was seen: what a kill has lost is counted again.
            top = seen[uid] = _highest(then, now)
            # One that got metrics of its own meanwhile: they show no growth until the next look.
            if uid in others or uid in before:
                self._grown = _sum(self._grown or _NOTHING, top, then)


def _highest(one: Counts, other: Counts) -> Counts:
    return (
        max(one[0], other[0]),
        max(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def _sum(grown: Counts, now: Counts, then: Counts) -> Counts:
    """*grown*, and what lies between *then* and *now*."""
    return (
        grown[0] + now[0] - then[0],
        grown[1] + now[1] - then[1],
        grown[2] + now[2] - then[2],
        grown[3] + now[3] - then[3],
    )
