"""Metrics: counters on the hot path, merged over several processes.

A process counts in plain Python numbers (no locks, no labels looked up per event) and writes a
snapshot of them to a file once a second. Each *role* has one file and one writer (a lock holds the
role). A new process of the role begins with the numbers of the old one, so counters keep rising
after a kill. ``render`` reads the files of all roles and gives the Prometheus text.

Callers: ``engine``, ``partitions`` and ``server`` count; ``server`` renders for ``GET /metrics``,
and declares kind, labels and help of each metric in ``server.processes.supervision.metrics``.
"""

from bisect import bisect_left
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from distributary.core.files import write_atomically

PREFIX = "distributary_"
"""What the names of all metrics begin with, where others see them."""

LATENCY_BOUNDS_S = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of latency buckets, seconds: from one fsync to the longest attempt."""


class Histogram:
    """Counts of observations by bucket; an observation costs one bisect."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Count *value*, *count* times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


class _Saved(msgspec.Struct):
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    histograms: dict[str, tuple[list[float], list[int], float]] = {}


class Meter:
    """The metrics of one role.

    Names may end with labels as Prometheus writes them: ``attempts{verdict="retry"}``.

    Attributes:
        counters: Name -> a number that only rises.
        gauges: Name -> a current number; ends with the process.
        histograms: Name -> buckets.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._saved = b""
        self.counters: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self.histograms: dict[str, Histogram] = {}
        if path is not None:
            self._resume(_load(path))

    def _resume(self, saved: _Saved) -> None:
        self.counters.update(saved.counters)
        for name, (bounds, counts, total) in saved.histograms.items():
            histogram = Histogram(tuple(bounds))
            if len(counts) == len(histogram.counts):
                histogram.counts = list(counts)
                histogram.total = total
                self.histograms[name] = histogram

    def add(self, name: str, count: float = 1) -> None:
        """Increase the counter *name* by *count*."""
        self.counters[name] = self.counters.get(name, 0) + count

    def histogram(self, name: str, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> Histogram:
        """Return the histogram *name*; keep it and observe on it."""
        found = self.histograms.get(name)
        if found is None or found.bounds != bounds:
            found = self.histograms[name] = Histogram(bounds)
        return found

    def save(self) -> None:
        """Write the snapshot if it has changed, without a sync: a power cut may lose it.

        If it cannot be written (a full disk), that is counted and not raised: the next snapshot has
        all numbers, and no caller may stop for want of metrics.
        """
        if self._path is None:
            return
        snapshot = msgspec.json.encode(_snapshot(self))
        if snapshot == self._saved and self._path.exists():
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, snapshot)
            self._saved = snapshot
        except OSError:
            self.add("snapshots_left_out_total")


def _snapshot(meter: Meter) -> _Saved:
    histograms = {
        name: (list(each.bounds), each.counts, each.total)
        for name, each in meter.histograms.items()
    }
    return _Saved(meter.counters, meter.gauges, histograms)


def _load(path: Path) -> _Saved:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Saved)
    except (OSError, msgspec.MsgspecError):
        return _Saved()  # No file yet, or one truncated by a power cut: counting starts again.


def _split(name: str) -> tuple[str, list[str], list[str]]:
    base, brace, rest = name.partition("{")
    if not brace:
        return base, [], []
    pairs = [pair.partition("=") for pair in rest.rstrip("}").split(",")]
    return base, [key for key, _, _ in pairs], [value.strip('"') for _, _, value in pairs]


def read_sums(paths: Iterable[Path]) -> tuple[dict[str, float], dict[str, Histogram]]:
    """Return the counters and histograms of the snapshots at *paths*, summed over all of them."""
    counters: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}
    for saved in map(_load, paths):
        _add(counters, saved.counters)
        _add_histograms(histograms, saved)
    return counters, histograms


def _add(sums: dict[str, float], numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        sums[name] = sums.get(name, 0) + value


def _add_histograms(sums: dict[str, Histogram], saved: _Saved) -> None:
    for name, (bounds, counts, total) in saved.histograms.items():
        merged = sums.setdefault(name, Histogram(tuple(bounds)))
        if merged.bounds == tuple(bounds):
            merged.counts = [a + b for a, b in zip(merged.counts, counts, strict=True)]
            merged.total += total


class Families:
    """The metrics of the snapshots at *paths* and the numbers in *now*, summed.

    Args:
        paths: Snapshot files, one a role.
        now: Numbers of the calling process.
        helps: Name (without prefix) -> its help line.
        namespaces: Only the series of these, by their label ``namespace``; None: all.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        now: Meter,
        helps: dict[str, str],
        namespaces: AbstractSet[str] | None = None,
    ) -> None:
        self._saved = [*map(_load, paths), _snapshot(now)]
        if namespaces is not None:
            self._saved = [_of_namespaces(each, namespaces) for each in self._saved]
        self._helps = helps

    def collect(self) -> Iterable[Metric]:
        """Yield each metric with its samples, as Prometheus names them."""
        counters: dict[str, float] = {}
        gauges: dict[str, float] = {}
        histograms: dict[str, Histogram] = {}
        for saved in self._saved:
            _add(counters, saved.counters)
            _add(gauges, saved.gauges)
            _add_histograms(histograms, saved)
        yield from self._numbers(CounterMetricFamily, counters)
        yield from self._numbers(GaugeMetricFamily, gauges)
        yield from self._histograms(histograms)

    def render(self) -> bytes:
        """Return them as Prometheus text."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def _help(self, base: str) -> str:
        return self._helps.get(base, base.replace("_", " "))

    def _numbers(
        self, kind: type[CounterMetricFamily | GaugeMetricFamily], sums: dict[str, float]
    ) -> Iterable[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, value in sorted(sums.items()):
            base, keys, values = _split(name)
            if base not in families:
                families[base] = kind(PREFIX + base, self._help(base), labels=keys)
            families[base].add_metric(values, value)
        return families.values()

    def _histograms(self, sums: dict[str, Histogram]) -> Iterable[Metric]:
        for name, histogram in sorted(sums.items()):
            base, keys, values = _split(name)
            family = HistogramMetricFamily(PREFIX + base, self._help(base), labels=keys)
            buckets: list[tuple[str, float]] = []
            running = 0
            for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
                running += count
                buckets.append((str(bound), running))
            buckets.append(("+Inf", sum(histogram.counts)))
            family.add_metric(values, buckets, histogram.total)
            yield family


def _of_namespaces(saved: _Saved, namespaces: AbstractSet[str]) -> _Saved:
    """The series of *saved* that have a label ``namespace`` with one of these names."""

    def among(name: str) -> bool:
        _, keys, values = _split(name)
        return dict(zip(keys, values, strict=True)).get("namespace") in namespaces

    return _Saved(
        {name: value for name, value in saved.counters.items() if among(name)},
        {name: value for name, value in saved.gauges.items() if among(name)},
        {name: each for name, each in saved.histograms.items() if among(name)},
    )
