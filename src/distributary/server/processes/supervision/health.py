"""Health checks and metrics over all processes: the answers of ``/readyz`` and ``/metrics``."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from distributary.core.clock import Clock
from distributary.core.meter import Families, Meter
from distributary.datadir import (
    ConsumerPhase,
    DataDir,
    MappedStatusPage,
    StatusField,
    is_sick,
    sickness_of,
)
from distributary.server.processes.base.owned import role_of

STALE_MS = 3_000
"""A process whose heartbeat is older than this is not running; a rollover takes 0.2 s."""
SILENT_MS = 2_000
"""The same for a receiver, whose heartbeat comes four times a second. From then on health
checks are answered in its place, and so within 3 s."""

HELPS = {
    "accepted_events_total": "Events answered 2xx: on disk",
    "accepted_requests_total": "Publishing requests answered 2xx",
    "answers_total": "Answers by HTTP status",
    "refusals_total": "Answers of our own by error code",
    "appended_records_total": "Records appended to the log (a batch is one)",
    "appended_bytes_total": "Bytes of the bodies of appended records",
    "commits_total": "Syncs of the log: requests share them",
    "namespace_events_total": "Events published, by namespace; default is left out without quotas",
    "namespace_event_bytes_total": "Bytes of these events as stored, or of their requests",
    "namespace_refusals_total": "Requests refused by a quota, by namespace and quota",
    "ack_seconds": "From a request read to its events durable",
    "append_queue_depth": "Appends that wait for their sync",
    "events_read_total": "Events that the pipeline looked at",
    "matches_total": "Matches of an event and a route",
    "delivered_total": "Matches delivered to their sink",
    "retried_total": "Attempts that will be made again",
    "replies_total": "Events that sinks answered with, taken by a Broker or a reply's sink",
    "replies_dropped_total": "Events that sinks answered with and that went nowhere, by reason",
    "dead_lettered_total": "Matches that ended at a dead letter sink, or in the store",
    "dropped_total": "Matches that ended without delivery, by reason",
    "spilled_total": "Unfinished matches moved to rows, so that the cursor could pass",
    "lags_begun_total": "Backfills begun because a sink took no more",
    "replays_begun_total": "Routes that began in the past",
    "given_up_total": "Matches and kept dead letters that a budget ended, by reason",
    "redriven_total": "Kept dead letters that were sent again because somebody asked for it",
    "parked_total": "Subscriptions that were parked because their sink answered 410",
    "lags_dropped_total": "Backfills that ended because their route was deleted",
    "lost_records_total": "Records that the pipeline met as a hole: damaged, or lost by the medium",
    "lag_lost_records_total": "The same, met by backfills",
    "retention_failures_total": "Times that old segments of the log could not be deleted",
    "retention_failing": "1 while they cannot: the log grows",
    "archive_late": "1 while retention waits for distributary archive: the log grows",
    "issuer_key_fetches_total": "Times that keys of token issuers were asked for, by result",
    "history_bytes": "Size of the history files",
    "history_files": "History files",
    "history_waiting_bytes": "History files on their way to the folder that the operator named",
    "history_lost_rows_total": (
        "Rows of history given up: their folder was out of reach, or their file vanished"
    ),
    "history_deleted_rows_total": "Rows of history deleted by the limits of age and size",
    "history_merged_files_total": "History files merged into larger ones",
    "log_damage_total": "Damaged stretches found when the log was opened",
    "journal_damage_total": "Damaged stretches found when a journal of outcomes was opened",
    "snapshots_left_out_total": "Snapshots of counters that could not be written (a full disk)",
    "received_bytes_total": "Bytes read from publishers and API clients",
    "relayed_requests_total": "Requests passed on to the API",
    "relay_failures_total": "Requests passed on that got no whole answer",
    "repeated_events_total": "Events answered 202 that are repeats (once_window_s)",
    "forwarded_requests_total": "Publishing requests that another receiver appended: its keys",
    "connections_total": "Connections accepted",
    "connections_refused_total": "Connections turned away by a limit",
    "connections_cut_total": "Connections closed by a deadline",
    "connections_open": "Connections that are open",
    "tls_handshake_failures_total": "TLS handshakes that failed, by listener and reason",
    "tls_handshakes_open": "TLS handshakes under way",
    "tls_certificate_not_after_seconds": "When the certificate in use expires (Unix time)",
    "watches_in_flight": "Connections of these that watch objects",
    "ingest_held_bytes": "Memory for bodies in use: half received, or waiting for their answer",
    "last_commit_seconds": "Length of the newest commit of the log",
    "log_accepts": "1 while the log takes events",
    "log_end_offset": "The record after the last durable one",
    "cursor_offset": "The durable cursor",
    "oldest_in_flight_seconds": "Age of the oldest attempt under way",
    "undecodable_records_total": "Records of events that could not be read",
    "void_rows_total": "Retry rows whose record the log does not hold any more",
    "delivery_latency_seconds": "From an event's append to its delivery",
    "attempt_duration_seconds": "Length of attempts",
    "lag_records": "Records between the durable end of the log and the cursor",
    "in_flight": "Attempts under way",
    "queued": "Tasks in destination queues",
    "lagging_routes": "Routes that are being backfilled",
    "waiting_retries": "Durable retry rows that wait",
    "ready": "1 while everything works",
    "partition_sick": "1 while the partition cannot be delivered; readiness says why",
    "process_restarts_total": "Times that a child process was started again",
    "epoch": "Epoch that the owner of the partition serves",
    "credential_refreshes_total": "Access tokens asked for at token endpoints, by result",
    "consent_questions_total": "HTTP sinks looked at or asked for consent, by result",
    "timers": "Timers that run",
    "timer_ticks_total": "Events that timers made, durable in the log",
    "timer_ticks_skipped_total": "Events that timers did not make, by reason",
    "lifecycle_events_total": "Changes of subscriptions told by events that the log has",
    "objects_reconciled_total": "Brokers, Triggers, Channels and Subscriptions looked at",
    "objects_reconciled_again_total": "Those of them that have to be looked at again",
    "source_messages_total": "Messages of sources, by what came of them: taken, refused, retried",
    "source_reading": "1 while a source is connected to its broker",
    "source_unsettled": "Messages that a source has taken and not settled",
    "subscription_delivered_total": "Matches delivered, by subscription or object",
    "subscription_dead_lettered_total": "Matches dead-lettered, by subscription or object",
    "subscription_dropped_total": "Matches dropped, by subscription or object",
    "subscription_attempts_failed_total": "Attempts that failed, by subscription or object",
    "subscription_failing": "1 while its deliveries fail; for all that are summed, how many do",
    "subscription_waiting": "Durable retry rows that wait, by subscription or object",
    "subscriptions_ended_total": "Subscriptions that ended by themselves, by reason",
    "telemetry_sent_total": "Spans, metric points and log lines that a collector took, by signal",
    "telemetry_dropped_total": "Spans, metric points and log lines given up, by signal and reason",
}


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
        self.count_more: Callable[[Meter], None] = lambda _meter: None
        """Adds metrics of other parts of this process."""

    def turned(self) -> None:
        """Record a heartbeat of the API's event loop; called several times a second."""
        self._turned_s = self._clock.monotonic_s()

    def forget(self) -> None:
        """Reset the status pages of an earlier run: no process is alive yet."""
        for status_page in (*self._status_pages, *self._ingest):
            status_page[StatusField.HEARTBEAT_MS] = 0
            status_page[StatusField.READY] = status_page[StatusField.FAILURES] = 0
            status_page[StatusField.PHASE] = ConsumerPhase.ABSENT

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
            elif self._age_ms(status_page) > STALE_MS:
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
        return all(page[StatusField.PHASE] == ConsumerPhase.RUNNING for page in self._ingest)

    def ingest_pid(self, receiver: int) -> int:
        """Process id of the last heartbeat of *receiver*; 0: none since ``forget``."""
        page = self._ingest[receiver]
        return page[StatusField.CONSUMER_PID] if page[StatusField.HEARTBEAT_MS] else 0

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

    def live_offset(self, partition: int) -> int:
        """Returns the next record of the live path of *partition*."""
        return self._status_pages[partition][StatusField.LIVE_OFFSET]

    def backlog(self) -> int:
        """Returns the number of records that the pipeline has not taken, over all partitions."""
        ends = [(self._end(number), page) for number, page in enumerate(self._status_pages)]
        return sum(max(0, end - page[StatusField.WATERMARK]) for end, page in ends if end)

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
                gauges[f"lag_records{label}"] = max(0, end - status_page[StatusField.WATERMARK])
            gauges[f"cursor_offset{label}"] = status_page[StatusField.WATERMARK]
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
