"""Health checks and metrics over all processes: the answers of ``/readyz`` and ``/metrics``."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from distributary.core.clock import Clock
from distributary.core.meter import Families, Meter
from distributary.datadir import (
    DataDir,
    MappedStatusPage,
    Phase,
    StatusField,
    is_sick,
    sickness_of,
)
from distributary.server.processes.base.owned import role_of
from distributary.server.processes.supervision.metrics import HELPS

STALE_MS = 3_000
"""A process whose heartbeat is older than this is not running; a rollover takes 0.2 s."""
SILENT_MS = 2_000
"""The same for a receiver, whose heartbeat comes four times a second. From then on health
checks are answered in its place, and so within 3 s."""


class _Sign:
    """A heartbeat as it was seen last, and when it was seen to change, by our own clock."""

    __slots__ = ("_seen", "changed_s")

    def __init__(self) -> None:
        self._seen: int | None = None
        self.changed_s = float("-inf")

    def look(self, heartbeat_ms: int, now_s: float) -> None:
        """See the heartbeat; the first one may be that of an owner which is gone."""
        if self._seen is not None and heartbeat_ms != self._seen:
            self.changed_s = now_s
        self._seen = heartbeat_ms


class Health:
    """Reads the status pages of all processes.

    Args:
        paths: Paths of the data directory.
        partitions: Number of partitions of the log.
        clock: Gives the age of heartbeats.
        receivers: Number of receivers.
        end: Returns the record after the last durable one of a partition; None: not known. Never
            waits.
        behind: Returns why stored changes may be missing in the log; None: none are.
        restarts: Returns the number of restarts by child process.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        clock: Clock,
        *,
        receivers: int = 1,
        end: Callable[[int], int | None] = lambda _partition: None,
        behind: Callable[[], str | None],
        restarts: Callable[[], dict[str, int]],
    ) -> None:
        self.partitions = partitions
        self._paths = paths
        self._clock = clock
        self._behind = behind
        self._restarts = restarts
        self._status_pages = [
            MappedStatusPage(paths.status_page(number)) for number in range(partitions)
        ]
        self._ingest = [MappedStatusPage(paths.ingest_page(each)) for each in range(receivers)]
        self._end = end
        self._turned_s = clock.monotonic_s()
        self._signs = [_Sign() for _ in range(partitions)]
        self.count_more: Callable[[Meter], None] = lambda _meter: None
        """Adds metrics of other parts of this process."""

    def turned(self) -> None:
        """Record a heartbeat of the API's event loop; called several times a second."""
        self._turned_s = self._clock.monotonic_s()
        for sign, page in zip(self._signs, self._status_pages, strict=True):
            sign.look(page[StatusField.HEARTBEAT_MS], self._turned_s)

    def forget(self) -> None:
        """Reset the status pages of an earlier run: no process is alive yet."""
        for status_page in (*self._status_pages, *self._ingest):
            status_page[StatusField.HEARTBEAT_MS] = 0
            status_page[StatusField.READY] = status_page[StatusField.FAILURES] = 0
            status_page[StatusField.PHASE] = Phase.ABSENT

    def pipeline_ended(self) -> None:
        """Mark all partitions not ready: the pipeline's driver has ended."""
        for status_page in self._status_pages:
            status_page[StatusField.READY] = 0

    def ready(self) -> tuple[bool, list[str]]:
        """Returns whether events are accepted and delivered; if not, why."""
        reasons = ["the API does not answer"] if self._api_silent else []
        silent = [
            f"{role_of(number)} does not answer"
            for number, page in enumerate(self._ingest)
            if self._age_ms(page) > SILENT_MS
        ]
        reasons += silent
        if not silent and not self._log_accepts:
            reasons.append("the log takes no events (disk space?)")
        for number, status_page in enumerate(self._status_pages):
            if is_sick(status_page):
                reason = sickness_of(self._paths, number)
                reasons.append(
                    f"partition {number} cannot be delivered, and is tried again: {reason}"
                )
            elif not status_page[StatusField.READY]:
                reasons.append(f"partition {number}: the pipeline is starting")
            elif self._owner_age_ms(number) > STALE_MS:
                reasons.append(f"partition {number}: no sign of life of its owner")
        behind = self._behind()
        if behind is not None:
            reasons.append(f"route changes wait for the log: {behind}")
        return not reasons, reasons

    @property
    def ingest_silent(self) -> bool:
        """Whether every receiver has not started, or has a heartbeat that is too old."""
        return all(self._age_ms(page) > SILENT_MS for page in self._ingest)

    @property
    def _log_accepts(self) -> bool:
        return all(page[StatusField.PHASE] == Phase.RUNNING for page in self._ingest)

    def ingest_pid(self, receiver: int) -> int:
        """Process id of the last heartbeat of *receiver*; 0: none since ``forget``."""
        page = self._ingest[receiver]
        return page[StatusField.PID] if page[StatusField.HEARTBEAT_MS] else 0

    @property
    def pipeline_ready(self) -> bool:
        """Whether some partition is ready; stays so until ``pipeline_ended``."""
        return any(status_page[StatusField.READY] for status_page in self._status_pages)

    @property
    def ingest_began(self) -> bool:
        """Whether a receiver has written a heartbeat since ``forget``."""
        return any(page[StatusField.HEARTBEAT_MS] > 0 for page in self._ingest)

    @property
    def _api_silent(self) -> bool:
        return (self._clock.monotonic_s() - self._turned_s) * 1000 > STALE_MS

    def alive(self) -> tuple[bool, list[str]]:
        """Returns whether the API and a receiver respond; if not, why.

        A receiver that starts for the first time counts as alive.
        """
        reasons = ["the API does not answer"] if self._api_silent else []
        if self.ingest_silent and (self.ingest_began or self._restarts().get(role_of(0))):
            reasons.append("ingest does not answer")
        return not reasons, reasons

    def _age_ms(self, status_page: MappedStatusPage) -> int:
        # A wall clock that was set back must not make a dead process look alive.
        return abs(self._clock.wall_ms() - status_page[StatusField.HEARTBEAT_MS])

    def _owner_age_ms(self, partition: int) -> float:
        # An owner on another machine writes the time of that one's clock: that its heartbeat
        # has changed counts too.
        since_changed_s = self._clock.monotonic_s() - self._signs[partition].changed_s
        return min(self._age_ms(self._status_pages[partition]), since_changed_s * 1000)

    def live_offset(self, partition: int) -> int:
        """Returns the next record of the live path of *partition*."""
        return self._status_pages[partition][StatusField.LIVE_OFFSET]

    def backlog(self) -> int:
        """Returns the number of records that the pipeline has not taken, over all partitions."""
        ends = [(self._end(number), page) for number, page in enumerate(self._status_pages)]
        return sum(max(0, end - page[StatusField.COMMITTED_OFFSET]) for end, page in ends if end)

    def metrics(self, namespaces: AbstractSet[str] | None = None) -> bytes:
        """The metrics of ``families``, in the Prometheus text format."""
        return self.families(namespaces).render()

    def families(self, namespaces: AbstractSet[str] | None = None) -> Families:
        """Every metric of every process; with *namespaces* only the series of these."""
        meter = Meter()
        gauges = meter.gauges
        gauges["ready"] = float(self.ready()[0])
        gauges["log_accepts"] = float(self._log_accepts)
        for number, status_page in enumerate(self._status_pages):
            label = f'{{partition="{number}"}}'
            end = self._end(number)
            if end is not None:
                gauges[f"log_end_offset{label}"] = end
                gauges[f"lag_records{label}"] = max(
                    0, end - status_page[StatusField.COMMITTED_OFFSET]
                )
            gauges[f"cursor_offset{label}"] = status_page[StatusField.COMMITTED_OFFSET]
            gauges[f"in_flight{label}"] = status_page[StatusField.IN_FLIGHT]
            gauges[f"queued{label}"] = status_page[StatusField.QUEUED]
            gauges[f"lagging_routes{label}"] = status_page[StatusField.BACKFILLING]
            gauges[f"waiting_retries{label}"] = status_page[StatusField.WAITING]
            gauges[f"oldest_in_flight_seconds{label}"] = (
                status_page[StatusField.OLDEST_IN_FLIGHT_MS] / 1000
            )
            gauges[f"partition_sick{label}"] = float(is_sick(status_page))
            gauges[f"epoch{label}"] = status_page[StatusField.EPOCH]
        for role, count in self._restarts().items():
            meter.counters[f'process_restarts_total{{process="{role}"}}'] = count
        self.count_more(meter)
        return Families(self._paths.meters(), meter, HELPS, namespaces)
