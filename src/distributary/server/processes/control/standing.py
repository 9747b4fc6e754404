"""Follows how subscriptions stand, in a thread, and counts them in the metrics."""

import threading
from collections.abc import Mapping
from typing import Any, Final

import structlog

from distributary.core.clock import Clock
from distributary.core.database import StorePlace
from distributary.core.errors import StoreError
from distributary.core.meter import Histogram, Meter, read_sums
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.datadir import DataDir
from distributary.datadir.shared_signs import signs_of
from distributary.knative.apiserver.objects import timestamp
from distributary.knative.reconcile import FailureFiles
from distributary.server.processes.control._shown_subscriptions import ShownSubscriptions
from distributary.server.processes.control._subscription_metrics import SubscriptionMetrics
from distributary.server.processes.control.views import Views
from distributary.server.processes.supervision.health import Health
from distributary.server.settings import Settings
from distributary.subscriptions.service import Runs, Statuses
from distributary.subscriptions.status import (
    LOOK_S,
    NOTHING,
    ServerNumbers,
    Standings,
    Watcher,
)
from distributary.subscriptions.store.store import Store

STOP_S: Final = 5.0
"""Longest wait for the thread at a stop: a look takes milliseconds, and a busy store seconds."""
COUNT_S: Final = 5.0
"""Shortest interval at which the metrics are summed."""
FORGET_S: Final = 60.0
"""Interval at which runs are forgotten that are over and old, or whose places others need."""
COUNT_SHARE: Final = 0.005
"""Share of a core that summing may take: the interval grows with the number of subscriptions, of
which 100,000 take some 50 ms."""
COUNT_S_MAX: Final = 60.0
"""Longest interval, however long summing took: a machine that stood still for seconds must not
have metrics of an hour ago."""
_ACCEPTED: Final = "namespace_events_total{"
_log = structlog.get_logger(__name__)


class StandingService:
    """Runs the watcher of all subscriptions and Triggers.

    Args:
        paths: Paths of the data directory.
        store: The resource store.
        clock: For the past.
        settings: When to disable, and how many have metrics.
        health: Knows the backlog; gets the metrics.
        views: Reads what owners keep.
        place: Where the resource store lies.

    Attributes:
        health: As given.
        readers: Of the deliveries of each partition.
        awaited: See ``Views.awaited``.
        watcher: Yields transitions.
        statuses: Reports the status of subscriptions.
        shown: Shows subscriptions in the Kubernetes API.
    """

    def __init__(
        self,
        paths: DataDir,
        store: Store,
        clock: Clock,
        settings: Settings,
        health: Health,
        *,
        views: Views,
        place: StorePlace,
    ) -> None:
        self._paths = paths
        self.health = health
        self._metrics = SubscriptionMetrics(settings.subscription_metrics_max)
        numbers = range(health.partitions)
        self.readers = views.deliveries
        self.awaited = views.awaited
        failing = [paths.failing(number) for number in numbers]
        self._files, self._sinks = FailureFiles(failing), dict[str, str]()
        self.watcher = Watcher(
            Standings(views.tallies, clock),
            store,
            clock,
            _log,
            server=self._numbers,
            sinks=self._failing_sinks,
            disable_after_s=settings.disable_after_s,
            may_have_news=signs_of(place.url),
        )
        self.statuses = Statuses(
            store,
            self.readers,
            failing,
            self.watcher,
            clock=clock,
            live=health.live_offset,
            awaited=self.awaited,
        )
        self.shown = ShownSubscriptions(store, self.statuses)
        self._counted: tuple[dict[str, float], dict[str, float]] = {}, {}
        self._clock, self._count_due_s = clock, float("-inf")
        self._runs, self._forget_due_s = Runs(store, clock, self.readers), float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standing", daemon=True)
        health.count_more = self.count

    def deliveries(self, uid: str) -> dict[str, Any] | None:
        """How the deliveries of the Trigger or messaging Subscription with this uid go.

        None: nothing has become of a match of it.
        """
        standing = self.watcher.standings.of(uid)
        tally = standing.tally
        if standing is NOTHING:
            return None
        found: dict[str, Any] = {"failing": standing.failing}
        if standing.failing:
            found["reason"] = tally.failing_reason
            found["failingSince"] = timestamp(tally.failing_since_ms)
        if tally.success_ms:
            found["lastSuccess"] = timestamp(tally.success_ms)
        return found | {
            "inFlight": tally.in_flight,
            "waiting": tally.waiting,
            "delivered": tally.delivered,
            "deadLettered": tally.dead_lettered,
            "dropped": tally.dropped,
        }

    def start(self) -> None:
        """Begin; every listener must be known."""
        self._thread.start()

    def stop(self) -> None:
        """Stop."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _run(self) -> None:
        away = False
        while not self._stopping.is_set():
            try:
                self.watcher.turn()
                away = False
                began_s = self._clock.monotonic_s()
                if began_s >= self._count_due_s:
                    self._counted = self._count()
                    took_s = self._clock.monotonic_s() - began_s
                    self._count_due_s = began_s + count_interval_s(took_s)
                if began_s >= self._forget_due_s:
                    self._forget_due_s = began_s + FORGET_S
                    self._runs.forget_ended()
            except StoreError as error:  # the next look sees what has changed
                if not away:
                    _log.warning("standing-unreadable", reason=str(error))
                away = True
            except Exception:  # noqa: BLE001 - said below
                # One look is lost, and the next one sees what has changed: without this thread
                # every status would stand still in silence.
                _log.exception("bug", where="standing")
            self._stopping.wait(LOOK_S)

    def _failing_sinks(self) -> Mapping[str, str]:
        found = self._files.look()
        if found is not None:
            self._sinks = {uid: row.dest for uid, row in found.items()}
        return self._sinks

    def _numbers(self) -> ServerNumbers:
        counters, histograms = read_sums(self._paths.meters())
        accepted: dict[str, float] = {}
        for name, count in counters.items():
            if name.startswith(_ACCEPTED):
                accepted[name.split('"')[1]] = count
        # The default namespace is counted by itself only where it has a quota.
        rest = counters.get("accepted_events_total", 0.0) - sum(accepted.values())
        accepted.setdefault(DEFAULT_NAMESPACE, max(0.0, rest))
        latency = histograms.get("delivery_latency_seconds") or Histogram()
        return ServerNumbers(accepted, self.health.backlog(), latency.bounds, latency.counts)

    def count(self, meter: Meter) -> None:
        """Add the metrics of subscriptions, some seconds old."""
        counters, gauges = self._counted
        meter.counters.update(counters)
        meter.gauges.update(gauges)

    def _count(self) -> tuple[dict[str, float], dict[str, float]]:
        watcher = self.watcher
        standings = watcher.standings
        return self._metrics.look(
            watcher.names(),
            standings.counts(),
            waiting=standings.waiting(),
            failing=watcher.failing().keys(),
        )


def count_interval_s(took_s: float) -> float:
    """The time from one summing of the metrics to the next, of which the first took *took_s*."""
    return min(max(COUNT_S, took_s / COUNT_SHARE), COUNT_S_MAX)
