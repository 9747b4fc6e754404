"""The numbers of each route, over all partitions, and how fast it delivers."""

import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.outcome import FAILURES_MIN, Tally, TallyReader, sum_of

RATE_S: Final = 60.0
"""Time over which the rate of a route is taken: a quiet minute shows as 0."""
SAMPLE_S: Final = 5.0
"""Shortest interval of the samples of a rate: at most 13 are kept of a route that delivers."""
STEPS: Final = int(RATE_S / SAMPLE_S)
"""Steps of the last minute."""
REFUSED_MS: Final = 60_000
"""How long after a delivery a partition that makes no attempt for its open breaker does not count
as failing: a breaker tries its sink again within half a minute."""


class Standing(NamedTuple):
    """How a route stands.

    Attributes:
        tally: Its numbers over all partitions.
        rate: Deliveries a second over the last minute.
        rates: The same in each of its ``STEPS``, the oldest first; empty: there were none.
    """

    tally: Tally
    rate: float
    rates: tuple[float, ...] = ()

    @property
    def failing(self) -> bool:
        """Whether its deliveries fail; what only waits for consent does not."""
        return fails(self.tally)


class Change(NamedTuple):
    """What has changed of a route between two looks.

    Attributes:
        route: Its uid.
        tally: Now; None: it is deleted.
        delivered: So many more.
        dead_lettered: So many more.
        dropped: So many more.
        failed: So many more attempts failed.
    """

    route: str
    tally: Tally | None
    delivered: int
    dead_lettered: int
    dropped: int
    failed: int


class _Success(NamedTuple):
    """A delivery after the last failure of a route, in another partition than the failures.

    The owner of that partition does not learn of it, and goes on counting.

    Attributes:
        at_ms: When, wall clock, milliseconds.
        failures: Failed attempts until then, of all partitions.
    """

    at_ms: int
    failures: int


def _newest_success(tally: Tally, known: _Success | None) -> _Success | None:
    """The last such delivery of the route with this *tally*; None: nothing of it fails."""
    if not tally.failing_since_ms:
        return None
    if tally.success_ms > tally.failing_last_ms:
        return _Success(tally.success_ms, tally.failing_count)
    if known is not None and known.failures > tally.failing_count:
        return known._replace(failures=tally.failing_count)  # one partition counts anew
    return known


def _count_since(success: _Success, tally: Tally) -> None:
    """Take from *tally* the failures until *success*, as a delivery in their partition would do.

    It fails again after as many failed attempts as any other route, or when nothing has been
    sent for longer than an open breaker explains.
    """
    failures = tally.failing_count - success.failures
    refused_ms = tally.failing_last_ms - tally.success_ms
    if failures >= FAILURES_MIN or (not failures and refused_ms > REFUSED_MS):
        tally.failing_count = failures or tally.failing_count
        tally.failing_since_ms = max(tally.failing_since_ms, success.at_ms + 1)
        return
    tally.failing_since_ms = tally.failing_last_ms = tally.failing_count = 0
    tally.failing_reason = ""


def fails(tally: Tally) -> bool:
    """Whether this is the tally of a route whose deliveries fail."""
    return bool(tally.failing_since_ms) and tally.failing_reason != AWAITS_CONSENT


NOTHING: Final = Standing(Tally(), 0.0)


def _sum(parts: Iterable[Tally | None]) -> Tally | None:
    """The tally of a route of which each partition has a part, or none."""
    found = [part for part in parts if part is not None]
    return sum_of(found) if found else None


def _steps(samples: Sequence[tuple[float, int]]) -> tuple[float, ...]:
    """Deliveries a second in each step of the last minute, of *samples* until now."""
    now_s, found = samples[-1][0], [0.0] * STEPS
    for (begin_s, before), (end_s, after) in pairwise(samples):
        # A longer gap has no sample since nothing was delivered after its first step.
        until_s = end_s if end_s - begin_s < 2 * SAMPLE_S else begin_s + SAMPLE_S
        newest = max(0, math.floor((now_s - until_s) / SAMPLE_S + 0.5))
        oldest = min(STEPS - 1, math.floor((now_s - begin_s) / SAMPLE_S - 0.5))
        for ago in range(newest, oldest + 1):
            found[-1 - ago] = max(0, after - before) / (until_s - begin_s)
    return tuple(found)


class Standings:
    """Follows the tallies of all partitions. ``of`` is safe from any thread.

    Args:
        readers: One for each partition.
        clock: For rates.

    Attributes:
        unrest: Tallies of the routes that are failing, parked, or have something waiting.
    """

    def __init__(self, readers: Sequence[TallyReader], clock: Clock) -> None:
        self._readers = readers
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, int, int, int]] = {}
        # The route whose last sample is the oldest comes first.
        self._samples: dict[str, deque[tuple[float, int]]] = {}
        self._successes: dict[str, _Success] = {}
        self._over = frozenset[str]()
        self.unrest: dict[str, Tally] = {}

    def of(self, route: str) -> Standing:
        """How *route* stands, as of at most a second or two ago."""
        tally = self._read(route)
        return NOTHING if tally is None else Standing(tally, *self._rates(route))

    def over(self) -> frozenset[str]:
        """Routes that deliver again, though one partition has had no delivery since its failures.

        The same set until it changes.
        """
        return self._over

    def _rates(self, route: str) -> tuple[float, tuple[float, ...]]:
        with self._lock:
            samples = self._samples.get(route)
            if not samples:
                return 0.0, ()
            now_s = self._clock.monotonic_s()
            first_s, first = next((one for one in samples if now_s - one[0] <= RATE_S), samples[-1])
            passed_s = max(now_s - first_s, SAMPLE_S)
            count = self._counts[route][0]
            return (count - first) / passed_s, _steps([*samples, (now_s, count)])

    def counts(self) -> dict[str, tuple[int, int, int, int]]:
        """Matches of each route: delivered, dead-lettered, dropped; and failed attempts."""
        with self._lock:
            return dict(self._counts)

    def unresting(self) -> dict[str, Tally]:
        """Tallies of the routes that are failing, parked, or have something waiting."""
        with self._lock:
            return dict(self.unrest)

    def waiting(self) -> dict[str, int]:
        """Waiting rows of the routes that have some."""
        with self._lock:
            return {route: tally.waiting for route, tally in self.unrest.items()}

    def look(self) -> list[Change]:
        """Follow the tallies; returns what has changed since the last call."""
        changed = [reader.changes() for reader in self._readers]
        changes = [
            self._change(route, self._total(route, changed))
            for route in dict.fromkeys(chain.from_iterable(changed))
        ]
        self._forget_rates()
        return changes

    def _read(self, route: str) -> Tally | None:
        tally = _sum([reader.get(route) for reader in self._readers])
        if tally is not None and tally.failing_since_ms:
            with self._lock:
                success = _newest_success(tally, self._successes.get(route))
            if success is not None:
                _count_since(success, tally)
        return tally

    def _total(self, route: str, changed: Sequence[Mapping[str, Tally | None]]) -> Tally | None:
        """The tally of *route*, some of whose parts are in *changed*; the others are read."""
        return _sum(
            [
                found[route] if route in found else reader.get(route)
                for reader, found in zip(self._readers, changed, strict=True)
            ]
        )

    def _change(self, route: str, tally: Tally | None) -> Change:
        with self._lock:
            if tally is None:
                self._counts.pop(route, None)
                self._samples.pop(route, None)
                self.unrest.pop(route, None)
                self._successes.pop(route, None)
                self._over -= {route}
                return Change(route, None, 0, 0, 0, 0)
            self._judge(route, tally)
            now = tally.delivered, tally.dead_lettered, tally.dropped, tally.failed
            before = self._counts.get(route)
            if before is None:
                before = now if self._is_first(route) else (0, 0, 0, 0)
            self._sample(route, before[0], now[0])
            self._counts[route] = now
            if tally.at_rest:
                self.unrest.pop(route, None)
            else:
                self.unrest[route] = tally
        if now == before:
            return Change(route, tally, 0, 0, 0, 0)
        # Not below 0: a restart may go back by what a kill has lost.
        more = (max(0, each - other) for each, other in zip(now, before, strict=True))
        return Change(route, tally, *more)

    def _judge(self, route: str, tally: Tally) -> None:
        """Take from *tally* the failures before a delivery in another partition."""
        success = _newest_success(tally, self._successes.get(route))
        if success is None:
            if self._successes.pop(route, None) is not None:
                self._over -= {route}
            return
        self._successes[route] = success
        _count_since(success, tally)
        if (not tally.failing_since_ms) is not (route in self._over):
            self._over ^= {route}

    def _is_first(self, route: str) -> bool:
        """Whether *route* is seen by the first look, which tells of a past of unknown length."""
        return not self._looked and route not in self._counts

    _looked = False

    def _sample(self, route: str, before: int, now: int) -> None:
        if now == before:
            return
        now_s = self._clock.monotonic_s()
        samples = self._samples.get(route)
        if samples is None or now_s - samples[-1][0] >= SAMPLE_S:
            samples = self._samples.pop(route, None) or deque()
            samples.append((now_s, before))
            self._samples[route] = samples  # behind those whose last sample is older
        while len(samples) > 1 and now_s - samples[0][0] > RATE_S:
            samples.popleft()

    def _forget_rates(self) -> None:
        self._looked = True
        now_s = self._clock.monotonic_s()
        with self._lock:
            samples = self._samples
            while samples and now_s - samples[route := next(iter(samples))][-1][0] > RATE_S:
                del samples[route]
